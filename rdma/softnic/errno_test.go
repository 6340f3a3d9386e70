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
		{"shared receive queue", uapi.CmdCreateSRQ, make([]byte, 32), 16, syscall.EOPNOTSUPP},
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
		{"query no QP", uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: 99}), 128, syscall.EINVAL},
		{"modify no QP", uapi.CmdModifyQP, enc(uapi.ModifyQP{QPHandle: 99}), 0, syscall.EINVAL},
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

func TestMemoryErrors(t *testing.T) {
	cfg := private()
	cfg.Limits = Limits{MRs: 3, PDs: 2, RegionBytes: 1 << 20, PinnedBytes: 64 << 10}
	r := newRaw(t, newTestNIC(t, cfg))
	_, addr := r.alloc(32 << 10)
	good := uapi.RegMR{Start: addr, HcaVa: addr, Length: 8192, PDHandle: r.pd, AccessFlags: allAccess}
	tests := []struct {
		name   string
		change func(*uapi.RegMR)
		want   syscall.Errno
	}{
		{"offsets differ", func(m *uapi.RegMR) { m.HcaVa++ }, syscall.EINVAL},
		{"another address", func(m *uapi.RegMR) { m.HcaVa = 7 << 30 }, 0},
		{"no length", func(m *uapi.RegMR) { m.Length = 0 }, syscall.EINVAL},
		{"wraps", func(m *uapi.RegMR) { m.Length = -m.Start }, 0},
		{"too long", func(m *uapi.RegMR) { m.Length = 1<<20 + 1 }, syscall.EINVAL},
		{"unmapped", func(m *uapi.RegMR) { m.Start, m.HcaVa = 4096, 4096 }, syscall.EFAULT},
		{"address 0", func(m *uapi.RegMR) { m.Start, m.HcaVa = 0, 0 }, syscall.EFAULT},
		{"remote write without local", func(m *uapi.RegMR) { m.AccessFlags = uapi.AccessRemoteWrite }, syscall.EINVAL},
		{"remote atomic without local", func(m *uapi.RegMR) { m.AccessFlags = uapi.AccessRemoteAtomic }, syscall.EINVAL},
		{"remote read only", func(m *uapi.RegMR) { m.AccessFlags = uapi.AccessRemoteRead }, 0},
		{"relaxed", func(m *uapi.RegMR) { m.AccessFlags |= uapi.AccessRelaxedOrdering }, 0},
		{"on demand", func(m *uapi.RegMR) { m.AccessFlags |= uapi.AccessOnDemand }, syscall.EINVAL},
		{"unknown access", func(m *uapi.RegMR) { m.AccessFlags |= 1 << 15 }, syscall.EINVAL},
		{"no domain", func(m *uapi.RegMR) { m.PDHandle = 77 }, syscall.EINVAL},
		{"beyond the memory limit", func(m *uapi.RegMR) { m.Length = 64<<10 + 1 }, syscall.ENOMEM},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := good
			tt.change(&m)
			want := tt.want
			if tt.name == "wraps" {
				m.HcaVa, m.Length, want = ^uint64(4095), 8192, syscall.EINVAL
			}
			reply, _, err := r.write(uapi.CmdRegMR, enc(m), 12, nil, 0)
			requireErrno(t, want, err)
			if err == nil {
				h := binary.NativeEndian.Uint32(reply)
				_, _, err = r.write(uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: r.pd}), 0, nil, 0)
				requireErrno(t, syscall.EBUSY, err)
				_, _, err = r.write(uapi.CmdDeregMR, enc(uapi.DeregMR{MRHandle: h}), 0, nil, 0)
				requireErrno(t, 0, err)
			}
			require.Zero(t, r.nic.Counters().PinnedBytes)
		})
	}
	for range 3 {
		r.regMR(4096, 0)
	}
	require.EqualValues(t, 3*4096, r.nic.Counters().PinnedBytes)
	_, _, err := r.write(uapi.CmdRegMR, enc(good), 12, nil, 0)
	requireErrno(t, syscall.ENOMEM, err, "too many regions")

	_, _, err = r.write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 0)
	requireErrno(t, syscall.EFAULT, err, "no room for the domain's number")
	r.allocPD()
	_, _, err = r.write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	requireErrno(t, syscall.ENOMEM, err, "too many domains")
}

