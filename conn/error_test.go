package conn

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
)

// TestQueueErrors: every way a queue may fail is a connection reset, for blocked calls
// and for later ones, and the reason can be had.
func TestQueueErrors(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(q *fakeQueue)
		is   error
	}{
		"send completes with an error": {func(q *fakeQueue) {
			q.fail(Completion{ID: 0, Err: status(verbs.RetryExceeded)})
		}, &verbs.StatusError{Status: verbs.RetryExceeded}},
		"the reason after a flush": {func(q *fakeQueue) {
			q.complete(Completion{ID: q.receive(), Receive: true, Err: flushed(), Flushed: true})
			q.fail(Completion{ID: q.receive(), Receive: true, Err: status(verbs.LocalProtection)})
		}, &verbs.StatusError{Status: verbs.LocalProtection}},
		"poll fails":      {func(q *fakeQueue) { q.lostErr = errTest; q.fire() }, errTest},
		"unknown send":    {func(q *fakeQueue) { q.complete(Completion{ID: 999}) }, syscall.ECONNRESET},
		"unknown control": {func(q *fakeQueue) { q.complete(Completion{ID: controlID}) }, syscall.ECONNRESET},
		"unknown receive": {func(q *fakeQueue) { q.complete(Completion{ID: 999, Receive: true}) }, syscall.ECONNRESET},
		"completed twice": {func(q *fakeQueue) { q.complete(Completion{}); q.complete(Completion{}) }, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, setup{})
			p.qa.set(func() { p.qa.holdDone = true })
			_, err := p.a.Write([]byte("x")) // entry 0 is posted
			require.NoError(t, err)
			errs := make(chan error, 2)
			go func() { _, err := p.a.Read(make([]byte, 1)); errs <- err }()
			go func() { _, err := p.a.Write(make([]byte, 1<<20)); errs <- err }()
			parked(t, p.a, &p.a.rd)
			parked(t, p.a, &p.a.wr)
			p.qa.set(func() { c.fail(p.qa) })
			for range cap(errs) {
				requireReset(t, <-errs, c.is)
			}
			_, err = p.a.Read(make([]byte, 1))
			requireReset(t, err, c.is)
			_, err = p.a.Write(make([]byte, 1))
			requireReset(t, err, c.is)
			_, err = io.ReadAll(p.b)
			require.ErrorIs(t, err, syscall.ECONNRESET, "the peer is told")
			require.NoError(t, p.a.Close())
		})
	}
}

func requireReset(t *testing.T, err, is error) {
	t.Helper()
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, err, is)
	ne, ok := err.(net.Error)
	require.True(t, ok)
	require.False(t, ne.Timeout())
	require.NotEmpty(t, err.Error())
}

// TestPostErrors: a queue that refuses an entry.
func TestPostErrors(t *testing.T) {
	p := newPair(t, setup{})
	p.qa.set(func() { p.qa.failPost = errTest })
	_, err := p.a.Write([]byte("x"))
	require.NoError(t, err, "the bytes were taken")
	_, err = p.a.Write([]byte("x"))
	requireReset(t, err, errTest)

	p = newPair(t, setup{})
	p.qa.set(func() { p.qa.failPost = errTest })
	require.NoError(t, p.a.CloseWrite())
	_, err = p.a.Read(make([]byte, 1))
	requireReset(t, err, errTest)

	p = newPair(t, setup{})
	_, err = p.b.Write([]byte("xy"))
	require.NoError(t, err)
	p.qa.set(func() { p.qa.failReceive = errTest })
	n, err := p.a.Read(make([]byte, 9))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = p.a.Read(make([]byte, 1))
	requireReset(t, err, errTest)

	p = newPair(t, setup{})
	p.qa.set(func() { p.qa.failArm = errTest })
	_, err = p.a.Read(make([]byte, 1))
	requireReset(t, err, errTest)
}

// TestDataBeforeError: what arrived before the end of the queue is read first, and an
// end of stream that arrived hides the error.
func TestDataBeforeError(t *testing.T) {
	for _, fin := range []bool{false, true} {
		p := newPair(t, setup{})
		_, err := p.b.Write([]byte("abc"))
		require.NoError(t, err)
		if fin {
			require.NoError(t, p.b.CloseWrite())
		}
		p.qa.set(func() { p.qa.fail(Completion{ID: p.qa.receive(), Receive: true, Err: flushed(), Flushed: true}) })
		got, err := io.ReadAll(p.a)
		require.Equal(t, "abc", string(got))
		if fin {
			require.NoError(t, err)
		} else {
			requireReset(t, err, &verbs.StatusError{Status: verbs.Flushed})
		}
		_, err = p.a.Write([]byte{1})
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}

// TestHangup: the peer's process is gone, which only its control connection tells.
func TestHangup(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.b.Write([]byte("abc"))
	require.NoError(t, err)
	errs := make(chan error, 1)
	go func() { _, err := p.a.Write(make([]byte, 1<<20)); errs <- err }()
	parked(t, p.a, &p.a.wr)
	p.cb.Close()
	requireReset(t, <-errs, errHangup)
	got, err := io.ReadAll(p.a)
	requireReset(t, err, errHangup)
	require.Equal(t, "abc", string(got))
}

// TestHangupAfterFIN: half closed, and then the process dies.
func TestHangupAfterFIN(t *testing.T) {
	p := newPair(t, setup{})
	require.NoError(t, p.b.CloseWrite())
	errs := make(chan error, 1)
	go func() { _, err := p.a.Write(make([]byte, 1<<20)); errs <- err }()
	parked(t, p.a, &p.a.wr)
	p.cb.Close()
	requireReset(t, <-errs, errHangup)
	_, err := p.a.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// TestHangupOvertakes: the end of the control connection is seen before the FIN that
// was sent before it.
func TestHangupOvertakes(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, setup{})
			done := make(chan error, 1)
			go func() { _, err := p.a.Read(make([]byte, 1)); done <- err }()
			p.qb.set(func() { p.qb.holdSends = true })
			require.NoError(t, p.b.CloseWrite())
			start := time.Now()
			p.cb.Close()
			synctest.Wait() // the end has been seen
			if late {
				require.ErrorIs(t, <-done, errHangup)
				require.Equal(t, hangupGrace, time.Since(start))
				return
			}
			p.qb.set(func() { p.qb.holdSends = false })
			require.Equal(t, io.EOF, <-done)
		})
	}
}

