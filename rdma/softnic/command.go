package softnic

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// call is one command in execution, under NIC.mu.
type call struct {
	file          *file
	nic           *NIC
	caller        Caller // nil: this process
	mem           memory
	req           uapi.Request
	name          string
	uhwIn, uhwOut uapi.Attr
	origin        origin
	trace         *commandTrace
}

const (
	einval    = syscall.EINVAL
	enoent    = syscall.ENOENT
	enomem    = syscall.ENOMEM
	efault    = syscall.EFAULT
	ebusy     = syscall.EBUSY
	ebadf     = syscall.EBADF
	enotsup   = syscall.EOPNOTSUPP
	eio       = syscall.EIO
	enodata   = syscall.ENODATA
	etimedout = syscall.ETIMEDOUT
)

// refuse is a command's error: the errno that the kernel gives, and why.
func refuse(errno syscall.Errno, format string, args ...any) error {
	return &uapi.RequestError{Errno: errno, Reason: fmt.Sprintf(format, args...)}
}

func pageSize() int { return hostmem.PageSize() }

type methodID = [2]uint16

// handlers are the methods this NIC has.
var handlers = map[methodID]func(*call) error{
	{uapi.ObjectDevice, uapi.MethodInvokeWrite}:         (*call).invokeWrite,
	{uapi.ObjectDevice, uapi.MethodQueryPort}:           (*call).queryPort,
	{uapi.ObjectDevice, uapi.MethodGetContext}:          (*call).getContext,
	{uapi.ObjectDevice, uapi.MethodQueryContext}:        (*call).queryContext,
	{uapi.ObjectDevice, uapi.MethodQueryGIDTable}:       (*call).queryGIDTable,
	{uapi.ObjectDevice, uapi.MethodQueryGIDEntry}:       (*call).queryGIDEntry,
	{uapi.ObjectAsyncEvent, uapi.MethodAsyncEventAlloc}: (*call).allocAsync,
	{uapi.ObjectPD, uapi.MethodPDDestroy}:               (*call).destroyPD,
	{uapi.ObjectAH, uapi.MethodAHDestroy}:               (*call).destroyAHNative,
	{uapi.ObjectMR, uapi.MethodMRDestroy}:               (*call).destroyMR,
	{uapi.ObjectMR, uapi.MethodQueryMR}:                 (*call).queryMR,
	{uapi.ObjectMR, uapi.MethodRegDmabufMR}:             (*call).registerDmabuf,
	{uapi.ObjectCQ, uapi.MethodCQCreate}:                (*call).createCQNative,
	{uapi.ObjectCQ, uapi.MethodCQDestroy}:               (*call).destroyCQNative,
	{uapi.ObjectQP, uapi.MethodQPCreate}:                (*call).createQPNative,
	{uapi.ObjectQP, uapi.MethodQPDestroy}:               (*call).destroyQPNative,
	{uapi.ObjectSRQ, uapi.MethodSRQCreate}:              (*call).createSRQNative,
	{uapi.ObjectSRQ, uapi.MethodSRQDestroy}:             (*call).destroySRQNative,
	{prm.ObjectUAR, prm.MethodUARAlloc}:                 (*call).allocUAR,
	{prm.ObjectUAR, prm.MethodUARDestroy}:               (*call).destroyUAR,
	{uapi.ObjectPD, prm.MethodPDQuery}:                  (*call).queryPD,
	{uapi.ObjectDevice, prm.MethodQueryPort}:            (*call).queryPortDriver,
}

// invokeMethod carries the legacy commands.
var invokeMethod = methodID{uapi.ObjectDevice, uapi.MethodInvokeWrite}

// destroyers are the methods that a device which has failed still has: the kernel
// takes the objects with the device and leaves their handles to be destroyed, each
// once and in any order.
var destroyers = map[methodID]bool{
	{uapi.ObjectPD, uapi.MethodPDDestroy}:   true,
	{uapi.ObjectAH, uapi.MethodAHDestroy}:   true,
	{uapi.ObjectMR, uapi.MethodMRDestroy}:   true,
	{uapi.ObjectCQ, uapi.MethodCQDestroy}:   true,
	{uapi.ObjectQP, uapi.MethodQPDestroy}:   true,
	{uapi.ObjectSRQ, uapi.MethodSRQDestroy}: true,
	{prm.ObjectUAR, prm.MethodUARDestroy}:   true,
}

