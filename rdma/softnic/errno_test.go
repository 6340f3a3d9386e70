package softnic

import (
	"encoding/binary"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

func TestContextErrors(t *testing.T) {
	request := func(change func(*prm.AllocContextRequest)) []byte {
		u := contextRequest()
		if change != nil {
			change(&u)
		}
		return prm.Bytes(&u)
	}
	get := func(r *raw, udata []byte) error {
		return r.call(uapi.ObjectDevice, uapi.MethodGetContext, func(c *uapi.Command) {
			if udata != nil {
				c.In(uapi.AttrUHWIn, udata)
			}
			c.Out(uapi.AttrUHWOut, 72)
		})
	}
	tests := []struct {
		name  string
		udata []byte
		want  syscall.Errno
	}{
		{"no request", nil, syscall.EINVAL},
		{"12 bytes", request(nil)[:12], syscall.EINVAL},
		{"DEVX", request(func(u *prm.AllocContextRequest) { u.Flags = prm.ContextDevX }), syscall.EINVAL},
		{"comp mask", request(func(u *prm.AllocContextRequest) { u.CompMask = 1 }), syscall.EOPNOTSUPP},
		{"reserved", request(func(u *prm.AllocContextRequest) { u.Reserved2 = 1 }), syscall.EOPNOTSUPP},
		{"static without registers", request(func(u *prm.AllocContextRequest) { u.LibCaps, u.TotalRegisters = 0, 0 }), syscall.EINVAL},
		{"static with too many", request(func(u *prm.AllocContextRequest) { u.LibCaps, u.TotalRegisters = 0, 513 }), syscall.ENOMEM},
		{"all low latency", request(func(u *prm.AllocContextRequest) { u.LibCaps, u.LowLatencyRegisters = 0, 16 }), syscall.EINVAL},
		{"old request", request(func(u *prm.AllocContextRequest) { u.TotalRegisters = 2; u.LowLatencyRegisters = 1 })[:8], 0},
		{"request of 16 bytes", request(nil)[:16], 0},
		{"good", request(nil), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := openRaw(t, newTestNIC(t, private()), ownMemory{})
			requireErrno(t, tt.want, get(r, tt.udata))
			if tt.want == 0 {
				requireErrno(t, syscall.EINVAL, get(r, tt.udata), "second context")
			} else {
				requireErrno(t, 0, get(r, request(nil)), "after a refusal")
			}
		})
	}
}

// A context that runs out of doorbell pages gives back those it had.
func TestStaticPagesRunOut(t *testing.T) {
	cfg := private()
	cfg.StaticUAR, cfg.Limits.UARs = true, 3
	n := newTestNIC(t, cfg)
	r := openRaw(t, n, ownMemory{})
	u := contextRequest()
	_, _, err := r.write(uapi.CmdGetContext, enc(uapi.GetContext{}), 8, prm.Bytes(&u), 72)
	requireErrno(t, syscall.ENOMEM, err)
	require.Zero(t, n.Counters().UARs)
	u.TotalRegisters = 6
	_, _, err = r.write(uapi.CmdGetContext, enc(uapi.GetContext{}), 8, prm.Bytes(&u), 72)
	requireErrno(t, 0, err)
	require.Equal(t, 3, n.Counters().UARs)
}

// Without a context there is nothing but GET_CONTEXT.
func TestNoContext(t *testing.T) {
	r := openRaw(t, newTestNIC(t, private()), ownMemory{})
	_, _, err := r.write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	requireErrno(t, syscall.EINVAL, err)
	_, _, err = r.write(uapi.CmdQueryDevice, nil, 0, nil, 0)
	requireErrno(t, syscall.ENOSPC, err)
	for name, m := range map[string][2]uint16{
		"query port": {uapi.ObjectDevice, uapi.MethodQueryPort}, "query context": {uapi.ObjectDevice, uapi.MethodQueryContext},
		"gid table": {uapi.ObjectDevice, uapi.MethodQueryGIDTable}, "gid entry": {uapi.ObjectDevice, uapi.MethodQueryGIDEntry},
		"async": {uapi.ObjectAsyncEvent, uapi.MethodAsyncEventAlloc}, "page": {prm.ObjectUAR, prm.MethodUARAlloc},
		"cq": {uapi.ObjectCQ, uapi.MethodCQCreate}, "qp": {uapi.ObjectQP, uapi.MethodQPCreate},
		"dmabuf": {uapi.ObjectMR, uapi.MethodRegDmabufMR},
	} {
		requireErrno(t, syscall.EINVAL, r.call(m[0], m[1], allAttributes(m)), name)
	}
	_, err = r.file.Map(0, pageSize())
	requireErrno(t, syscall.EINVAL, err)
}

