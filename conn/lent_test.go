package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whole messages go from one registered buffer to the other with no copy by either end;
// Write and Read copy once each.
func TestBulkWithoutCopies(t *testing.T) {
	const size, n = 4096, 100
	p := newPair(t, setup{size: size})
	go func() {
		for i := range n {
			r, err := p.a.Reserve()
			if err != nil {
				return
			}
			for j := range r.Bytes() {
				r.Bytes()[j] = byte(i)
			}
			if r.Send(size) != nil {
				return
			}
		}
	}()
	for i := range n {
		r, err := p.b.Borrow()
		require.NoError(t, err)
		require.Len(t, r.Bytes(), size)
		require.Equal(t, byte(i), r.Bytes()[size-1])
		require.NoError(t, r.Release())
	}
	require.Zero(t, p.a.Stats().BytesCopied)
	require.Zero(t, p.b.Stats().BytesCopied)
	require.Equal(t, uint64(n*size), p.a.Stats().BytesSent)
	go p.a.Write(make([]byte, n*size))
	_, err := io.ReadFull(p.b, make([]byte, n*size))
	require.NoError(t, err)
	require.Equal(t, uint64(n*size), p.a.Stats().BytesCopied)
	require.Equal(t, uint64(n*size), p.b.Stats().BytesCopied)
}

// Messages that were borrowed are given back in any order, and the peer goes on.
func TestReleaseInAnyOrder(t *testing.T) {
	p := newPair(t, setup{receives: 8, size: 64})
	const atOnce = (8-Reserve+1)/2 - 1
	var lent []Received
	for i := range 300 {
		_, err := p.a.Write([]byte{byte(i)})
		require.NoError(t, err)
		r, err := p.b.Borrow()
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, r.Bytes())
		if lent = append(lent, r); len(lent) == atOnce {
			at := i / 3 % atOnce
			require.NoError(t, lent[at].Release())
			lent = slices.Delete(lent, at, at+1)
		}
	}
	for _, r := range lent {
		require.NoError(t, r.Release())
	}
}

// While everything is lent the peer has no credit; one release gives it some.
func TestEverythingLent(t *testing.T) {
	p := newPair(t, setup{receives: Reserve + 1, size: 64, sends: 1})
	_, err := p.a.Write([]byte("first"))
	require.NoError(t, err)
	r, err := p.b.Borrow()
	require.NoError(t, err)
	require.Equal(t, "first", string(r.Bytes()))
	_, err = p.a.Write([]byte("second"))
	require.NoError(t, err)
	require.NoError(t, p.b.SetReadDeadline(time.Unix(1, 0)))
	_, err = p.b.Borrow()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, p.b.SetReadDeadline(time.Time{}))
	require.NoError(t, r.Release())
	r, err = p.b.Borrow()
	require.NoError(t, err)
	require.Equal(t, "second", string(r.Bytes()))
	require.NoError(t, r.Release())
	require.NoError(t, p.a.CloseWrite())
	_, err = p.b.Borrow()
	require.Equal(t, io.EOF, err)
}

// A read that took part of a message leaves the rest to be borrowed.
func TestBorrowTheRest(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.a.Write([]byte("some bytes"))
	require.NoError(t, err)
	_, err = io.ReadFull(p.b, make([]byte, 5))
	require.NoError(t, err)
	r, err := p.b.Borrow()
	require.NoError(t, err)
	require.Equal(t, "bytes", string(r.Bytes()))
	require.NoError(t, r.Release())
}

