package conn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCoalesce: while messages are in flight small Writes share one, and it goes out
// when one of them is done although nobody calls anything.
func TestCoalesce(t *testing.T) {
	p := newPair(t, setup{})
	p.qa.set(func() { p.qa.holdDone = true })
	var want bytes.Buffer
	for i := range 60 {
		line := strings.Repeat("x", i)
		want.WriteString(line)
		_, err := io.WriteString(p.a, line)
		require.NoError(t, err)
	}
	require.Equal(t, uint64(eager), p.a.Stats().MessagesSent)
	require.Greater(t, p.a.Stats().Coalesced, uint64(50))
	p.qa.set(func() { p.qa.holdDone = false })
	got := make([]byte, want.Len())
	_, err := io.ReadFull(p.b, got)
	require.NoError(t, err)
	require.Equal(t, want.Bytes(), got)
	require.LessOrEqual(t, p.a.Stats().MessagesSent, uint64(eager+2))

	p.qa.set(func() { p.qa.holdDone = true }) // and all over again
	before := p.a.Stats().MessagesSent
	for range 10 {
		_, err = p.a.Write([]byte("y"))
		require.NoError(t, err)
	}
	require.Equal(t, before+eager, p.a.Stats().MessagesSent)
}

// TestTailLeaves: a message that is not full leaves with the first completion, however
// many are in flight.
func TestTailLeaves(t *testing.T) {
	p := newPair(t, setup{size: 100})
	p.qa.set(func() { p.qa.holdDone = true })
	_, err := p.a.Write(make([]byte, 510))
	require.NoError(t, err)
	require.Equal(t, uint64(5), p.a.Stats().MessagesSent)
	p.qa.set(p.qa.completeOne)
	_, err = io.ReadFull(p.b, make([]byte, 510))
	require.NoError(t, err)
}

// TestMissedEvent: a completion comes between the last look and Arm, which gives no
// event for it.
func TestMissedEvent(t *testing.T) {
	p := newPair(t, setup{armMisses: true})
	p.qa.set(func() {
		p.qa.holdDone = true
		p.qa.beforeArm = p.qa.completeOne
	})
	for range eager + 1 {
		_, err := p.a.Write([]byte("x"))
		require.NoError(t, err)
	}
	_, err := io.ReadFull(p.b, make([]byte, eager+1))
	require.NoError(t, err)
}

// TestFillingStays: a message is not posted while bytes are copied into it.
func TestFillingStays(t *testing.T) {
	p := newPair(t, setup{})
	p.qa.set(func() { p.qa.holdDone = true })
	for range eager + 1 {
		_, err := p.a.Write([]byte("x"))
		require.NoError(t, err)
	}
	p.a.mu.Lock()
	p.a.out.filling = true
	p.a.mu.Unlock()
	p.qa.set(func() { p.qa.holdDone = false })
	p.a.mu.Lock()
	p.a.progress()
	require.Zero(t, p.a.out.inFlight)
	require.True(t, p.a.out.unsent())
	p.a.out.filling = false
	p.a.flush()
	p.a.mu.Unlock()
	_, err := io.ReadFull(p.b, make([]byte, eager+1))
	require.NoError(t, err)
}

// TestControlsStayInTheirRoom: grants wait for the send queue, which New was promised
// room for Reserve control messages in. newPair checks the room.
func TestControlsStayInTheirRoom(t *testing.T) {
	p := newPair(t, setup{sends: 1, receives: 5, size: 100})
	p.qa.set(func() { p.qa.holdDone = true })
	errs := make(chan error, 2)
	go func() { _, err := p.b.Write(make([]byte, 10_000)); errs <- err }()
	go func() { _, err := io.ReadFull(p.a, make([]byte, 10_000)); errs <- err }()
	out := func() (n int) {
		p.qa.set(func() { n = p.qa.maxOut })
		return n
	}
	require.Eventually(t, func() bool { return out() == Reserve }, 20*time.Second, time.Millisecond)
	parked(t, p.a, &p.a.rd)
	parked(t, p.b, &p.b.wr)
	require.Equal(t, Reserve, out())
	p.qa.set(func() { p.qa.holdDone = false })
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}

// TestUncork: what WriteBuffers had taken when it failed is sent.
func TestUncork(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.a.write([]byte("head"), true)
	require.NoError(t, err)
	require.Zero(t, p.a.Stats().MessagesSent)
	require.NoError(t, p.a.SetWriteDeadline(time.Unix(1, 0)))
	_, err = p.a.WriteBuffers(net.Buffers{[]byte("more"), []byte("tail")})
	isTimeout(t, err)
	_, err = io.ReadFull(p.b, make([]byte, 4))
	require.NoError(t, err)
}

