package softnic

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// Memory that is not there is an error, not a crash.
func TestOwnMemory(t *testing.T) {
	var m ownMemory
	mem, err := hostmem.Alloc(2 * pageSize())
	require.NoError(t, err)
	addr := mem.Addr()
	require.NoError(t, m.Write(addr, []byte{1, 2, 3}))
	var b [3]byte
	require.NoError(t, m.Read(addr, b[:]))
	require.Equal(t, [3]byte{1, 2, 3}, b)
	require.True(t, m.Pin(addr, uint64(2*pageSize()), true))
	require.True(t, m.Pin(addr+1, 1, false))
	require.True(t, touch(addr+1, uint64(pageSize()), true))
	require.True(t, touch(addr+3, 1, false))
	require.True(t, m.Store32(addr+8, 7))
	v, ok := m.Load32(addr + 8)
	require.True(t, ok)
	require.EqualValues(t, 7, v)
	old, ok := m.Add64(addr+16, 5)
	require.True(t, ok)
	require.Zero(t, old)
	old, ok = m.CompareSwap64(addr+16, 4, 9)
	require.True(t, ok)
	require.EqualValues(t, 5, old)
	old, ok = m.CompareSwap64(addr+16, 5, 9)
	require.True(t, ok)
	require.EqualValues(t, 5, old)
	old, _ = m.Add64(addr+16, 0)
	require.EqualValues(t, 9, old)

	require.NoError(t, mem.Free())
	for _, gone := range []uint64{addr, 0, ^uint64(0) - 3, addr + 1} {
		require.Equal(t, syscall.EFAULT, m.Read(gone, b[:]), "%#x", gone)
		require.Equal(t, syscall.EFAULT, m.Write(gone, b[:]))
		_, ok = m.Load32(gone)
		require.False(t, ok)
		require.False(t, m.Store32(gone, 1))
		_, ok = m.Add64(gone, 1)
		require.False(t, ok)
		_, ok = m.CompareSwap64(gone, 1, 2)
		require.False(t, ok)
		require.False(t, touch(gone&0xffffffffffff, 8, false))
		if runtime.GOOS == "linux" {
			require.False(t, m.Pin(gone, 8, false))
		}
	}
}

// Memory that is unmapped while it is registered, or is a queue, gives errors.
func TestMemoryVanishes(t *testing.T) {
	p := newRawPair(t, private())
	mem, err := hostmem.Alloc(4096)
	require.NoError(t, err)
	reply, _, err := p.a.write(uapi.CmdRegMR, enc(uapi.RegMR{Start: mem.Addr(), HcaVa: mem.Addr(), Length: 4096,
		PDHandle: p.a.pd, AccessFlags: allAccess}), 12, nil, 0)
	require.NoError(t, err)
	m := rawMR{addr: mem.Addr(), key: uint32(reply[4]) | uint32(reply[5])<<8 | uint32(reply[6])<<16 | uint32(reply[7])<<24}
	require.NoError(t, mem.Free())
	p.qa.post(p.qa.entry(prm.OpSend, m, 0, 8, 0, 0))
	p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalProtection, detailGone)
}

func TestQueueMemoryVanishes(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	q.connect(q)
	m := r.regMR(4096, allAccess)
	q.receive(m.segment(0, 8))
	object := func() *qp { return r.nic.qps[q.qpn] }
	change := func(f func(*qp)) {
		r.nic.lock()
		defer r.nic.unlock()
		f(object())
	}
	// As if the pages had gone: the addresses point nowhere from now on.
	change(func(o *qp) { o.sendBuf = 4096 })
	q.nop(prm.CQEUpdate)
	cq.wants(prm.CQERequesterError, prm.SyndromeLocalQPOperation, detailQueueGone)
	cq.wants(prm.CQEResponderError, prm.SyndromeFlushed, detailFlushed)
	require.NoError(t, r.modify(q.to(uapi.QPReset)))
	q.posted, q.received = 0, 0
	q.storeRecord(prm.RecordSend, 0)
	q.storeRecord(prm.RecordReceive, 0)
	change(func(o *qp) { o.sendBuf = o.buf + 16<<testStride })
	q.connect(q)
	buf := object().buf
	change(func(o *qp) { o.buf = 4096 })
	q.receive(m.segment(0, 8))
	q.post(q.entry(prm.OpSend, m, 0, 8, 0, 0))
	e := cq.wait()
	if e.Opcode() == prm.CQERequesterError {
		e = cq.wait()
	}
	require.Equal(t, detailQueueGone, detail(e.VendorSyndrome()))
	change(func(o *qp) { o.buf, o.record = buf, 4096 })
	before := r.nic.Counters()
	q.nop(prm.CQEUpdate)
	require.Equal(t, before.Completions, r.nic.Counters().Completions)
	c := r.nic.cqs[cq.cqn]
	r.nic.lock()
	c.record = 4096
	r.nic.unlock()
	cq.arm(false, 0, 0)
	require.Zero(t, r.nic.Counters().Arms)
	r.nic.lock()
	c.buf = 4096
	c.write(prm.Completion{})
	failed := c.failed
	r.nic.unlock()
	require.True(t, failed)
}

