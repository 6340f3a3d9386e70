package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/stretchr/testify/require"
)

func TestKernelProbe(t *testing.T) {
	_, f := softRoCE(t)
	defer f.Close()
	id, err := ProbeDriver(f, DriverMLX5, DriverRXE)
	require.NoError(t, err)
	require.Equal(t, DriverRXE, id)
}

// TestKernelLifeCycle creates one of everything, sees a completion and its
// event, and takes it apart again.
func TestKernelLifeCycle(t *testing.T) {
	d, f := softRoCE(t)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	require.Positive(t, c.NumCompVectors())

	attr, err := c.QueryDevice()
	require.NoError(t, err)
	require.Equal(t, len(d.Ports), attr.Ports)
	require.Equal(t, d.NodeGUID, guidText(attr.NodeGUID))
	if ex, err := c.QueryDeviceEx(nil, nil); !errors.Is(err, errors.ErrUnsupported) { // Linux 5.4's Soft-RoCE has none
		require.NoError(t, err)
		require.Equal(t, attr, ex.DeviceAttr)
	}
	port, err := c.QueryPort(1)
	require.NoError(t, err)
	require.Equal(t, PortActive, port.State)
	require.Equal(t, LinkEthernet, port.LinkLayer)
	require.True(t, port.ActiveMTU.Valid())
	_, err = c.QueryPort(99)
	require.ErrorIs(t, err, syscall.EINVAL)
	compareGIDs(t, c, d)

	pd, err := c.AllocPD(nil)
	require.NoError(t, err)
	mem, err := hostmem.Alloc(8192)
	require.NoError(t, err)
	mr, err := c.RegMR(RegMR{PD: pd, Addr: mem.Addr(), IOVA: mem.Addr(), Length: 8192, Access: AccessLocalWrite | AccessRelaxedOrdering})
	require.NoError(t, err)
	require.NotZero(t, mr.LKey)
	_, err = c.RegMR(RegMR{PD: pd, Addr: mem.Addr(), IOVA: mem.Addr(), Length: 8192, Access: AccessRemoteWrite})
	require.ErrorIs(t, err, syscall.EINVAL, "remote write needs local write")

	channel, err := c.CreateCompChannel()
	require.NoError(t, err)
	cqInfo := make([]byte, 16)
	cq, err := c.CreateCQ(CreateCQ{UserHandle: 77, Entries: 16, Channel: channel, Out: cqInfo})
	require.NoError(t, err)
	require.GreaterOrEqual(t, cq.Entries, uint32(16))
	qpInfo := make([]byte, 32)
	qp, err := c.CreateQP(CreateQP{UserHandle: 78, PD: pd, SendCQ: cq.Handle, RecvCQ: cq.Handle, Type: RC,
		Cap: QPCap{SendWR: 4, RecvWR: 4, SendSGE: 1, RecvSGE: 1}, Out: qpInfo})
	require.NoError(t, err)
	require.GreaterOrEqual(t, qp.Cap.RecvWR, uint32(4))
	_, _, err = c.DestroyCQ(cq.Handle)
	require.ErrorIs(t, err, syscall.EBUSY)

	init := QPAttr{State: StateInit, Port: 1, Access: AccessRemoteWrite}
	require.ErrorIs(t, c.ModifyQP(qp.Handle, init, MaskState), syscall.EINVAL, "mask lacks bits")
	require.NoError(t, c.ModifyQP(qp.Handle, init, MaskResetToInit))
	got, _, err := c.QueryQP(qp.Handle, MaskState)
	require.NoError(t, err)
	require.Equal(t, StateInit, got.State)
	require.Equal(t, uint8(1), got.Port)

	rq := mapQueue(t, c, qpInfo)
	sq := mapQueue(t, c, qpInfo[16:])
	cqes := mapQueue(t, c, cqInfo)
	require.NoError(t, c.ReqNotifyCQ(cq.Handle, false))
	rq.produce(le(uint64(0xabc))) // an empty receive: its id, and zeros
	require.NoError(t, c.ModifyQP(qp.Handle, QPAttr{State: StateErr}, MaskState))
	requireNoObject(t, c.PostSend(0xffff))

	require.NoError(t, channel.SetReadDeadline(time.Now().Add(10*time.Second)))
	record := make([]byte, 64)
	n, err := channel.Read(record)
	require.NoError(t, err)
	handle, err := ParseCompEvent(record[:n])
	require.NoError(t, err)
	require.Equal(t, uint64(77), handle)
	wc := cqes.consumed(t)
	require.Equal(t, uint64(0xabc), wc.WRID)
	require.Equal(t, Flushed, Status(wc.Status))

	_, err = c.DestroyQP(qp.Handle)
	require.NoError(t, err)
	_, err = c.DestroyQP(qp.Handle)
	requireNoObject(t, err)
	comp, _, err := c.DestroyCQ(cq.Handle)
	require.NoError(t, err)
	require.Equal(t, uint32(1), comp, "events that were read")
	require.NoError(t, channel.Close())
	require.NoError(t, c.DeregMR(mr.Handle))
	require.NoError(t, c.DeallocPD(pd))
	for _, q := range []queue{rq, sq, cqes} {
		require.NoError(t, q.page.Unmap())
	}

	require.NoError(t, c.Async().SetReadDeadline(time.Now()))
	_, err = c.Async().Read(record)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.Close())
	require.NoError(t, mem.Free())
}