// TestWriteKeepsNothing: the caller's slice is free once Write has returned.
func TestWriteKeepsNothing(t *testing.T) {
	p := newPair(t, setup{})
	p.qa.set(func() { p.qa.holdSends = true })
	b := []byte("before")
	_, err := p.a.Write(b)
	require.NoError(t, err)
	copy(b, "after!")
	p.qa.set(func() { p.qa.holdSends = false })
	got := make([]byte, 6)
	_, err = io.ReadFull(p.b, got)
	require.NoError(t, err)
	require.Equal(t, "before", string(got))
}

func TestWriteNothing(t *testing.T) {
	p := newPair(t, setup{})
	n, err := p.a.Write(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	m, err := p.a.WriteBuffers(nil)
	require.NoError(t, err)
	require.Zero(t, m)
	n, err = p.a.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, p.a.Stats().MessagesSent)
}

func TestWriteBuffers(t *testing.T) {
	p := newPair(t, setup{size: 1000})
	bufs := net.Buffers{[]byte("head"), nil, bytes.Repeat([]byte("b"), 2500), []byte("tail")}
	n, err := p.a.WriteBuffers(bufs)
	require.NoError(t, err)
	require.Equal(t, int64(2508), n)
	require.Len(t, bufs[2], 2500, "the buffers are not consumed")
	require.Equal(t, uint64(3), p.a.Stats().MessagesSent)
	got := make([]byte, 2508)
	_, err = io.ReadFull(p.b, got)
	require.NoError(t, err)
	require.Equal(t, bytes.Join(bufs, nil), got)

	require.NoError(t, p.b.CloseRead())
	require.Eventually(t, func() bool { _, err = p.a.WriteBuffers(bufs); return err != nil }, time.Second, time.Microsecond)
	require.IsType(t, &net.OpError{}, err)
}

// TestWriteBuffersTimeout: what was taken before the deadline is sent, although more was
// to follow.
func TestWriteBuffersTimeout(t *testing.T) {
	p := newPair(t, setups["tiny"])
	n := writeUntilBlocked(t, p.a, func() (int64, error) {
		return p.a.WriteBuffers(net.Buffers{[]byte("head"), make([]byte, 1000)})
	})
	require.Equal(t, int64(2*MinSize), n)
	got := make([]byte, n)
	_, err := io.ReadFull(p.b, got)
	require.NoError(t, err)
	require.Equal(t, "head", string(got[:4]))
}

func TestReadFromAndWriteTo(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		data := randomBytes(3, 50_000)
		errs := make(chan error, 1)
		go func() {
			n, err := p.a.ReadFrom(iotest.HalfReader(bytes.NewReader(data)))
			if err == nil && n != int64(len(data)) {
				err = io.ErrShortWrite
			}
			errs <- err
			p.a.CloseWrite()
		}()
		var got bytes.Buffer
		n, err := p.b.WriteTo(&got)
		require.NoError(t, err)
		require.NoError(t, <-errs)
		require.Equal(t, int64(len(data)), n)
		require.True(t, bytes.Equal(data, got.Bytes()))
	})
}

func TestReadFromErrors(t *testing.T) {
	p := newPair(t, setup{})
	n, err := p.a.ReadFrom(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errTest)))
	require.Equal(t, errTest, err, "the reader's own error comes back as it is")
	require.Equal(t, int64(3), n)
	_, err = p.a.ReadFrom(lyingReader{})
	require.ErrorIs(t, err, errInvalidRead)
	require.Panics(t, func() { p.a.ReadFrom(panicker{}) })
	n, err = p.a.ReadFrom(strings.NewReader("def"))
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
	got := make([]byte, 6)
	_, err = io.ReadFull(p.b, got)
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(got))
	require.NoError(t, p.a.CloseWrite())
	_, err = p.a.ReadFrom(strings.NewReader("x"))
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "readfrom", op.Op)
}

type lyingReader struct{}

func (lyingReader) Read(p []byte) (int, error) { return len(p) + 1, nil }

type panicker struct{}

func (panicker) Read([]byte) (int, error)  { panic("reader") }
func (panicker) Write([]byte) (int, error) { panic("writer") }

// noticed is a reader that tells of each Read before it begins.
type noticed struct {
	io.Reader
	reads chan<- struct{}
}

func (r noticed) Read(p []byte) (int, error) {
	r.reads <- struct{}{}
	return r.Reader.Read(p)
}