// A buffer that was given back is not given back again, and cannot be used.
func TestBuffersMisused(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.a.Write([]byte("x"))
	require.NoError(t, err)
	r, err := p.b.Borrow()
	require.NoError(t, err)
	require.NoError(t, r.Release())
	require.ErrorIs(t, r.Release(), ErrReturned)
	require.Nil(t, r.Bytes())

	s, err := p.a.Reserve()
	require.NoError(t, err)
	for _, n := range []int{-1, len(s.Bytes()) + 1} {
		require.Error(t, s.Send(n), "%d bytes", n)
	}
	require.NotNil(t, s.Bytes(), "it is still reserved")
	require.NoError(t, s.Send(1))
	require.ErrorIs(t, s.Send(1), ErrReturned)
	require.ErrorIs(t, s.Release(), ErrReturned)
	require.Nil(t, s.Bytes())
	var op *net.OpError
	require.True(t, errors.As(s.Send(1), &op))

	s, err = p.a.Reserve()
	require.NoError(t, err)
	require.NoError(t, s.Release())
	require.ErrorIs(t, s.Send(1), ErrReturned)
	require.Equal(t, uint64(2), p.a.Stats().BytesSent)
	require.ErrorIs(t, Received{}.Release(), ErrReturned)
	require.Nil(t, Received{}.Bytes())
	require.ErrorIs(t, Reserved{}.Release(), ErrReturned)
	require.ErrorIs(t, Reserved{}.Send(1), ErrReturned)
	require.Nil(t, Reserved{}.Bytes())
}

// A buffer that went round is not the one that was lent before.
func TestBufferOfBefore(t *testing.T) {
	p := newPair(t, setup{receives: MinReceives, sends: 2})
	var old Received
	for range 5 {
		_, err := p.a.Write([]byte("x"))
		require.NoError(t, err)
		r, err := p.b.Borrow()
		require.NoError(t, err)
		if old != (Received{}) {
			require.ErrorIs(t, old.Release(), ErrReturned)
			require.Nil(t, old.Bytes())
		}
		require.Equal(t, "x", string(r.Bytes()))
		require.NoError(t, r.Release())
		old = r
	}
}

// Borrowing and reserving allocate nothing.
func TestLentAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newPair(t, setup{})
	once := func() {
		s, err := p.a.Reserve()
		require.NoError(t, err)
		require.NoError(t, s.Send(len(s.Bytes())))
		r, err := p.b.Borrow()
		require.NoError(t, err)
		require.NoError(t, r.Release())
	}
	for range 100 {
		once()
	}
	require.Zero(t, testing.AllocsPerRun(100, once))
}

// Many goroutines give one buffer back: it is once.
func TestReleasedByMany(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.a.Write([]byte("x"))
	require.NoError(t, err)
	r, err := p.b.Borrow()
	require.NoError(t, err)
	s, err := p.a.Reserve()
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { r.Bytes(); r.Release() })
		wg.Go(func() { s.Bytes(); s.Send(0); s.Release() })
	}
	wg.Wait()
	for range 3 * 16 {
		_, err := p.a.Write([]byte("y"))
		require.NoError(t, err)
		_, err = p.b.Read(make([]byte, 1))
		require.NoError(t, err)
	}
}

// One buffer is left for those who write, and a Write that waits gets one that is given
// back.
func TestReserveLeavesOne(t *testing.T) {
	p := newPair(t, setup{sends: 3})
	var mine []Reserved
	for range 2 {
		s, err := p.a.Reserve()
		require.NoError(t, err)
		mine = append(mine, s)
	}
	_, err := p.a.Reserve()
	require.ErrorIs(t, err, errAllReserved)
	const n = 100_000
	wrote := make(chan error, 1)
	go func() {
		_, err := p.a.Write(make([]byte, n)) // by the one that is left
		wrote <- err
	}()
	_, err = io.ReadFull(p.b, make([]byte, n))
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	for _, s := range mine {
		require.NoError(t, s.Release())
	}
	s, err := p.a.Reserve()
	require.NoError(t, err)
	require.NoError(t, s.Release())
}

// After Close lent memory stays as it is until it is given back; then all is.
func TestCloseWhileLent(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.a.Write([]byte("still here"))
	require.NoError(t, err)
	r, err := p.b.Borrow()
	require.NoError(t, err)
	s, err := p.b.Reserve()
	require.NoError(t, err)
	require.NoError(t, p.b.Close())
	select {
	case <-p.b.Released():
		require.Fail(t, "released while lent")
	default:
	}
	require.Equal(t, "still here", string(r.Bytes()))
	copy(s.Bytes(), "nobody gets this")
	require.ErrorIs(t, s.Send(4), net.ErrClosed)
	require.ErrorIs(t, s.Send(4), ErrReturned)
	require.NoError(t, r.Release())
	<-p.b.Released()
}