func TestQueueErrors(t *testing.T) {
	cfg := private()
	cfg.Limits = Limits{CQs: 2, QPs: 1, CQEntries: 64, QPEntries: 32, SendSGE: 4, ReceiveSGE: 4}
	r := newRaw(t, newTestNIC(t, cfg))
	_, buf := r.alloc(8192)
	_, record := r.alloc(8)
	type request struct {
		core  uapi.CreateCQ
		udata prm.CreateCQRequest
		in    int
		out   int
	}
	tests := []struct {
		name   string
		change func(*request)
		want   syscall.Errno
	}{
		{"good", func(q *request) {}, 0},
		{"one entry", func(q *request) { q.core.Cqe = 0 }, 0},
		{"128-byte entries", func(q *request) { q.udata.EntrySize = 128 }, 0},
		{"odd entries", func(q *request) { q.udata.EntrySize = 32 }, syscall.EINVAL},
		{"too many entries", func(q *request) { q.core.Cqe = 64 }, syscall.EINVAL},
		{"vector", func(q *request) { q.core.CompVector = 1 }, syscall.EINVAL},
		{"channel", func(q *request) { q.core.CompChannel = 3 }, syscall.EBADF},
		{"async file as channel", func(q *request) { q.core.CompChannel = int32(r.async.fd) }, syscall.EBADF},
		{"compressed", func(q *request) { q.udata.Compress = 1 }, syscall.EOPNOTSUPP},
		{"unknown flag", func(q *request) { q.udata.Flags |= prm.CQRealTime }, syscall.EINVAL},
		{"reserved", func(q *request) { q.udata.Reserved1 = 1 }, syscall.EINVAL},
		{"no page", func(q *request) { q.udata.Flags = 0 }, syscall.EINVAL},
		{"unknown page", func(q *request) { q.udata.UARPage++ }, syscall.EINVAL},
		{"short request", func(q *request) { q.in = 16 }, syscall.EINVAL},
		{"no room for the number", func(q *request) { q.out = 0 }, syscall.EFAULT},
		{"misaligned record", func(q *request) { q.udata.RecordAddr += 4 }, syscall.EINVAL},
		{"unmapped record", func(q *request) { q.udata.RecordAddr = 4096 }, syscall.EFAULT},
		{"unmapped buffer", func(q *request) { q.udata.BufAddr = 4096 }, syscall.EFAULT},
	}
	for _, tt := range tests {
		t.Run("CQ "+tt.name, func(t *testing.T) {
			q := request{core: uapi.CreateCQ{Cqe: 15, CompChannel: -1}, udata: r.cqUdata(buf, record), in: 32, out: 8}
			tt.change(&q)
			reply, _, err := r.write(uapi.CmdCreateCQ, enc(q.core), 8, prm.Bytes(&q.udata)[:q.in], q.out)
			requireErrno(t, tt.want, err)
			if err == nil {
				_, _, err = r.write(uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: binary.NativeEndian.Uint32(reply)}), 8, nil, 0)
				requireErrno(t, 0, err)
			}
			require.Zero(t, r.nic.Counters().CQs)
			require.Zero(t, r.nic.Counters().PinnedBytes)
		})
	}
	udata := r.cqUdata(buf, record)
	for name, ex := range map[string]uapi.ExCreateCQ{
		"comp mask": {CompChannel: -1, CompMask: 1}, "flags": {CompChannel: -1, Flags: 4}, "reserved": {CompChannel: -1, Reserved: 1},
	} {
		_, _, err := r.write(uapi.CmdExCreateCQ, enc(ex), 16, prm.Bytes(&udata), 8)
		requireErrno(t, syscall.EINVAL, err, name)
	}
	cq := r.createCQ(16, false)
	other := r.createCQ(16, false)
	_, _, err := r.write(uapi.CmdCreateCQ, enc(uapi.CreateCQ{CompChannel: -1}), 8, prm.Bytes(&udata), 8)
	requireErrno(t, syscall.ENOMEM, err, "too many queues")
	testQueuePairErrors(t, r, cq, other)
}

