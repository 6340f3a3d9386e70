package conn

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeadlineWithDataBuffered(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.b.Write([]byte("hello"))
	require.NoError(t, err)
	buf := make([]byte, 2)
	_, err = p.a.Read(buf)
	require.NoError(t, err)

	require.NoError(t, p.a.SetReadDeadline(time.Unix(1, 0)))
	n, err := p.a.Read(buf)
	require.Zero(t, n)
	isTimeout(t, err)
	_, err = p.a.WriteTo(io.Discard)
	isTimeout(t, err)
	require.NoError(t, p.a.SetReadDeadline(time.Time{}))
	n, err = p.a.Read(make([]byte, 9))
	require.NoError(t, err)
	require.Equal(t, 3, n, "a past deadline must not lose bytes")
}

// TestDeadlineMoves: in a bubble of fake time a pending Read ends exactly when the
// deadline set last is due.
func TestDeadlineMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, setup{})
		start := time.Now()
		require.NoError(t, p.a.SetDeadline(start.Add(time.Second)))
		done := make(chan error)
		go func() {
			_, err := p.a.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, p.a.SetReadDeadline(start.Add(time.Hour)))
		time.Sleep(2 * time.Second)
		p.a.expire(&p.a.rd) // the timer of an earlier deadline, which fires late
		select {
		case err := <-done:
			t.Fatalf("ended early: %v", err)
		default:
		}
		isTimeout(t, <-done)
		require.Equal(t, time.Hour, time.Since(start))

		// And back from none to soon, while it is parked.
		require.NoError(t, p.a.SetReadDeadline(time.Time{}))
		go func() {
			_, err := p.a.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		start = time.Now()
		require.NoError(t, p.a.SetReadDeadline(start.Add(time.Minute)))
		isTimeout(t, <-done)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// TestDeadlineFlips: no timer of an earlier deadline ends a later Read.
func TestDeadlineFlips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, setup{})
		for i := range 100_000 {
			d := time.Duration(i%7) * time.Nanosecond
			require.NoError(t, p.a.SetReadDeadline(time.Now().Add(d)))
			if i%1000 == 0 {
				time.Sleep(3 * time.Nanosecond)
			}
		}
		require.NoError(t, p.a.SetReadDeadline(time.Time{}))
		time.Sleep(time.Hour)
		done := make(chan error)
		go func() {
			_, err := p.a.Read(make([]byte, 1))
			done <- err
		}()
		time.Sleep(time.Hour)
		_, err := p.b.Write([]byte{1})
		require.NoError(t, err)
		require.NoError(t, <-done)
	})
}

// TestWriteTimeout: the count is what the peer gets, in order, and then the stream goes on.
func TestWriteTimeout(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		data := randomBytes(1, 1<<20)
		n := writeUntilBlocked(t, p.a, func() (int64, error) { n, err := p.a.Write(data); return int64(n), err })
		require.Positive(t, n)
		require.Less(t, n, int64(len(data)))
		m, err := p.a.Write(data[n:])
		require.Zero(t, m)
		isTimeout(t, err)
		_, err = p.a.ReadFrom(nil)
		isTimeout(t, err)

		require.NoError(t, p.a.SetWriteDeadline(time.Time{}))
		errs := make(chan error, 1)
		go func() {
			_, err := p.a.Write(data[n:])
			errs <- err
			p.a.CloseWrite()
		}()
		got, err := io.ReadAll(p.b)
		require.NoError(t, err)
		require.NoError(t, <-errs)
		require.Equal(t, data, got)
	})
}

// writeUntilBlocked calls write, lets the deadline pass once it blocks, and returns its
// count.
func writeUntilBlocked(t *testing.T, c *Conn, write func() (int64, error)) int64 {
	t.Helper()
	type result struct {
		n   int64
		err error
	}
	done := make(chan result)
	go func() {
		n, err := write()
		done <- result{n, err}
	}()
	parked(t, c, &c.wr)
	require.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
	r := <-done
	isTimeout(t, r.err)
	return r.n
}

func TestWritePastDeadlineWhileBlocked(t *testing.T) {
	p := newPair(t, setups["tiny"])
	done := make(chan error)
	go func() {
		_, err := p.a.Write(make([]byte, 10_000))
		done <- err
	}()
	parked(t, p.a, &p.a.wr)
	require.NoError(t, p.a.SetWriteDeadline(time.Unix(1, 0)))
	isTimeout(t, <-done)
}

func TestDeadlineAfterClose(t *testing.T) {
	p := newPair(t, setup{})
	require.NoError(t, p.a.Close())
	for _, set := range []func(time.Time) error{p.a.SetDeadline, p.a.SetReadDeadline, p.a.SetWriteDeadline} {
		err := set(time.Now())
		require.ErrorIs(t, err, net.ErrClosed)
		require.IsType(t, &net.OpError{}, err)
	}
}

// TestBackgroundRead is how net/http takes over a connection: one byte is being read in
// the background, and a past deadline calls that off.
func TestBackgroundRead(t *testing.T) {
	p := newPair(t, setup{})
	for range 100 {
		done := make(chan error)
		go func() {
			_, err := p.a.Read(make([]byte, 1))
			done <- err
		}()
		require.NoError(t, p.a.SetReadDeadline(time.Unix(1, 0)))
		isTimeout(t, <-done)
		require.NoError(t, p.a.SetReadDeadline(time.Time{}))
	}
}
