package softnic

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// fired reports whether a completion event is there, and reads it.
func (q *rawCQ) fired() bool {
	q.r.t.Helper()
	require.NoError(q.r.t, q.events.SetReadDeadline(time.Now().Add(-time.Second)))
	q.events.mu.Lock()
	q.events.expired = len(q.events.queue) == 0
	q.events.mu.Unlock()
	var b [8]byte
	_, err := q.events.Read(b[:])
	if err != nil {
		require.ErrorIs(q.r.t, err, os.ErrDeadlineExceeded)
		return false
	}
	require.EqualValues(q.r.t, 0xc0, binary.NativeEndian.Uint64(b[:]))
	return true
}

// nop posts an entry that completes at once.
func (q *rawQP) nop(flags uint8) {
	w := make([]byte, prm.Unit)
	c := q.ctrl(prm.OpNop, 1)
	c.Flags = flags
	prm.PutCtrl(w, &c)
	q.post(w)
}

func loopback(t testing.TB, cfg Config, sends, recvs, cqes uint32) (*raw, *rawCQ, *rawQP) {
	r := newRaw(t, newTestNIC(t, cfg))
	cq := r.createCQ(cqes, true)
	q := r.createQP(sends, recvs, cq, cq)
	q.connect(q)
	return r, cq, q
}

func TestArm(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	q.nop(prm.CQEUpdate)
	require.False(t, cq.fired(), "not armed")
	cq.arm(false, 0, 0)
	require.True(t, cq.fired(), "armed after a completion that was not polled")
	require.NotNil(t, cq.next())
	cq.arm(false, 0, 1)
	q.nop(prm.CQEUpdate)
	require.False(t, cq.fired(), "sequence number is used")
	require.EqualValues(t, 1, r.nic.Counters().StaleArms)
	require.NotNil(t, cq.next())
	cq.arm(false, 1, 2)
	require.False(t, cq.fired(), "nothing new")
	q.nop(prm.CQEUpdate)
	require.True(t, cq.fired())
	q.nop(prm.CQEUpdate)
	require.False(t, cq.fired(), "one-shot")
	require.NotNil(t, cq.next())
	cq.arm(false, 2, 3)
	require.True(t, cq.fired(), "the second was not announced")
	require.NotNil(t, cq.next())
	// Announced already, though not consumed: no event for it.
	cq.arm(false, 3, 4)
	q.nop(prm.CQEUpdate)
	require.True(t, cq.fired())
	cq.arm(false, 4, 4)
	require.False(t, cq.fired())
	require.EqualValues(t, 4, r.nic.Counters().CompletionEvents)
}

func TestArmSolicited(t *testing.T) {
	_, cq, q := loopback(t, private(), 16, 16, 16)
	m := q.r.regMR(4096, allAccess)
	cq.arm(true, 0, 0)
	q.nop(prm.CQEUpdate)
	require.False(t, cq.fired())
	send := func(flags uint8) {
		q.receive(m.segment(0, 8))
		w := q.entry(prm.OpSend, m, 0, 8, 0, 0)
		w[11] = flags
		q.post(w)
	}
	send(0)
	require.False(t, cq.fired())
	send(prm.Solicited)
	require.True(t, cq.fired())
	send(prm.Solicited)
	cq.arm(true, 1, 0)
	require.True(t, cq.fired(), "came between poll and arm")
	cq.arm(true, 2, 0)
	q.post(q.entry(prm.OpSend, rawMR{addr: m.addr, key: 1}, 0, 8, 0, 0))
	require.True(t, cq.fired(), "errors are solicited")
}

// The arm register is one for all queues of a page. An arm whose doorbell was
// overwritten before the NIC looked is found in the queue's record.
func TestArmOverwritten(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	other := r.createCQ(16, true)
	q.nop(prm.CQEUpdate)
	cq.store(prm.RecordArm, prm.ArmValue(0, false, 0))
	other.store(prm.RecordArm, prm.ArmValue(0, false, 0))
	// Two stores, of which the NIC sees the second, and then two wakes.
	r.ring(0, prm.ArmRegister, prm.ArmDoorbell(prm.ArmValue(0, false, 0), other.cqn))
	require.False(t, cq.fired())
	r.pages[0].Wake(prm.ArmRegister)
	require.True(t, cq.fired())
}