func testQueuePairErrors(t *testing.T, r *raw, cq, other *rawCQ) {
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	type request struct {
		core  uapi.CreateQP
		udata prm.CreateQPRequest
		in    int
	}
	tests := []struct {
		name   string
		change func(*request)
		want   syscall.Errno
	}{
		{"good", func(q *request) {}, 0},
		{"no receives", func(q *request) { q.core.MaxRecvWR, q.udata.Receives, q.udata.ReceiveShift = 0, 0, 0 }, 0},
		{"no sends", func(q *request) { q.core.MaxSendWR, q.udata.SendBlocks = 0, 0 }, 0},
		{"scatter to completions", func(q *request) { q.udata.Flags |= prm.QPScatterCQE }, 0},
		{"UD", func(q *request) { q.core.QPType = uapi.QPTypeUD }, syscall.EOPNOTSUPP},
		{"SRQ", func(q *request) { q.core.IsSRQ = 1 }, syscall.EOPNOTSUPP},
		{"reserved core", func(q *request) { q.core.Reserved = 1 }, syscall.EINVAL},
		{"PD", func(q *request) { q.core.PDHandle = 99 }, syscall.EINVAL},
		{"send CQ", func(q *request) { q.core.SendCQHandle = 99 }, syscall.EINVAL},
		{"receive CQ", func(q *request) { q.core.RecvCQHandle = q.core.PDHandle }, syscall.EINVAL},
		{"sends", func(q *request) { q.core.MaxSendWR = 33 }, syscall.EINVAL},
		{"receives", func(q *request) { q.core.MaxRecvWR = 33 }, syscall.EINVAL},
		{"segments", func(q *request) { q.core.MaxSendSGE = 5 }, syscall.EINVAL},
		{"inline", func(q *request) { q.core.MaxInlineData = 2000 }, syscall.EINVAL},
		{"blocks not a power of two", func(q *request) { q.udata.SendBlocks = 3 }, syscall.EINVAL},
		{"blocks beyond the limit", func(q *request) { q.udata.SendBlocks = 64 }, syscall.EINVAL},
		{"receives not a power of two", func(q *request) { q.udata.Receives = 3 }, syscall.EINVAL},
		{"no receive queue", func(q *request) { q.udata.Receives = 0 }, syscall.EINVAL},
		{"receive queue without receives", func(q *request) { q.core.MaxRecvWR = 0 }, syscall.EINVAL},
		{"stride too small", func(q *request) { q.udata.ReceiveShift = 3 }, syscall.EINVAL},
		{"stride too large", func(q *request) { q.udata.ReceiveShift = 10 }, syscall.EINVAL},
		{"stride beyond a word", func(q *request) { q.udata.ReceiveShift = 64 }, syscall.EINVAL},
		{"stride without receives", func(q *request) { q.core.MaxRecvWR, q.udata.Receives = 0, 0 }, syscall.EINVAL},
		{"user index", func(q *request) { q.udata.UserIndex = prm.NoUserIndex }, syscall.EINVAL},
		{"signature", func(q *request) { q.udata.Flags |= prm.QPSignature }, syscall.EINVAL},
		{"no page", func(q *request) { q.udata.Flags = 0 }, syscall.EINVAL},
		{"unknown page", func(q *request) { q.udata.Register++ }, syscall.EINVAL},
		{"reserved", func(q *request) { q.udata.Reserved = 1 }, syscall.EINVAL},
		{"short request", func(q *request) { q.in = 40 }, syscall.EINVAL},
		{"old request", func(q *request) { q.in = 48 }, 0},
		{"misaligned record", func(q *request) { q.udata.RecordAddr += 4 }, syscall.EINVAL},
		{"unmapped record", func(q *request) { q.udata.RecordAddr = 4096 }, syscall.EFAULT},
		{"unmapped buffer", func(q *request) { q.udata.BufAddr = 4096 }, syscall.EFAULT},
	}
	for _, tt := range tests {
		t.Run("QP "+tt.name, func(t *testing.T) {
			pinned := r.nic.Counters().PinnedBytes
			q := request{core: r.qpCore(16, 16, cq, other), udata: r.qpUdata(16, 16, buf, record), in: 56}
			tt.change(&q)
			reply, _, err := r.write(uapi.CmdCreateQP, enc(q.core), 32, prm.Bytes(&q.udata)[:q.in], 40)
			requireErrno(t, tt.want, err)
			if err == nil {
				for _, busy := range []*rawCQ{cq, other} {
					_, _, err = r.write(uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: busy.handle}), 8, nil, 0)
					requireErrno(t, syscall.EBUSY, err)
				}
				_, _, err = r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: binary.NativeEndian.Uint32(reply)}), 4, nil, 0)
				requireErrno(t, 0, err)
			}
			require.Zero(t, r.nic.Counters().QPs)
			require.Equal(t, pinned, r.nic.Counters().PinnedBytes)
		})
	}
	udata := r.qpUdata(16, 16, buf, record)
	base := uapi.ExCreateQP{PDHandle: r.pd, SendCQHandle: cq.handle, RecvCQHandle: other.handle, MaxSendWR: 16,
		MaxRecvWR: 16, QPType: uapi.QPTypeRC}
	for name, tt := range map[string]struct {
		change func(*uapi.ExCreateQP)
		want   syscall.Errno
	}{
		"comp mask": {func(q *uapi.ExCreateQP) { q.CompMask = 1 }, syscall.EOPNOTSUPP},
		"flags":     {func(q *uapi.ExCreateQP) { q.CreateFlags = 1 }, syscall.EINVAL},
		"good":      {func(q *uapi.ExCreateQP) {}, 0},
		"second":    {func(q *uapi.ExCreateQP) {}, 0},
	} {
		q := base
		tt.change(&q)
		if r.nic.Counters().QPs == 1 && tt.want == 0 {
			tt.want = syscall.ENOMEM // the limit is one
		}
		_, _, err := r.write(uapi.CmdExCreateQP, enc(q), 40, prm.Bytes(&udata), 40)
		requireErrno(t, tt.want, err, name)
	}
}