// requireNoObject checks the error of a handle that names nothing: it depends on
// the command and the kernel.
func requireNoObject(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, syscall.ENOENT) {
		require.ErrorIs(t, err, syscall.EINVAL)
	}
}

func guidText(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// The two ways to read the GID table agree.
func compareGIDs(t *testing.T, c *Context, d Device) {
	table, err := c.GIDs(1)
	if errors.Is(err, errors.ErrUnsupported) {
		return // before Linux 5.10
	}
	require.NoError(t, err)
	require.Len(t, table, len(d.Ports[0].GIDs))
	for i, g := range d.Ports[0].GIDs {
		require.Equal(t, g.GID, table[i].GID)
		require.Equal(t, g.Index, table[i].Index)
		require.Equal(t, g.Type, table[i].Type)
	}
}

// A queue is one of Soft-RoCE's mapped queues: a header with the size of an
// element (log 2) at 0, the producer's index at 128 and the consumer's at 256,
// then elements from 384 (include/uapi/rdma/rdma_user_rxe.h, rxe_queue_buf).
type queue struct{ page *Page }

// mapQueue maps the queue that info describes: offset, then size.
func mapQueue(t *testing.T, c *Context, info []byte) queue {
	t.Helper()
	p, err := c.Map(int64(binary.NativeEndian.Uint64(info)), int(binary.NativeEndian.Uint32(info[8:])))
	require.NoError(t, err)
	return queue{p}
}

func (q queue) produce(element []byte) {
	slot := q.page.Mem[384:][:1<<binary.NativeEndian.Uint32(q.page.Mem)]
	clear(slot)
	copy(slot, element)
	atomic.StoreUint32(hostmem.Word32(q.page.Mem[128:132]), 1)
}

func (q queue) consumed(t *testing.T) (wc uapi.WorkCompletion) {
	require.Equal(t, uint32(1), atomic.LoadUint32(hostmem.Word32(q.page.Mem[128:132])))
	copy(uapi.Bytes(&wc), q.page.Mem[384:])
	return wc
}

// TestKernelRefusals spoils commands in every way and compares the kernel's
// errno with that of the decoder that the software NIC uses.
func TestKernelRefusals(t *testing.T) {
	_, f := softRoCE(t)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	defer c.Close()
	mem, err := hostmem.Alloc(8192)
	require.NoError(t, err)
	defer mem.Free()

	table := uapi.NewTable(uapi.CoreMethods()...)
	compared := 0
	for name, build := range refusalCommands {
		for _, sp := range spoils(build(mem)) {
			cmd := build(mem)
			cmd = sp.do(cmd, mem)
			want := decode(table, cmd)
			got := f.Ioctl(cmd)
			if errors.Is(got, syscall.EPROTONOSUPPORT) && want == nil {
				continue // the method is newer than this kernel
			}
			compared++
			content := sp.content || strings.HasPrefix(sp.name, "attribute 0x2 ") && name == "QUERY_GID_TABLE" // too short a table
			if want == nil && (got == nil || content) {
				continue
			}
			if !errors.Is(want, errnoIn(got)) {
				t.Errorf("%s, %s: kernel says %v, decoder %v", name, sp.name, got, want)
			}
		}
	}
	t.Log(compared, "commands compared")
	require.Greater(t, compared, 100)
}

func errnoIn(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}

// decode is what the software NIC does before it executes a command.
func decode(table *uapi.Table, cmd []byte) error {
	r, err := uapi.Parse(cmd)
	if err != nil {
		return err
	}
	m, err := table.Match(r, uapi.DriverRXE, hostMemory{})
	if err != nil || m.Name != "INVOKE_WRITE" {
		return err
	}
	inv, err := r.Invoke()
	if err != nil {
		return err
	}
	return inv.Core.CopyCore(hostMemory{}, make([]byte, inv.In))
}

// refusalCommands succeed as they are and change nothing.
var refusalCommands = map[string]func(mem *hostmem.Memory) []byte{
	"QUERY_PORT by INVOKE_WRITE": func(mem *hostmem.Memory) []byte {
		return command(mem, uapi.ObjectDevice, uapi.MethodInvokeWrite, func(c *uapi.Command) {
			c.Const(uapi.AttrWriteCmd, uapi.CmdQueryPort)
			c.In(uapi.AttrCoreIn, uapi.Bytes(&uapi.QueryPort{PortNum: 1}))
			c.Out(uapi.AttrCoreOut, 40)
		})
	},
	"QUERY_DEVICE by INVOKE_WRITE": func(mem *hostmem.Memory) []byte {
		return command(mem, uapi.ObjectDevice, uapi.MethodInvokeWrite, func(c *uapi.Command) {
			c.Const(uapi.AttrWriteCmd, uapi.CmdQueryDevice)
			c.In(uapi.AttrCoreIn, make([]byte, 8))
			c.Out(uapi.AttrCoreOut, 176)
			c.In(uapi.AttrUHWIn, make([]byte, 12))
		})
	},
	"QUERY_PORT": func(mem *hostmem.Memory) []byte {
		return command(mem, uapi.ObjectDevice, uapi.MethodQueryPort, func(c *uapi.Command) {
			c.Const(uapi.AttrQueryPortPort, 1)
			c.Out(uapi.AttrQueryPortResp, 48)
		})
	},
	"QUERY_GID_TABLE": func(mem *hostmem.Memory) []byte {
		return command(mem, uapi.ObjectDevice, uapi.MethodQueryGIDTable, func(c *uapi.Command) {
			c.Const(uapi.AttrGIDTableEntrySize, 32)
			c.In(uapi.AttrGIDTableFlags, make([]byte, 4))
			c.Out(uapi.AttrGIDTableEntries, 4096)
			c.Out(uapi.AttrGIDTableNumEntries, 8)
		})
	},
	"QUERY_GID_ENTRY": func(mem *hostmem.Memory) []byte {
		return command(mem, uapi.ObjectDevice, uapi.MethodQueryGIDEntry, func(c *uapi.Command) {
			c.Const(uapi.AttrGIDEntryPort, 1)
			c.Const(uapi.AttrGIDEntryIndex, 0)
			c.In(uapi.AttrGIDEntryFlags, make([]byte, 4))
			c.Out(uapi.AttrGIDEntryResp, 32)
		})
	},
}

func command(mem *hostmem.Memory, object, method uint16, build func(c *uapi.Command)) []byte {
	var c uapi.Command
	c.Begin(mem.Bytes(), mem.Addr(), object, method, uapi.DriverRXE)
	build(&c)
	b, err := c.Bytes()
	if err != nil {
		panic(err)
	}
	return b
}

type spoil struct {
	name    string
	content bool // well formed: the method itself may refuse what it says
	do      func(cmd []byte, mem *hostmem.Memory) []byte
}

// spoils returns what can be done to a command like cmd: nothing, each field of
// the header, and each field of each attribute.
func spoils(cmd []byte) []spoil {
	all := []spoil{{"unspoilt", false, func(cmd []byte, _ *hostmem.Memory) []byte { return cmd }}}
	set := func(name string, at int, v ...byte) {
		all = append(all, spoil{name, false, func(cmd []byte, _ *hostmem.Memory) []byte { copy(cmd[at:], v); return cmd }})
	}
	set("length 0", 0, 0, 0)
	set("length one more", 0, byte(len(cmd)+1))
	set("object", 2, 0x77, 0)
	set("method", 4, 0x77, 0)
	set("fewer attributes", 6, 0, 0)
	set("reserved1", 12, 1)
	set("driver", 16, 1)
	set("reserved2", 20, 1)
	set("reserved2 and wrong length", 0, append([]byte{1, 0}, append(append([]byte(nil), cmd[2:20]...), 1)...)...)
	for at := uapi.HeaderSize; at < len(cmd); at += uapi.AttrSize {
		name := fmt.Sprintf("attribute %#x ", binary.NativeEndian.Uint16(cmd[at:]))
		for _, n := range []uint16{0, 1, 2, 4, 7, 8, 9, 12, 16, 24, 31, 39, 40, 41, 47, 48, 49, 64, 200} {
			set(fmt.Sprintf("%slength %d", name, n), at+2, byte(n), 0)
		}
		set(name+"reserved", at+6, 1)
		set(name+"element", at+7, 1)
		set(name+"unknown and mandatory", at, 0x77, 0)
		set(name+"unknown", at, 0x77, 0, cmd[at+2], cmd[at+3], 0)
		set(name+"unknown and reserved", at, 0x77, 0, cmd[at+2], cmd[at+3], 0, 0, 1)
		set(name+"optional", at+4, 0)
		set(name+"value", at+8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		all[len(all)-1].content = true
		all = append(all, spoil{name + "twice", false, func(cmd []byte, mem *hostmem.Memory) []byte {
			return appendAttr(cmd, mem, cmd[at:at+uapi.AttrSize])
		}})
		all = append(all, spoil{name + "with a tail", false, func(cmd []byte, mem *hostmem.Memory) []byte {
			long := mem.Bytes()[4096:][:200]
			clear(long)
			copy(long, hostMemoryOf(cmd[at:]))
			long[199] = 1
			binary.NativeEndian.PutUint16(cmd[at+2:], 200)
			binary.NativeEndian.PutUint64(cmd[at+8:], mem.Addr()+4096)
			return cmd
		}})
	}
	return all
}

// hostMemoryOf returns what an input attribute carries now.
func hostMemoryOf(attr []byte) []byte {
	a := uapi.Attr(attr[:uapi.AttrSize])
	b := make([]byte, a.Len())
	_ = a.CopyIn(hostMemory{}, b)
	return b
}

func appendAttr(cmd []byte, mem *hostmem.Memory, attr []byte) []byte {
	n := len(cmd)
	attr = append([]byte(nil), attr...)
	cmd = mem.Bytes()[:n+uapi.AttrSize]
	copy(cmd[n:], attr)
	binary.NativeEndian.PutUint16(cmd, uint16(len(cmd)))
	binary.NativeEndian.PutUint16(cmd[6:], binary.NativeEndian.Uint16(cmd[6:])+1)
	return cmd
}