func TestBadArms(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	bad := func() uint64 { return r.nic.Counters().BadDoorbells }
	r.ring(0, prm.ArmRegister, prm.ArmDoorbell(0, cq.cqn+1))
	require.EqualValues(t, 1, bad(), "no such queue")
	cq.store(prm.RecordArm, prm.ArmValue(0, false, 0))
	r.ring(0, prm.ArmRegister, prm.ArmDoorbell(prm.ArmValue(0, false, 5), cq.cqn))
	require.EqualValues(t, 2, bad(), "record was not written")
	cq.store(prm.RecordArm, 1<<31)
	r.ring(0, prm.ArmRegister, prm.ArmDoorbell(1<<31, cq.cqn))
	require.EqualValues(t, 3, bad(), "reserved bits")
	r.pages[0].Wake(0x30)
	require.EqualValues(t, 4, bad(), "no register")
	q.nop(prm.CQEUpdate)
	require.False(t, cq.fired())
}

func TestBadSendDoorbells(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	bad := func() uint64 { return r.nic.Counters().BadDoorbells }
	w := make([]byte, prm.Unit)
	c := q.ctrl(prm.OpNop, 1)
	c.QPN++
	prm.PutCtrl(w, &c)
	q.doorbell(w)
	require.EqualValues(t, 1, bad(), "no such queue pair")
	c = q.ctrl(prm.OpNop, 1)
	prm.PutCtrl(w, &c)
	q.doorbell(w)
	require.EqualValues(t, 2, bad(), "record was not written")
	require.Nil(t, cq.next())
	q.put(w)
	r.ring(0, prm.SendRegister+2*blueFlameSize, prm.SendDoorbell(w))
	require.EqualValues(t, 3, bad(), "a register user space does not have")
	q.doorbell(w)
	require.EqualValues(t, 3, bad())
	require.NotNil(t, cq.next())

	// A page of its own: queue pairs of another page are not there.
	p, _ := r.allocPage(prm.UARTypeBlueFlame)
	r.pages = append(r.pages, p)
	r.ring(1, prm.SendRegister, prm.SendDoorbell(w))
	require.EqualValues(t, 4, bad(), "queue pair of another page")
}

// A doorbell overwritten by another queue pair's is made good by the records.
func TestDoorbellOverwritten(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	other := r.createQP(16, 16, cq, cq)
	other.connect(other)
	entry := func(q *rawQP) []byte {
		w := make([]byte, prm.Unit)
		prm.PutCtrl(w, new(q.ctrl(prm.OpNop, 1)))
		q.put(w)
		return w
	}
	entry(q)
	r.ring(0, prm.SendRegister, prm.SendDoorbell(entry(other)))
	require.Equal(t, other.qpn, cq.wait().QPN())
	require.Nil(t, cq.next())
	r.pages[0].Wake(prm.SendRegister)
	require.Equal(t, q.qpn, cq.wait().QPN())
}

func TestBlueFlame(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	blueFlame := func(w []byte, change byte) {
		at := r.pages[0].Mem[prm.SendRegister+q.half*halfSize:]
		copy(at[8:], w[8:])
		at[15] ^= change
		q.put(w)
		q.doorbell(w)
	}
	inline := func(text string) []byte {
		units := 1 + prm.InlineUnits(len(text))
		w := make([]byte, units*prm.Unit)
		prm.PutCtrl(w, new(q.ctrl(prm.OpSend, units)))
		prm.PutInlineHeader(w[prm.Unit:], len(text))
		copy(w[prm.Unit+prm.InlineHeader:], text)
		return w
	}
	m := r.regMR(4096, allAccess)
	for i, text := range []string{"first", "second", "the third is longer"} {
		q.receive(m.segment(0, 100))
		blueFlame(inline(text), 0)
		require.EqualValues(t, len(text), cq.wants(prm.CQEReceive, 0, 0).ByteCount())
		cq.wants(prm.CQERequester, 0, 0)
		require.EqualValues(t, i+1, r.nic.Counters().BlueFlames)
	}
	q.nop(prm.CQEUpdate) // plain doorbells in between leave old bytes behind them
	require.NotNil(t, cq.next())
	q.nop(prm.CQEUpdate)
	require.NotNil(t, cq.next())
	require.EqualValues(t, 3, r.nic.Counters().BlueFlames)
	blueFlame(inline("another"), 1)
	cq.wants(prm.CQERequesterError, prm.SyndromeLocalQPOperation, detailBlueFlame)
}