// The state machine: every pair of states, and every bit of the mask.
func TestTransitions(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	path := []uapi.ModifyQP{q.toInit(), q.toRTR(q), q.toRTS()}
	reach := func(state uint8) {
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
		for i, m := range path {
			if state == uapi.QPErr && i < 1 || state <= uapi.QPRTS && uint8(i) < state {
				require.NoError(t, r.modify(m))
			}
		}
		if state == uapi.QPErr {
			require.NoError(t, r.modify(q.to(uapi.QPErr)))
		}
		require.Equal(t, state, q.state())
	}
	all := path[0]
	all.Dest, all.PathMTU, all.DestQPNum = path[1].Dest, path[1].PathMTU, path[1].DestQPNum
	states := []uint8{uapi.QPReset, uapi.QPInit, uapi.QPRTR, uapi.QPRTS, uapi.QPErr}
	for _, from := range states {
		for to := uint8(0); to <= 7; to++ {
			tr, ok := transitionOf(from, to)
			m := all
			m.QPState, m.AttrMask = to, tr.required|uapi.QPAttrState
			reach(from)
			if !ok {
				requireErrno(t, syscall.EINVAL, r.modify(m), "%d to %d", from, to)
				require.Equal(t, from, q.state())
				continue
			}
			for bit := range 21 {
				b := uint32(1) << bit
				if b == uapi.QPAttrState {
					continue
				}
				wrong := m
				wrong.AttrMask ^= b
				if wrong.AttrMask&b != 0 && tr.optional&b != 0 {
					continue
				}
				requireErrno(t, syscall.EINVAL, r.modify(wrong), "%d to %d with mask %#x", from, to, wrong.AttrMask)
				require.Equal(t, from, q.state())
			}
			requireErrno(t, 0, r.modify(m), "%d to %d", from, to)
			require.Equal(t, to, q.state())
		}
	}
	reach(uapi.QPReset)
	wrong := q.toInit()
	wrong.AttrMask |= uapi.QPAttrRateLimit
	requireErrno(t, syscall.EOPNOTSUPP, r.modify(wrong))
}