// destroyingWrites are those of the legacy commands.
var destroyingWrites = map[uint32]bool{
	uapi.CmdDeallocPD: true, uapi.CmdDeregMR: true, uapi.CmdDestroyAH: true,
	uapi.CmdDestroyCQ: true, uapi.CmdDestroyQP: true, uapi.CmdDestroySRQ: true,
}

// oldMethods are those that a kernel of 5.4 has, without its experimental option.
var oldMethods = map[methodID]bool{
	{uapi.ObjectDevice, uapi.MethodInvokeWrite}: true,
	{uapi.ObjectDevice, uapi.MethodQueryPort}:   true,
	{uapi.ObjectPD, uapi.MethodPDDestroy}:       true,
	{uapi.ObjectAH, uapi.MethodAHDestroy}:       true,
	{uapi.ObjectMR, uapi.MethodMRDestroy}:       true,
}

// mlx5Methods are the core's methods that have attributes of the driver, and
// the driver's own.
func mlx5Methods() []uapi.Method {
	out := func(id, n uint16) uapi.Spec {
		return uapi.Spec{ID: id, Kind: uapi.Out, Mandatory: true, Min: n, Max: n}
	}
	extra := map[methodID]uapi.Spec{
		{uapi.ObjectDevice, uapi.MethodQueryContext}: {ID: prm.AttrQueryContextResponse, Kind: uapi.Out, Mandatory: true, Min: 1, Max: 0xffff},
		{uapi.ObjectCQ, uapi.MethodCQCreate}:         {ID: prm.AttrCreateCQPage, Kind: uapi.In, Min: 4, Max: 4},
	}
	methods := []uapi.Method{
		{Name: "UAR_ALLOC", Object: prm.ObjectUAR, ID: prm.MethodUARAlloc, Attrs: []uapi.Spec{
			{ID: prm.AttrUARHandle, Kind: uapi.NewObject, Mandatory: true},
			{ID: prm.AttrUARType, Kind: uapi.In, Mandatory: true, Min: 8, Max: 8},
			out(prm.AttrUARMapOffset, 8), out(prm.AttrUARMapLength, 4), out(prm.AttrUARPageNumber, 4),
		}},
		{Name: "UAR_DESTROY", Object: prm.ObjectUAR, ID: prm.MethodUARDestroy, Attrs: []uapi.Spec{
			{ID: prm.AttrUARDestroyHandle, Kind: uapi.Object, Mandatory: true},
		}},
		{Name: "PD_QUERY", Object: uapi.ObjectPD, ID: prm.MethodPDQuery, Attrs: []uapi.Spec{
			{ID: prm.AttrQueryPDHandle, Kind: uapi.Object, Mandatory: true},
			out(prm.AttrQueryPDNumber, 4),
		}},
		{Name: "MLX5_QUERY_PORT", Object: uapi.ObjectDevice, ID: prm.MethodQueryPort, Attrs: []uapi.Spec{
			{ID: prm.AttrQueryPortNumber, Kind: uapi.In, Mandatory: true, Min: 4, Max: 4},
			{ID: prm.AttrQueryPortResponse, Kind: uapi.Out, Mandatory: true, ZeroTail: true,
				Min: uint16(uapi.Size[prm.QueryPortResponse]()), Max: uint16(uapi.Size[prm.QueryPortResponse]())},
		}},
	}
	for _, m := range uapi.CoreMethods() {
		if s, ok := extra[methodID{m.Object, m.ID}]; ok {
			m.Attrs = append(m.Attrs, s)
		}
		methods = append(methods, m)
	}
	return methods
}

// methodTable is what Match checks commands against: the methods with a handler.
func methodTable(old bool) *uapi.Table {
	var methods []uapi.Method
	for _, m := range mlx5Methods() {
		id := methodID{m.Object, m.ID}
		if handlers[id] != nil && (!old || oldMethods[id]) {
			methods = append(methods, m)
		}
	}
	return uapi.NewTable(methods...)
}