// Entries of 128 bytes have the completion in their second half.
func TestLargeEntries(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := &rawCQ{r: r, entries: 16, eventFD: -1}
	buf, addr := r.alloc(16 * 128)
	var record uint64
	cq.record, record = r.alloc(8)
	u := r.cqUdata(addr, record)
	u.EntrySize = 128
	reply, _, err := r.write(uapi.CmdCreateCQ, enc(uapi.CreateCQ{Cqe: 15, CompChannel: -1}), 8, prm.Bytes(&u), 8)
	require.NoError(t, err)
	cq.handle = binary.NativeEndian.Uint32(reply)
	q := r.createQP(16, 0, cq, cq)
	q.connect(q)
	q.nop(prm.CQEUpdate)
	require.Equal(t, make([]byte, 64), buf[:64])
	require.Equal(t, q.qpn, prm.CQE(buf[64:128]).QPN())
	require.EqualValues(t, 0x77, prm.CQE(buf[64:128]).UserIndex())
}

// A ring that is not emptied in time ends the queue and its queue pairs.
func TestOverrun(t *testing.T) {
	r, cq, q := loopback(t, private(), 32, 16, 8)
	cq.noConsumer = true
	for range 8 {
		q.nop(prm.CQEUpdate)
	}
	require.Zero(t, r.nic.Counters().Overruns)
	q.nop(prm.CQEUpdate)
	require.EqualValues(t, 0xc0, r.readAsync(uapi.EventCQErr))
	require.EqualValues(t, 0xdd, r.readAsync(uapi.EventQPFatal))
	require.EqualValues(t, uapi.QPErr, q.state())
	require.EqualValues(t, 1, r.nic.Counters().Overruns)
	for range 8 {
		require.NotNil(t, cq.next(), "what was there stays")
	}
	require.Nil(t, cq.next())
}

func TestIgnoredOverrun(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	_, buf := r.alloc(4096)
	_, record := r.alloc(8)
	u := r.cqUdata(buf, record)
	reply, _, err := r.write(uapi.CmdExCreateCQ, enc(uapi.ExCreateCQ{Cqe: 3, CompChannel: -1, Flags: uapi.CQIgnoreOverrun}), 16, prm.Bytes(&u), 8)
	require.NoError(t, err)
	cq := &rawCQ{r: r, handle: binary.NativeEndian.Uint32(reply)}
	q := r.createQP(16, 0, cq, cq)
	q.connect(q)
	for range 12 {
		q.nop(prm.CQEUpdate)
	}
	require.Zero(t, r.nic.Counters().Overruns)
	require.EqualValues(t, 12, r.nic.Counters().Completions)
}

// Destroying tells how many events were read; unread ones vanish.
func TestEventsAtDestroy(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	q.nop(prm.CQEUpdate)
	cq.arm(false, 0, 0)
	require.True(t, cq.fired())
	cq.arm(false, 1, 1)
	q.nop(prm.CQEUpdate)
	m := r.regMR(4096, allAccess)
	q.receive(m.segment(0, 8))
	q.post(q.entry(prm.OpWrite, m, 0, 8, m.addr, 1)) // an access error of its own
	require.EqualValues(t, 0xdd, r.readAsync(uapi.EventQPAccessErr))
	reply, _, err := r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: q.handle}), 4, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, r.nic.Counters().AsyncEvents, binary.NativeEndian.Uint32(reply))
	reply, _, err = r.write(uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: cq.handle}), 8, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, binary.NativeEndian.Uint32(reply))
	require.False(t, cq.fired())
}

func TestEventFile(t *testing.T) {
	closed := 0
	e := newEventFile(asyncRecord, 1)
	e.closing = func() { closed++ }
	_, err := e.Read(make([]byte, 15))
	require.Error(t, err)
	e.raise(event{element: 3, kind: 9})
	var b [100]byte
	n, err := e.Read(b[:])
	require.NoError(t, err)
	require.Equal(t, 16, n)
	require.EqualValues(t, 3, binary.NativeEndian.Uint64(b[:]))
	require.EqualValues(t, 9, binary.NativeEndian.Uint64(b[8:]))

	done := make(chan error)
	read := func() {
		_, err := e.Read(b[:])
		done <- err
	}
	go read()
	require.NoError(t, e.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
	require.NoError(t, e.SetReadDeadline(time.Now().Add(time.Hour)))
	require.NoError(t, e.SetReadDeadline(time.Time{}))
	go read()
	e.raise(event{})
	require.NoError(t, <-done)
	require.NoError(t, e.SetReadDeadline(time.Now().Add(time.Hour)))
	go read()
	require.NoError(t, e.Close())
	require.ErrorIs(t, <-done, os.ErrClosed)
	require.ErrorIs(t, e.Close(), os.ErrClosed)
	require.ErrorIs(t, e.SetReadDeadline(time.Time{}), os.ErrClosed)
	e.raise(event{})
	_, err = e.Read(b[:])
	require.ErrorIs(t, err, os.ErrClosed)
	require.Equal(t, 1, closed)
}