// allAttributes builds a command with every mandatory attribute, values zero.
func allAttributes(m [2]uint16) func(*uapi.Command) {
	return func(c *uapi.Command) {
		for _, method := range mlx5Methods() {
			if method.Object != m[0] || method.ID != m[1] {
				continue
			}
			for _, s := range method.Attrs {
				switch {
				case !s.Mandatory:
				case s.Kind == uapi.In:
					c.In(s.ID, make([]byte, s.Min))
				case s.Kind == uapi.Out:
					c.Out(s.ID, max(1, int(s.Min)))
				case s.Kind == uapi.NewObject:
					c.NewObject(s.ID)
				default:
					c.Object(s.ID, 0)
				}
			}
		}
	}
}

func TestInvokeErrors(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	tests := []struct {
		name string
		cmd  uint32
		core []byte
		out  int
		want syscall.Errno
	}{
		{"short core", uapi.CmdRegMR, make([]byte, 39), 12, syscall.ENOSPC},
		{"short reply", uapi.CmdRegMR, make([]byte, 40), 8, syscall.ENOSPC},
		{"long core", uapi.CmdQueryDevice, append(make([]byte, 8), 1, 0, 0, 0), 176, syscall.EOPNOTSUPP},
		{"long core, zero", uapi.CmdQueryDevice, make([]byte, 12), 176, 0},
		{"unknown command", 99, make([]byte, 8), 8, syscall.EOPNOTSUPP},
		{"poll by command", uapi.CmdReqNotifyCQ, make([]byte, 8), 0, syscall.EOPNOTSUPP},
		{"soft-RoCE's doorbell", uapi.CmdPostSend, make([]byte, 24), 4, syscall.EOPNOTSUPP},
		{"notify by command", uapi.CmdReqNotifyCQ, make([]byte, 8), 0, syscall.EOPNOTSUPP},
		{"odd command", 0x100, make([]byte, 8), 8, syscall.EINVAL},
		{"query port 2", uapi.CmdQueryPort, enc(uapi.QueryPort{PortNum: 2}), 40, syscall.EINVAL},
		{"query port 1", uapi.CmdQueryPort, enc(uapi.QueryPort{PortNum: 1}), 40, 0},
		{"query device ex", uapi.CmdExQueryDevice, enc(uapi.ExQueryDevice{CompMask: 1}), 304, syscall.EINVAL},
		{"destroy no PD", uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: 99}), 0, syscall.ENOENT},
		{"destroy no MR", uapi.CmdDeregMR, enc(uapi.DeregMR{MRHandle: 99}), 0, syscall.ENOENT},
		{"destroy a PD as MR", uapi.CmdDeregMR, enc(uapi.DeregMR{MRHandle: r.pd}), 0, syscall.EINVAL},
		{"destroy no CQ", uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: 99}), 8, syscall.ENOENT},
		{"destroy no QP", uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: 99}), 4, syscall.ENOENT},
		{"query no QP", uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: 99}), 128, syscall.ENOENT},
		{"modify no QP", uapi.CmdModifyQP, enc(uapi.ModifyQP{QPHandle: 99}), 0, syscall.ENOENT},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := r.nic.Counters()
			_, _, err := r.write(tt.cmd, tt.core, tt.out, nil, 0)
			requireErrno(t, tt.want, err)
			after := r.nic.Counters()
			require.Equal(t, before.Commands+1, after.Commands)
			if tt.want != 0 {
				require.Equal(t, before.FailedCommands+1, after.FailedCommands)
			}
		})
	}
}

