package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

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
		{"on demand", func(m *uapi.RegMR) { m.AccessFlags |= uapi.AccessOnDemand }, syscall.EOPNOTSUPP},
		{"unknown access", func(m *uapi.RegMR) { m.AccessFlags |= 1 << 15 }, syscall.EINVAL},
		{"no domain", func(m *uapi.RegMR) { m.PDHandle = 77 }, syscall.ENOENT},
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
		{"UD", func(q *request) { q.core.QPType = uapi.QPTypeUD }, 0},
		{"UC", func(q *request) { q.core.QPType = uapi.QPTypeUC }, 0},
		{"no type", func(q *request) { q.core.QPType = 77 }, syscall.EINVAL},
		{"raw packet", func(q *request) { q.core.QPType = 8 }, syscall.EOPNOTSUPP},
		{"no SRQ", func(q *request) { q.core.IsSRQ, q.core.SRQHandle = 1, 99 }, syscall.ENOENT},
		{"reserved core", func(q *request) { q.core.Reserved = 1 }, syscall.EINVAL},
		{"PD", func(q *request) { q.core.PDHandle = 99 }, syscall.ENOENT},
		{"send CQ", func(q *request) { q.core.SendCQHandle = 99 }, syscall.ENOENT},
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