// needContext refuses a command of a file without context.
func (c *call) needContext() error {
	if !c.file.context {
		return refuse(einval, "no context")
	}
	return nil
}

// in copies an input into a structure, and zeroes what it does not have.
func in[T any](c *call, a uapi.Attr) (v T, err error) {
	err = a.CopyIn(c.mem, uapi.Bytes(&v))
	return v, err
}

// word is the value of an input of 4 or 8 bytes, which lies in the attribute; an
// absent one is 0.
func (c *call) word(id uint16) uint64 {
	switch b := c.req.Find(id).Inline(); len(b) {
	case 8:
		return binary.NativeEndian.Uint64(b)
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return 0
}

// core is in for the core's structure of a legacy command, whose unknown tail
// must be zero.
func core[T any](c *call, a uapi.Attr) (v T, err error) {
	err = a.CopyCore(c.mem, uapi.Bytes(&v))
	return v, err
}

// out writes a structure to an output.
func out[T any](c *call, a uapi.Attr, v T) error { return a.CopyOut(c.mem, uapi.Bytes(&v)) }

// output is out for an attribute given by its id.
func output[T any](c *call, id uint16, v T) error { return out(c, c.req.Find(id), v) }

// mandatoryOut is out for a driver's response that the kernel copies in any case.
func mandatoryOut[T any](c *call, v T) error {
	if c.uhwOut.Len() < uapi.Size[T]() {
		return refuse(efault, "driver response of %d bytes, kernel writes %d", c.uhwOut.Len(), uapi.Size[T]())
	}
	return out(c, c.uhwOut, v)
}

// write is a legacy command: what INVOKE_WRITE carries.
type write func(*call, uapi.Invoke) error

var writes = map[uint32]write{
	uapi.CmdGetContext:        (*call).getContextLegacy,
	uapi.CmdQueryDevice:       (*call).queryDevice,
	uapi.CmdExQueryDevice:     (*call).queryDeviceEx,
	uapi.CmdQueryPort:         (*call).queryPortLegacy,
	uapi.CmdAllocPD:           (*call).allocPD,
	uapi.CmdDeallocPD:         (*call).deallocPD,
	uapi.CmdRegMR:             (*call).registerMR,
	uapi.CmdReregMR:           (*call).reregisterMR,
	uapi.CmdDeregMR:           (*call).deregisterMR,
	uapi.CmdCreateAH:          (*call).createAH,
	uapi.CmdDestroyAH:         (*call).destroyAH,
	uapi.CmdCreateCompChannel: (*call).createChannel,
	uapi.CmdCreateCQ:          (*call).createCQ,
	uapi.CmdExCreateCQ:        (*call).createCQEx,
	uapi.CmdResizeCQ:          (*call).resizeCQ,
	uapi.CmdExModifyCQ:        (*call).modifyCQ,
	uapi.CmdDestroyCQ:         (*call).destroyCQ,
	uapi.CmdCreateQP:          (*call).createQP,
	uapi.CmdExCreateQP:        (*call).createQPEx,
	uapi.CmdModifyQP:          (*call).modifyQP,
	uapi.CmdExModifyQP:        (*call).modifyQPEx,
	uapi.CmdQueryQP:           (*call).queryQP,
	uapi.CmdDestroyQP:         (*call).destroyQP,
	uapi.CmdCreateSRQ:         (*call).createSRQ,
	uapi.CmdModifySRQ:         (*call).modifySRQ,
	uapi.CmdQuerySRQ:          (*call).querySRQ,
	uapi.CmdDestroySRQ:        (*call).destroySRQ,
}

func (c *call) invokeWrite() error {
	inv, err := c.req.Invoke()
	if err != nil {
		return err
	}
	c.name = inv.Name
	w := writes[inv.Cmd]
	if w == nil {
		return refuse(enotsup, "%s is not supported", inv.Name)
	}
	switch {
	case c.nic.failed && !destroyingWrites[inv.Cmd]:
		return refuse(eio, "device has failed")
	case !c.nic.failed && inv.Cmd != uapi.CmdGetContext:
		if err := c.needContext(); err != nil {
			return err
		}
	}
	return w(c, inv)
}