func TestHeaderErrors(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	build := func(change func(b []byte)) error {
		var c uapi.Command
		c.Begin(r.scratch.Bytes(), r.scratch.Addr(), uapi.ObjectDevice, uapi.MethodQueryPort, uapi.DriverMLX5)
		c.Const(uapi.AttrQueryPortPort, 1)
		c.Out(uapi.AttrQueryPortResp, 48)
		b, err := c.Bytes()
		require.NoError(t, err)
		change(b)
		return r.file.Ioctl(b)
	}
	requireErrno(t, 0, build(func([]byte) {}))
	requireErrno(t, syscall.EINVAL, build(func(b []byte) { b[16] = uapi.DriverRXE }))
	requireErrno(t, syscall.EPROTONOSUPPORT, build(func(b []byte) { b[8] = 1 }))
	requireErrno(t, syscall.EPROTONOSUPPORT, build(func(b []byte) { b[2] = 99 }))
	requireErrno(t, syscall.EPROTONOSUPPORT, build(func(b []byte) { b[4] = 99 }))
	requireErrno(t, syscall.EINVAL, build(func(b []byte) { b[0]++ }))
	requireErrno(t, syscall.EINVAL, build(func(b []byte) { b[26] = 4 }), "constant of 4 bytes")
	requireErrno(t, syscall.EFAULT, build(func(b []byte) { clear(b[48:56]) }), "output at address 0")
	requireErrno(t, syscall.EFAULT, r.file.Ioctl(nil))
}

func TestPageErrors(t *testing.T) {
	cfg := private()
	cfg.Limits.UARs = 2
	r := newRaw(t, newTestNIC(t, cfg))
	alloc := func(kind uint64) error {
		return r.call(prm.ObjectUAR, prm.MethodUARAlloc, func(c *uapi.Command) {
			c.NewObject(prm.AttrUARHandle)
			c.Const(prm.AttrUARType, kind)
			c.Out(prm.AttrUARMapOffset, 8)
			c.Out(prm.AttrUARMapLength, 4)
			c.Out(prm.AttrUARPageNumber, 4)
		})
	}
	destroy := func(h uint64) error {
		return r.call(prm.ObjectUAR, prm.MethodUARDestroy, func(c *uapi.Command) { c.Object(prm.AttrUARDestroyHandle, h) })
	}
	requireErrno(t, syscall.EINVAL, alloc(2))
	requireErrno(t, 0, alloc(prm.UARTypeNonCached))
	requireErrno(t, syscall.ENOMEM, alloc(prm.UARTypeNonCached))
	r.createCQ(16, false)
	requireErrno(t, 0, destroy(1), "although a queue uses the page")
	requireErrno(t, syscall.ENOENT, destroy(1))
	requireErrno(t, 0, destroy(2))
	requireErrno(t, syscall.ENOENT, destroy(2))
	requireErrno(t, syscall.EINVAL, destroy(0))
	for _, offset := range []int64{0, -4096, 1 << 40, prm.MapOffset(prm.MapCoreClock, 0, pageSize())} {
		_, err := r.file.Map(offset, pageSize())
		requireErrno(t, syscall.EINVAL, err, "offset %#x", offset)
	}
	_, err := r.file.Map(prm.MapOffset(prm.MapObject, 0, pageSize()), 2*pageSize())
	requireErrno(t, syscall.EINVAL, err)
	_, err = r.file.Events(12345)
	requireErrno(t, syscall.EBADF, err)

	cfg = private()
	cfg.NoBlueFlame, cfg.StaticUAR = true, true
	r = newRaw(t, newTestNIC(t, cfg))
	requireErrno(t, syscall.EOPNOTSUPP, alloc(prm.UARTypeBlueFlame))
	_, err = r.file.Map(prm.MapOffset(prm.MapWriteCombine, 0, pageSize()), pageSize())
	requireErrno(t, syscall.EPERM, err)
	_, err = r.file.Map(prm.MapOffset(prm.MapRegular, 8, pageSize()), pageSize())
	requireErrno(t, syscall.EINVAL, err)
	p, err := r.file.Map(prm.MapOffset(prm.MapNonCached, 7, pageSize()), pageSize())
	requireErrno(t, 0, err)
	require.NoError(t, p.Unmap())
}