// TestHangupWhileLingering: nobody is left to send to.
func TestHangupWhileLingering(t *testing.T) {
	for _, fin := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, setup{receives: 5, size: 100, sends: 4})
			_, err := p.a.Write(make([]byte, 400))
			require.NoError(t, err)
			if fin {
				require.NoError(t, p.b.CloseWrite())
			}
			require.NoError(t, p.a.Close())
			start := time.Now()
			p.cb.Close()
			<-p.a.Released()
			require.Zero(t, time.Since(start))
		})
	}
}

func TestControlBytes(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.cb.Write([]byte("GET / HTTP/1.1\r\n")[:1])
	require.NoError(t, err)
	var protocol *ProtocolError
	require.Eventually(t, func() bool {
		_, err = p.a.Write([]byte{1})
		return err != nil
	}, 10*time.Second, time.Millisecond)
	require.ErrorAs(t, err, &protocol)
}

func TestWatchLate(t *testing.T) {
	p := newPair(t, setup{noControl: true})
	p.qa.set(func() { p.qa.lostErr = errTest })
	_, err := p.a.Read(make([]byte, 1))
	require.ErrorIs(t, err, errTest)
	near, far := net.Pipe()
	p.a.Watch(near) // the connection has failed already
	_, err = far.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.NoError(t, p.a.Close())

	near, far = net.Pipe()
	p.a.Watch(near) // closed
	_, err = far.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// TestHostile: messages no Conn would send end this connection with a ProtocolError and
// tell the peer.
func TestHostile(t *testing.T) {
	for name, m := range map[string]struct {
		n      uint32
		imm    uint32
		hasImm bool
	}{
		"no immediate":   {1, 0, false},
		"too long":       {4097, 0, true},
		"far too long":   {0xffffffff, 0, true},
		"unknown flag":   {1, 1 << 24, true},
		"too much grant": {0, 1, true},
		"too many acks":  {0, 1 << 16, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, setup{})
			_, err := p.b.Write([]byte("abc"))
			require.NoError(t, err)
			p.qa.inject(m.n, m.imm, m.hasImm)
			p.qa.inject(1, 0, true) // comes too late to count
			got, err := io.ReadAll(p.a)
			require.Equal(t, "abc", string(got))
			var protocol *ProtocolError
			require.ErrorAs(t, err, &protocol)
			_, err = p.a.Write([]byte{1})
			require.ErrorAs(t, err, &protocol)
			_, err = io.ReadAll(p.b)
			require.ErrorIs(t, err, syscall.ECONNRESET)
		})
	}
}

// TestControlFlood: empty messages that say nothing are not answered, and end the
// connection once they exceed what the reserve allows.
func TestControlFlood(t *testing.T) {
	p := newPair(t, setup{})
	for range Reserve {
		p.qa.inject(0, 0, true)
	}
	require.NoError(t, p.a.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := p.a.Read(make([]byte, 1))
	isTimeout(t, err)
	require.Zero(t, p.a.Stats().MessagesSent)
	p.qa.inject(0, 0, true)
	require.NoError(t, p.a.SetReadDeadline(time.Time{}))
	_, err = p.a.Read(make([]byte, 1))
	var protocol *ProtocolError
	require.ErrorAs(t, err, &protocol)
}

// FuzzMessages lets anything arrive. The connection never panics or hangs, and what
// is read is bounded by what was sent.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 5, 0x80, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x40, 0, 0, 0, 0, 0, 0, 0, 0, 200})
	f.Fuzz(func(t *testing.T, in []byte) {
		p := newPair(t, setup{size: 128, receives: 6, noControl: true})
		p.a.Write([]byte("some data"))
		total := 0
		for ; len(in) >= 5; in = in[5:] {
			imm := uint32(in[0])<<24 | uint32(in[1])<<16 | uint32(in[2])<<8 | uint32(in[3])
			p.qa.inject(uint32(in[4]), imm, in[4] != 255)
			total += int(in[4])
		}
		p.a.SetReadDeadline(time.Unix(1, 0))
		p.a.Read(make([]byte, 1))
		p.a.SetReadDeadline(time.Now().Add(time.Millisecond))
		got, err := io.ReadAll(p.a)
		if len(got) > total {
			t.Fatal("bytes from nowhere")
		}
		var protocol *ProtocolError
		if err != nil && !errors.As(err, &protocol) {
			isTimeout(t, err)
		}
	})
}

func TestOptions(t *testing.T) {
	p := newPair(t, setup{})
	require.NoError(t, p.a.SetNoDelay(false))
	require.NoError(t, p.a.SetReadBuffer(1))
	require.NoError(t, p.a.SetWriteBuffer(1))
	_, err := p.a.SyscallConn()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, p.a.SetKeepAlive(true), "the control connection is a pipe")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	tcp, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	p = newPair(t, setup{noControl: true})
	p.a.Watch(tcp)
	require.NoError(t, p.a.SetKeepAlive(true))
	require.NoError(t, p.a.SetKeepAlivePeriod(time.Minute))
	require.NoError(t, p.a.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Minute}))
}
