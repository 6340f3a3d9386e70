package conformance

import (
	"encoding/binary"
	"fmt"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// decoder turns what one side said into acts.
type decoder struct {
	*names
	records map[string]uint64    // addresses of the doorbell records in use, by name
	rings   map[string]*sendRing // by their queue pairs' names
}

func newDecoder() *decoder {
	return &decoder{newNames(), map[string]uint64{}, map[string]*sendRing{}}
}

// commands are the names of commands. A native one has the object and the method in
// place of the number.
var commands = map[uint32]string{
	uapi.CmdGetContext:        "get context",
	uapi.CmdQueryDevice:       "query device",
	uapi.CmdExQueryDevice:     "query device",
	uapi.CmdQueryPort:         "query port",
	uapi.CmdAllocPD:           "allocate protection domain",
	uapi.CmdDeallocPD:         "free protection domain",
	uapi.CmdRegMR:             "register memory",
	uapi.CmdDeregMR:           "deregister memory",
	uapi.CmdCreateCompChannel: "create completion channel",
	uapi.CmdCreateCQ:          "create completion queue",
	uapi.CmdExCreateCQ:        "create completion queue",
	uapi.CmdDestroyCQ:         "destroy completion queue",
	uapi.CmdCreateSRQ:         "create shared receive queue",
	uapi.CmdModifySRQ:         "modify shared receive queue",
	uapi.CmdDestroySRQ:        "destroy shared receive queue",
	uapi.CmdCreateQP:          "create queue pair",
	uapi.CmdExCreateQP:        "create queue pair",
	uapi.CmdModifyQP:          "modify queue pair",
	uapi.CmdExModifyQP:        "modify queue pair",
	uapi.CmdQueryQP:           "query queue pair",
	uapi.CmdDestroyQP:         "destroy queue pair",
}

// native is a native method: its name and those of its inputs, which are what the
// command's structure calls them.
type native struct {
	name  string
	attrs map[uint16]string
}

var natives = map[[2]uint16]native{
	{uapi.ObjectDevice, uapi.MethodGetContext}: {"get context", nil},
	{uapi.ObjectDevice, uapi.MethodQueryPort}: {"query port", map[uint16]string{
		uapi.AttrQueryPortPort: "PortNum"}},
	{uapi.ObjectDevice, uapi.MethodQueryGIDTable}: {"query GID table", map[uint16]string{
		uapi.AttrGIDTableEntrySize: "EntrySize", uapi.AttrGIDTableFlags: "Flags"}},
	{uapi.ObjectAsyncEvent, uapi.MethodAsyncEventAlloc}: {"allocate asynchronous events", nil},
	{uapi.ObjectPD, uapi.MethodPDDestroy}: {"free protection domain", map[uint16]string{
		uapi.AttrDestroyPDHandle: "PDHandle"}},
	{uapi.ObjectMR, uapi.MethodMRDestroy}: {"deregister memory", map[uint16]string{
		uapi.AttrDestroyMRHandle: "MRHandle"}},
	{uapi.ObjectCQ, uapi.MethodCQCreate}: {"create completion queue", map[uint16]string{
		uapi.AttrCreateCQCQE: "Cqe", uapi.AttrCreateCQUserHandle: "UserHandle", uapi.AttrCreateCQCompChannel: "CompChannel",
		uapi.AttrCreateCQCompVector: "CompVector", uapi.AttrCreateCQFlags: "Flags", uapi.AttrCreateCQEventFD: "AsyncFD"}},
	{uapi.ObjectCQ, uapi.MethodCQDestroy}: {"destroy completion queue", map[uint16]string{
		uapi.AttrDestroyCQHandle: "CQHandle"}},
	{uapi.ObjectSRQ, uapi.MethodSRQCreate}: {"create shared receive queue", map[uint16]string{
		uapi.AttrCreateSRQPD: "PDHandle", uapi.AttrCreateSRQUserHandle: "UserHandle", uapi.AttrCreateSRQMaxWR: "MaxWR",
		uapi.AttrCreateSRQMaxSGE: "MaxSGE", uapi.AttrCreateSRQLimit: "SRQLimit", uapi.AttrCreateSRQType: "Type",
		uapi.AttrCreateSRQEventFD: "AsyncFD"}},
	{uapi.ObjectSRQ, uapi.MethodSRQDestroy}: {"destroy shared receive queue", map[uint16]string{
		uapi.AttrDestroySRQHandle: "SRQHandle"}},
	{uapi.ObjectQP, uapi.MethodQPCreate}: {"create queue pair", map[uint16]string{
		uapi.AttrCreateQPPD: "PDHandle", uapi.AttrCreateQPSRQ: "SRQHandle", uapi.AttrCreateQPSendCQ: "SendCQHandle",
		uapi.AttrCreateQPRecvCQ: "RecvCQHandle", uapi.AttrCreateQPUserHandle: "UserHandle", uapi.AttrCreateQPType: "QPType",
		uapi.AttrCreateQPFlags: "CreateFlags", uapi.AttrCreateQPSourceQPN: "SourceQpn", uapi.AttrCreateQPEventFD: "AsyncFD"}},
	{uapi.ObjectQP, uapi.MethodQPDestroy}: {"destroy queue pair", map[uint16]string{
		uapi.AttrDestroyQPHandle: "QPHandle"}},
	{devx, devxMethodOther}: {"raw command", nil},
	{prm.ObjectUAR, prm.MethodUARAlloc}: {"allocate doorbell page", map[uint16]string{
		prm.AttrUARType: "Type"}},
	{prm.ObjectUAR, prm.MethodUARDestroy}: {"free doorbell page", map[uint16]string{
		prm.AttrUARDestroyHandle: "UARHandle"}},
}

// The raw command interface (rdma/mlx5_user_ioctl_cmds.h, MLX5_IB_OBJECT_DEVX and
// MLX5_IB_METHOD_DEVX_OTHER).
const devx, devxMethodOther = 0x1000, 0x1000

// command is what a command says, but for its outputs. Those that make objects name
// them for what comes later.
func (d *decoder) command(r *trace.Record) *act {
	c, a := r.Command, &act{}
	write := c.Object == uapi.ObjectDevice && c.Method == uapi.MethodInvokeWrite
	method, isNative := natives[[2]uint16{c.Object, c.Method}]
	form := fmt.Sprintf("write %#x", c.Write)
	switch {
	case write:
		a.what = commands[c.Write]
	case isNative:
		a.what, form = method.name, "native"
	}
	if a.what == "" {
		a.what = fmt.Sprintf("object %#x method %#x command %#x", c.Object, c.Method, c.Write)
	}
	a.add("form", "%s", form)
	driver := input(c, uapi.AttrUHWIn)
	if r.Errno == 0 {
		d.announce(a.what, c, driver)
	}
	if write {
		d.core(a, c)
	} else {
		d.inputs(a, c, method)
	}
	d.driver(a, driver)
	a.ignorable(c, method)
	a.room(c, write)
	if r.Errno != 0 {
		a.what += ", refused"
		return a
	}
	d.made(a.what, c)
	return a
}

func input(c *trace.Command, id uint16) []byte {
	if v := c.Find(id); v != nil {
		return v.In
	}
	return nil
}

func output(c *trace.Command, id uint16) []byte {
	if v := c.Find(id); v != nil {
		return v.Out
	}
	return nil
}

// view is the struct T that b holds, 0 where b is too short.
func view[T any](b []byte) (v T) {
	copy(uapi.Bytes(&v), b)
	return v
}

// core adds the fields of a write command's structure.
func (d *decoder) core(a *act, c *trace.Command) {
	b := input(c, uapi.AttrCoreIn)
	switch c.Write {
	case uapi.CmdGetContext:
		fields[uapi.GetContext](a, d.names, "", b)
	case uapi.CmdQueryDevice:
		fields[uapi.QueryDevice](a, d.names, "", b)
	case uapi.CmdExQueryDevice:
		fields[uapi.ExQueryDevice](a, d.names, "", b)
	case uapi.CmdQueryPort:
		fields[uapi.QueryPort](a, d.names, "", b)
	case uapi.CmdAllocPD:
		fields[uapi.AllocPD](a, d.names, "", b)
	case uapi.CmdDeallocPD:
		fields[uapi.DeallocPD](a, d.names, "", b)
	case uapi.CmdRegMR:
		fields[uapi.RegMR](a, d.names, "", b)
	case uapi.CmdDeregMR:
		fields[uapi.DeregMR](a, d.names, "", b)
	case uapi.CmdCreateCompChannel:
		fields[uapi.CreateCompChannel](a, d.names, "", b)
	case uapi.CmdCreateCQ:
		fields[uapi.CreateCQ](a, d.names, "", b)
	case uapi.CmdExCreateCQ:
		fields[uapi.ExCreateCQ](a, d.names, "", b)
	case uapi.CmdDestroyCQ:
		fields[uapi.DestroyCQ](a, d.names, "", b)
	case uapi.CmdCreateSRQ:
		fields[uapi.CreateSRQ](a, d.names, "", b)
	case uapi.CmdModifySRQ:
		fields[uapi.ModifySRQ](a, d.names, "", b)
	case uapi.CmdDestroySRQ:
		fields[uapi.DestroySRQ](a, d.names, "", b)
	case uapi.CmdCreateQP:
		fields[uapi.CreateQP](a, d.names, "", b)
	case uapi.CmdExCreateQP:
		fields[uapi.ExCreateQP](a, d.names, "", b)
	case uapi.CmdModifyQP:
		fields[uapi.ModifyQP](a, d.names, "", b)
	case uapi.CmdQueryQP:
		fields[uapi.QueryQP](a, d.names, "", b)
	case uapi.CmdDestroyQP:
		fields[uapi.DestroyQP](a, d.names, "", b)
	default:
		a.add("bytes", "%x", b)
	}
}

// inputs adds those of a native method.
func (d *decoder) inputs(a *act, c *trace.Command, m native) {
	for _, v := range c.Attrs {
		name := m.attrs[v.ID]
		switch {
		case c.Object == uapi.ObjectQP && v.ID == uapi.AttrCreateQPCap:
			fields[uapi.QPCap](a, d.names, "", v.In)
		case name == "":
		case v.Length == 0: // an object or a descriptor
			a.add(name, "%s", d.number(name, v.Data))
		default:
			a.add(name, "%s", d.number(name, word(v.In)))
		}
	}
}

// ignorable adds which attributes a kernel that does not know them may ignore.
func (a *act) ignorable(c *trace.Command, m native) {
	for _, v := range c.Attrs {
		name := m.attrs[v.ID]
		if name == "" {
			name = fmt.Sprintf("attribute %#x", v.ID)
		}
		if v.Flags&uapi.FlagMandatory == 0 {
			a.add(name+" may be ignored", "yes")
		}
	}
}

// word is a number of 4 or 8 bytes.
func word(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.NativeEndian.Uint64(w[:])
}

// driver adds the fields of the driver's request.
func (d *decoder) driver(a *act, b []byte) {
	const prefix = "driver."
	switch {
	case a.what == "get context":
		fields[prm.AllocContextRequest](a, d.names, prefix, b)
	case a.what == "create completion queue":
		fields[prm.CreateCQRequest](a, d.names, prefix, b)
	case a.what == "create shared receive queue":
		fields[prm.CreateSRQRequest](a, d.names, prefix, b)
	case a.what == "create queue pair":
		fields[prm.CreateQPRequest](a, d.names, prefix, b)
	case len(b) > 0:
		a.add(prefix+"bytes", "%x", b)
	}
}

// room adds how much of an answer there is room for.
func (a *act) room(c *trace.Command, write bool) {
	if v := c.Find(uapi.AttrUHWOut); v != nil {
		a.add("room for the driver's response", "%d", v.Length)
	}
	if v := c.Find(uapi.AttrCoreOut); v != nil && write {
		a.add(coreRoom, "%d", v.Length)
	}
}

// coreRoom is a field that only write commands have, and that means something only
// beside another one.
const coreRoom = "room for the response"