func TestQueryErrors(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	entry := func(port, index uint64, flags uint32) error {
		return r.call(uapi.ObjectDevice, uapi.MethodQueryGIDEntry, func(c *uapi.Command) {
			c.Const(uapi.AttrGIDEntryPort, port)
			c.Const(uapi.AttrGIDEntryIndex, index)
			c.In(uapi.AttrGIDEntryFlags, enc(flags))
			c.Out(uapi.AttrGIDEntryResp, 32)
		})
	}
	requireErrno(t, 0, entry(1, 3, 0))
	requireErrno(t, syscall.EINVAL, entry(2, 3, 0))
	requireErrno(t, syscall.EINVAL, entry(1, 3, 1))
	requireErrno(t, syscall.EINVAL, entry(1, 8, 0))
	requireErrno(t, syscall.ENODATA, entry(1, 4, 0))
	table := func(size uint64, flags uint32, room int) error {
		return r.call(uapi.ObjectDevice, uapi.MethodQueryGIDTable, func(c *uapi.Command) {
			c.Const(uapi.AttrGIDTableEntrySize, size)
			c.In(uapi.AttrGIDTableFlags, enc(flags))
			c.Out(uapi.AttrGIDTableEntries, room)
			c.Out(uapi.AttrGIDTableNumEntries, 8)
		})
	}
	requireErrno(t, 0, table(32, 0, 256))
	requireErrno(t, 0, table(64, 0, 256))
	requireErrno(t, syscall.EINVAL, table(32, 1, 256))
	requireErrno(t, syscall.EINVAL, table(31, 0, 256))
	requireErrno(t, syscall.EINVAL, table(0, 0, 256))
	requireErrno(t, syscall.EINVAL, table(32, 0, 96))
	requireErrno(t, syscall.EINVAL, r.call(uapi.ObjectDevice, uapi.MethodQueryPort, func(c *uapi.Command) {
		c.Const(uapi.AttrQueryPortPort, 0)
		c.Out(uapi.AttrQueryPortResp, 48)
	}))
	for _, m := range [][2]uint16{{uapi.ObjectMR, uapi.MethodQueryMR}, {uapi.ObjectMR, uapi.MethodMRDestroy}} {
		requireErrno(t, syscall.EINVAL, r.call(m[0], m[1], allAttributes(m)), "handle 0 is a domain")
	}
}

// A response that cannot be delivered undoes what the command did.
func TestUndeliveredResponses(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, false)
	before := n.Counters()
	_, buf := r.alloc(8192)
	_, record := r.alloc(8)
	_, addr := r.alloc(4096)
	undelivered := func(cmd uint32, core []byte, n int, uhwIn []byte, uhwOut int) {
		t.Helper()
		var c uapi.Command
		c.Begin(r.scratch.Bytes(), r.scratch.Addr(), uapi.ObjectDevice, uapi.MethodInvokeWrite, uapi.DriverMLX5)
		c.Const(uapi.AttrWriteCmd, uint64(cmd))
		c.Out(uapi.AttrCoreOut, n)
		c.In(uapi.AttrCoreIn, core)
		if uhwIn != nil {
			c.In(uapi.AttrUHWIn, uhwIn)
			c.Out(uapi.AttrUHWOut, uhwOut)
		} else if uhwOut > 0 {
			c.Out(uapi.AttrUHWOut, uhwOut)
		}
		b, err := c.Bytes()
		require.NoError(t, err)
		binary.NativeEndian.PutUint64(b[24+16+8:], 4096) // where the reply should go
		requireErrno(t, syscall.EFAULT, r.file.Ioctl(b))
	}
	undelivered(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	undelivered(uapi.CmdRegMR, enc(uapi.RegMR{Start: addr, HcaVa: addr, Length: 4096, PDHandle: r.pd}), 12, nil, 0)
	undelivered(uapi.CmdCreateCompChannel, enc(uapi.CreateCompChannel{}), 4, nil, 0)
	cu, qu := r.cqUdata(buf, record), r.qpUdata(16, 16, buf, record)
	undelivered(uapi.CmdCreateCQ, enc(uapi.CreateCQ{Cqe: 7, CompChannel: -1}), 8, prm.Bytes(&cu), 8)
	undelivered(uapi.CmdExCreateCQ, enc(uapi.ExCreateCQ{Cqe: 7, CompChannel: -1}), 16, prm.Bytes(&cu), 8)
	undelivered(uapi.CmdCreateQP, enc(r.qpCore(16, 16, cq, cq)), 32, prm.Bytes(&qu), 40)
	after := n.Counters()
	after.Commands, after.FailedCommands = before.Commands, before.FailedCommands
	require.Equal(t, before, after)

	other := openRaw(t, n, ownMemory{})
	udata := contextRequest()
	r, r.file = other, other.file
	undelivered(uapi.CmdGetContext, enc(uapi.GetContext{}), 8, prm.Bytes(&udata), 72)
	require.Equal(t, before.Contexts, n.Counters().Contexts)
	require.Equal(t, before.EventFiles, n.Counters().EventFiles)
	require.NoError(t, other.file.Close())
}