func TestAttributeErrors(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	tests := []struct {
		name   string
		from   uint8
		change func(*uapi.ModifyQP)
		want   syscall.Errno
	}{
		{"port 2", uapi.QPReset, func(m *uapi.ModifyQP) { m.PortNum = 2 }, syscall.EINVAL},
		{"port 0", uapi.QPReset, func(m *uapi.ModifyQP) { m.PortNum = 0 }, syscall.EINVAL},
		{"pkey", uapi.QPReset, func(m *uapi.ModifyQP) { m.PkeyIndex = 1 }, syscall.EINVAL},
		{"access", uapi.QPReset, func(m *uapi.ModifyQP) { m.QPAccessFlags = 1 << 9 }, syscall.EINVAL},
		{"MTU 0", uapi.QPInit, func(m *uapi.ModifyQP) { m.PathMTU = 0 }, syscall.EINVAL},
		{"MTU 6", uapi.QPInit, func(m *uapi.ModifyQP) { m.PathMTU = 6 }, syscall.EINVAL},
		{"reads", uapi.QPInit, func(m *uapi.ModifyQP) { m.MaxDestRdAtomic = 17 }, syscall.EINVAL},
		{"RNR timer", uapi.QPInit, func(m *uapi.ModifyQP) { m.MinRnrTimer = 32 }, syscall.EINVAL},
		{"peer number", uapi.QPInit, func(m *uapi.ModifyQP) { m.DestQPNum = 1 << 24 }, syscall.EINVAL},
		{"path port", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.PortNum = 2 }, syscall.EINVAL},
		{"path reserved", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Reserved = 2 }, syscall.EINVAL},
		{"static rate", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.StaticRate = 99 }, syscall.EINVAL},
		{"service level", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Sl = 16 }, syscall.EINVAL},
		{"not global", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.IsGlobal = 0 }, syscall.EINVAL},
		{"source beyond the table", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.SgidIndex = 8 }, syscall.EINVAL},
		{"source slot empty", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.SgidIndex = 7 }, syscall.ENODATA},
		{"RoCE v1", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.SgidIndex = 2 }, syscall.EOPNOTSUPP},
		{"no peer", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid = [16]byte{} }, syscall.EINVAL},
		{"multicast", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[0] = 0xff }, syscall.EINVAL},
		{"IPv4 multicast", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[12] = 224 }, syscall.EINVAL},
		{"IPv6 from IPv4", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[0] = 0x20 }, syscall.ENETUNREACH},
		{"nobody", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[14] ^= 1 }, syscall.EHOSTUNREACH},
		{"timeout", uapi.QPRTR, func(m *uapi.ModifyQP) { m.Timeout = 32 }, syscall.EINVAL},
		{"retries", uapi.QPRTR, func(m *uapi.ModifyQP) { m.RetryCnt = 8 }, syscall.EINVAL},
		{"RNR retries", uapi.QPRTR, func(m *uapi.ModifyQP) { m.RnrRetry = 8 }, syscall.EINVAL},
		{"reads as initiator", uapi.QPRTR, func(m *uapi.ModifyQP) { m.MaxRdAtomic = 17 }, syscall.EINVAL},
		{"current state", uapi.QPRTR, func(m *uapi.ModifyQP) {
			m.AttrMask |= uapi.QPAttrCurState
			m.CurQPState = uapi.QPRTS
		}, syscall.EINVAL},
		{"right current state", uapi.QPRTR, func(m *uapi.ModifyQP) {
			m.AttrMask |= uapi.QPAttrCurState
			m.CurQPState = uapi.QPRTR
		}, 0},
		{"alternate path", uapi.QPRTR, func(m *uapi.ModifyQP) { m.AttrMask |= uapi.QPAttrAltPath }, syscall.EINVAL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, r.modify(q.to(uapi.QPReset)))
			path := []uapi.ModifyQP{q.toInit(), q.toRTR(q), q.toRTS()}
			for _, m := range path[:tt.from] {
				require.NoError(t, r.modify(m))
			}
			m := path[tt.from]
			tt.change(&m)
			requireErrno(t, tt.want, r.modify(m))
		})
	}
	// The extended command, and the driver's part.
	require.NoError(t, r.modify(q.to(uapi.QPReset)))
	ex := uapi.ExModifyQP{Base: q.toInit()}
	for name, tt := range map[string]struct {
		change func(*uapi.ExModifyQP)
		want   syscall.Errno
	}{
		"unknown bit": {func(m *uapi.ExModifyQP) { m.Base.AttrMask |= 1 << 26 }, syscall.EOPNOTSUPP},
		"rate limit":  {func(m *uapi.ExModifyQP) { m.Base.AttrMask |= uapi.QPAttrRateLimit }, syscall.EINVAL},
		"reserved":    {func(m *uapi.ExModifyQP) { m.Reserved = 1 }, syscall.EOPNOTSUPP},
	} {
		m := ex
		tt.change(&m)
		_, _, err := r.write(uapi.CmdExModifyQP, enc(m), 8, nil, 0)
		requireErrno(t, tt.want, err, name)
	}
	_, _, err := r.write(uapi.CmdExModifyQP, enc(ex), 8, make([]byte, 12), 0)
	requireErrno(t, syscall.EINVAL, err, "short driver request")
	_, _, err = r.write(uapi.CmdExModifyQP, enc(ex), 8, make([]byte, 16), 16)
	requireErrno(t, 0, err)
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

// After a fatal error everything is EIO, after the event.
func TestFatal(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, true)
	q := r.createQP(16, 16, cq, cq)
	q.connect(q)
	n.Fail()
	n.Fail()
	require.Zero(t, r.readAsync(uapi.EventDeviceFatal))
	_, err := r.async.Read(make([]byte, 16))
	require.ErrorIs(t, err, syscall.EIO)
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
	q := r.createQP(16, 16, cq, cq)
	require.NotEqual(t, uint32(prm.NoRegister), q.register)
	require.NoError(t, r.modify(q.toInit()))
	require.EqualValues(t, verbs.StateInit, q.state())
}