// Read-only memory can be registered for reading only.
func TestReadOnlyMemory(t *testing.T) {
	addr := readOnlyPage(t)
	r := newRaw(t, newTestNIC(t, private()))
	for access, want := range map[uint32]syscall.Errno{0: 0, uapi.AccessRemoteRead: 0, uapi.AccessLocalWrite: syscall.EFAULT} {
		_, _, err := r.write(uapi.CmdRegMR, enc(uapi.RegMR{Start: addr, HcaVa: addr, Length: 100, PDHandle: r.pd, AccessFlags: access}), 12, nil, 0)
		requireErrno(t, want, err)
	}
}

// The device fails while a registration pins memory.
type failingMemory struct {
	ownMemory
	nic *NIC
}

func (m failingMemory) Pin(addr, n uint64, write bool) bool {
	m.nic.Fail()
	return true
}

func TestFailWhilePinning(t *testing.T) {
	n := newTestNIC(t, private())
	r := openRaw(t, n, failingMemory{nic: n})
	r.context()
	r.pd = r.allocPD()
	_, addr := r.alloc(4096)
	_, _, err := r.write(uapi.CmdRegMR, enc(uapi.RegMR{Start: addr, HcaVa: addr, Length: 100, PDHandle: r.pd}), 12, nil, 0)
	requireErrno(t, syscall.EIO, err)
}

func dmabuf(r *raw, fd int, offset, length, iova, access uint64) (handle uint64, key uint32, err error) {
	var lkey []byte
	err = r.callThen(uapi.ObjectMR, uapi.MethodRegDmabufMR, func(c *uapi.Command) {
		c.NewObject(uapi.AttrRegDmabufHandle)
		c.Object(uapi.AttrRegDmabufPD, uint64(r.pd))
		c.In(uapi.AttrRegDmabufOffset, enc(offset))
		c.In(uapi.AttrRegDmabufLength, enc(length))
		c.In(uapi.AttrRegDmabufIOVA, enc(iova))
		c.In(uapi.AttrRegDmabufFD, enc(uint32(fd)))
		c.In(uapi.AttrRegDmabufAccess, enc(access))
		lkey = c.Out(uapi.AttrRegDmabufLKey, 4)
		c.Out(uapi.AttrRegDmabufRKey, 4)
	}, func(c *uapi.Command) { handle = c.Data(0) })
	if err == nil {
		key = uint32(lkey[0]) | uint32(lkey[1])<<8 | uint32(lkey[2])<<16 | uint32(lkey[3])<<24
	}
	return handle, key, err
}

func TestDmabuf(t *testing.T) {
	content := make([]byte, 3*pageSize())
	copy(content[pageSize()+100:], "in the file")
	fd := memfd(t, content)
	p := newRawPair(t, private())
	page := uint64(pageSize())
	for name, tt := range map[string]struct {
		fd                           int
		offset, length, iova, access uint64
		want                         syscall.Errno
	}{
		"descriptor":       {-1, 0, page, 0, allAccess, syscall.EBADF},
		"beyond the end":   {fd, page, 3 * page, 0, allAccess, syscall.EINVAL},
		"no length":        {fd, 0, 0, 0, allAccess, syscall.EINVAL},
		"offsets differ":   {fd, 8, 8, 16, allAccess, syscall.EINVAL},
		"access":           {fd, 0, 8, 0, uapi.AccessRemoteWrite, syscall.EINVAL},
		"access in 64 bit": {fd, 0, 8, 0, 1 << 40, syscall.EINVAL},
	} {
		_, _, err := dmabuf(p.a, tt.fd, tt.offset, tt.length, tt.iova, tt.access)
		requireErrno(t, tt.want, err, name)
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, _, err = dmabuf(p.a, int(r.Fd()), 0, 8, 0, allAccess)
	require.Error(t, err, "a pipe")
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
	good := p.a.pd
	p.a.pd = 99
	_, _, err = dmabuf(p.a, fd, 0, page, 0, allAccess)
	requireErrno(t, syscall.ENOENT, err)
	p.a.pd = good

	h, key, err := dmabuf(p.a, fd, page+100, 1000, 7<<30+100, allAccess)
	require.NoError(t, err)
	p.qb.receive(p.mb.segment(0, 100))
	p.qa.post(p.qa.entry(prm.OpSend, rawMR{addr: 7<<30 + 100, key: key}, 0, 11, 0, 0))
	p.cb.wants(prm.CQEReceive, 0, 0)
	require.Equal(t, "in the file", string(p.mb.b[:11]))
	require.NoError(t, p.a.call(uapi.ObjectMR, uapi.MethodMRDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroyMRHandle, h)
	}))
}