// A closed file refuses everything, and its context lives as long as a mapping.
func TestClosedFile(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	require.NoError(t, r.file.Close())
	require.Equal(t, os.ErrClosed, r.file.Close())
	_, _, err := r.write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	requireErrno(t, syscall.EBADF, err)
	_, err = r.file.Map(0, pageSize())
	requireErrno(t, syscall.EBADF, err)
	require.Equal(t, 1, n.Counters().Contexts)
	require.NoError(t, r.pages[0].Unmap())
	require.Zero(t, n.Counters().Contexts)
	require.Zero(t, n.Counters().UARs)
}

// What a real kernel answers when the device was taken away: the event and nothing
// after it, EIO from what works on the device, and handles that can be destroyed,
// each once and in any order.
func TestFatal(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, true)
	q := r.createQP(16, 16, cq, cq)
	q.connect(q)
	srq, mr := r.createSRQ(16), r.regMR(4096, 0)
	n.Fail()
	n.Fail()
	require.Zero(t, r.readAsync(uapi.EventDeviceFatal))
	require.NoError(t, r.async.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := r.async.Read(make([]byte, 16))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = cq.events.Read(make([]byte, 8))
	require.ErrorIs(t, err, syscall.EIO)
	_, _, err = r.write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	requireErrno(t, syscall.EIO, err)
	_, err = r.file.Map(prm.MapOffset(prm.MapObject, 0, pageSize()), pageSize())
	requireErrno(t, syscall.EIO, err)
	_, err = n.Open()
	require.ErrorIs(t, err, syscall.EIO)
	q.post(q.entry(prm.OpNop, rawMR{}, 0, 0, 0, 0)[:16])
	time.Sleep(time.Millisecond)
	require.Nil(t, cq.next(), "doorbells do nothing")

	requireErrno(t, syscall.EPROTONOSUPPORT, r.call(99, 1, func(*uapi.Command) {}), "the form is judged first")
	_, _, err = r.write(uapi.CmdQueryDevice, nil, 0, nil, 0)
	requireErrno(t, syscall.ENOSPC, err)
	requireErrno(t, syscall.EIO, r.call(uapi.ObjectDevice, uapi.MethodQueryGIDTable, allAttributes(methodID{uapi.ObjectDevice, uapi.MethodQueryGIDTable})))
	destroy := []struct {
		cmd   uint32
		core  []byte
		reply int
	}{
		{uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: r.pd}), 0},
		{uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: cq.handle}), 8},
		{uapi.CmdDestroySRQ, enc(uapi.DestroySRQ{SRQHandle: srq.handle}), 4},
		{uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: q.handle}), 4},
		{uapi.CmdDeregMR, enc(uapi.DeregMR{MRHandle: mr.handle}), 0},
	}
	for _, want := range []syscall.Errno{0, syscall.ENOENT} {
		for _, d := range destroy {
			_, _, err = r.write(d.cmd, d.core, d.reply, nil, 0)
			requireErrno(t, want, err, "command %d", d.cmd)
		}
	}
}

// Before 5.7 there are neither dynamic doorbell pages nor most native methods.
func TestOldKernel(t *testing.T) {
	cfg := private()
	cfg.OldKernel, cfg.OldCQE = true, true
	n := newTestNIC(t, cfg)
	r := newRaw(t, n)
	for _, m := range [][2]uint16{{uapi.ObjectDevice, uapi.MethodGetContext}, {uapi.ObjectAsyncEvent, 0},
		{uapi.ObjectDevice, uapi.MethodQueryGIDTable}, {uapi.ObjectCQ, uapi.MethodCQCreate}, {prm.ObjectUAR, prm.MethodUARAlloc}} {
		requireErrno(t, syscall.EPROTONOSUPPORT, r.call(m[0], m[1], allAttributes(m)))
	}
	cq := r.createCQ(16, false)
	u := r.cqUdata(r.mem.Addr(), r.mem.Addr())
	u.Flags = prm.CQUARPageIndex
	_, _, err := r.write(uapi.CmdCreateCQ, enc(uapi.CreateCQ{CompChannel: -1}), 8, prm.Bytes(&u), 8)
	requireErrno(t, syscall.EINVAL, err)
	_, _, err = r.write(uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: 99}), 128, nil, 0)
	requireErrno(t, syscall.EINVAL, err, "no such queue pair")
	q := r.createQP(16, 16, cq, cq)
	require.NotEqual(t, uint32(prm.NoRegister), q.register)
	require.NoError(t, r.modify(q.toInit()))
	require.EqualValues(t, verbs.StateInit, q.state())
}