// TestReadFromDoesNotBlockOthers: while ReadFrom waits for its reader, Write and Close
// work, and a second ReadFrom too.
func TestReadFromDoesNotBlockOthers(t *testing.T) {
	p := newPair(t, setup{sends: 2})
	done := make(chan error, 2)
	// blocked has ReadFrom read one byte, and returns when it waits for more.
	blocked := func(first string) *io.PipeWriter {
		r, w := io.Pipe()
		reads := make(chan struct{}, 3)
		go func() { _, err := p.a.ReadFrom(noticed{r, reads}); done <- err }()
		w.Write([]byte(first))
		<-reads
		<-reads
		return w
	}
	w, w2 := blocked("1"), blocked("2")
	got := make([]byte, 10_002)
	read := make(chan error, 1)
	go func() { _, err := io.ReadFull(p.b, got); read <- err }()
	_, err := p.a.Write(make([]byte, 10_000))
	require.NoError(t, err)
	require.NoError(t, <-read)

	require.NoError(t, p.a.Close())
	select {
	case <-p.a.Released():
		t.Fatal("buffers are gone while ReadFrom has one")
	default:
	}
	w.Write([]byte("3"))
	w2.Write([]byte("4"))
	require.ErrorIs(t, <-done, net.ErrClosed)
	require.ErrorIs(t, <-done, net.ErrClosed)
	<-p.a.Released()
}

func TestWriteToErrors(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.b.Write([]byte("abcdef"))
	require.NoError(t, err)

	n, err := p.a.WriteTo(writerFunc(func(b []byte) (int, error) { return 2, errTest }))
	require.Equal(t, errTest, err)
	require.Equal(t, int64(2), n)
	n, err = p.a.WriteTo(writerFunc(func(b []byte) (int, error) { return 1, nil }))
	require.Equal(t, io.ErrShortWrite, err)
	require.Equal(t, int64(1), n)
	_, err = p.a.WriteTo(writerFunc(func(b []byte) (int, error) { return len(b) + 1, nil }))
	require.Equal(t, errInvalidWrite, err)
	require.Panics(t, func() { p.a.WriteTo(panicker{}) })

	got := make([]byte, 3)
	_, err = io.ReadFull(p.a, got)
	require.NoError(t, err)
	require.Equal(t, "def", string(got), "what the writer did not take stays")

	require.NoError(t, p.a.Close())
	_, err = p.a.WriteTo(io.Discard)
	require.ErrorIs(t, err, net.ErrClosed)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestWriteToWhileClosing: the memory stays until the writer has returned.
func TestWriteToWhileClosing(t *testing.T) {
	p := newPair(t, setup{noControl: true})
	_, err := p.b.Write([]byte("abc"))
	require.NoError(t, err)
	in, out := make(chan bool), make(chan bool)
	done := make(chan error)
	go func() {
		_, err := p.a.WriteTo(writerFunc(func(b []byte) (int, error) {
			in <- true
			<-out
			if string(b) != "abc" {
				return 0, errors.New("the buffer is gone")
			}
			return len(b), nil
		}))
		done <- err
	}()
	<-in
	require.NoError(t, p.a.Close())
	out <- true
	require.ErrorIs(t, <-done, net.ErrClosed)
	<-p.a.Released()
}

// TestReaderWakesAlthoughWriterPolls: the writer takes the completion that the sleeping
// reader needs.
func TestReaderWakesAlthoughWriterPolls(t *testing.T) {
	p := newPair(t, setup{config: func(c *Config) { c.Spin = -1 }})
	for range 200 {
		done := make(chan error)
		go func() {
			_, err := p.a.Read(make([]byte, 1))
			done <- err
		}()
		parked(t, p.a, &p.a.rd)
		p.qa.set(func() { p.qa.armed = false }) // the event is never delivered
		_, err := p.b.Write([]byte{1})
		require.NoError(t, err)
		_, err = p.a.Write([]byte{1})
		require.NoError(t, err)
		require.NoError(t, <-done)
		p.a.mu.Lock()
		p.a.armed = false
		p.a.mu.Unlock()
		_, err = p.b.Read(make([]byte, 1))
		require.NoError(t, err)
	}
}

// TestStopWhileFilling: the peer stops reading while a Write copies into the tail.
func TestStopWhileFilling(t *testing.T) {
	p := newPair(t, setup{})
	p.a.mu.Lock()
	n := copy(p.a.out.room(), "late")
	p.a.out.filling = true
	p.a.mu.Unlock()
	require.NoError(t, p.b.CloseRead())
	p.a.mu.Lock()
	p.a.progress()
	require.True(t, p.a.flow.stopSeen)
	p.a.out.filling = false
	p.a.written(n)
	require.False(t, p.a.out.left())
	p.a.mu.Unlock()
	require.NoError(t, p.a.Close(), "nothing is left to wait for")
	<-p.a.Released()
}
