package conn

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
)

// TestCloseFlushes: everything written arrives, whatever the write deadline, as
// crypto/tls sets it to now before it closes.
func TestCloseFlushes(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		data := randomBytes(5, 100_000)
		go func() {
			p.a.Write(data)
			p.a.SetWriteDeadline(time.Now())
			p.a.Close()
		}()
		got, err := io.ReadAll(p.b)
		require.NoError(t, err)
		require.Equal(t, data, got)
		_, err = p.b.Read(make([]byte, 1))
		require.True(t, err == io.EOF, "bare io.EOF, and again")
	})
}

// TestCloseGoesOn: what does not fit the peer's receives is sent after Close has
// returned, when the peer reads at last.
func TestCloseGoesOn(t *testing.T) {
	p := newPair(t, setup{receives: 5, size: 100, sends: 10})
	data := randomBytes(6, 1000)
	_, err := p.a.Write(data)
	require.NoError(t, err)
	require.NoError(t, p.a.Close())
	require.ErrorIs(t, p.a.Close(), net.ErrClosed)
	select {
	case <-p.a.Released():
		t.Fatal("released with unsent data")
	default:
	}
	got, err := io.ReadAll(p.b)
	require.NoError(t, err)
	require.Equal(t, data, got)
	<-p.a.Released()
}

// TestCloseFrozenPeer: Close returns, and the connection is given up when the peer has
// shown no sign of life for Linger.
func TestCloseFrozenPeer(t *testing.T) {
	for name, freeze := range map[string]func(q *fakeQueue){
		"no credits":     func(q *fakeQueue) {},
		"no completions": func(q *fakeQueue) { q.holdDone = true },
		"no deliveries":  func(q *fakeQueue) { q.holdSends = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, setup{receives: 5, size: 100, sends: 4, config: func(c *Config) { c.Linger = 10 * time.Second }})
				p.qa.set(func() { freeze(p.qa) })
				_, err := p.a.Write(make([]byte, 400))
				require.NoError(t, err)
				start := time.Now()
				require.NoError(t, p.a.Close())
				require.LessOrEqual(t, time.Since(start), closeWait)
				closed := time.Now()
				<-p.a.Released()
				require.Equal(t, 10*time.Second, time.Since(closed))
				_, err = io.ReadAll(p.b)
				require.ErrorIs(t, err, syscall.ECONNRESET, "the peer must not take the loss for an end")
			})
		})
	}
}

// TestCloseSlowPeer: Linger starts anew with every sign of life.
func TestCloseSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, setup{receives: 5, size: 100, sends: 10, config: func(c *Config) { c.Linger = 3 * time.Second }})
		data := randomBytes(7, 1000)
		_, err := p.a.Write(data)
		require.NoError(t, err)
		require.NoError(t, p.a.Close())
		var got []byte
		for len(got) < 1000 {
			time.Sleep(2 * time.Second)
			b := make([]byte, 200)
			n, err := p.b.Read(b)
			require.NoError(t, err)
			got = append(got, b[:n]...)
		}
		require.Equal(t, data, got)
		_, err = p.b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		<-p.a.Released()
	})
}

func TestCloseUnblocks(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		errs := make(chan error, 4)
		for range 2 {
			go func() { _, err := p.a.Read(make([]byte, 1)); errs <- err }()
			go func() { _, err := p.a.Write(make([]byte, 1<<20)); errs <- err }()
		}
		parked(t, p.a, &p.a.rd)
		parked(t, p.a, &p.a.wr)
		require.NoError(t, p.a.Close())
		for range cap(errs) {
			err := <-errs
			require.ErrorIs(t, err, net.ErrClosed)
			require.IsType(t, &net.OpError{}, err)
		}
	})
}

// TestCloseUnblocksFrozen: also when nothing moves any more.
func TestCloseUnblocksFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, setup{noControl: true, config: func(c *Config) { c.Linger = time.Hour }})
		p.qa.set(func() { p.qa.holdSends = true })
		errs := make(chan error, 2)
		go func() { _, err := p.a.Read(make([]byte, 1)); errs <- err }()
		go func() { _, err := p.a.Write(make([]byte, 1<<20)); errs <- err }()
		synctest.Wait()
		start := time.Now()
		go p.a.Close()
		require.ErrorIs(t, <-errs, net.ErrClosed)
		require.ErrorIs(t, <-errs, net.ErrClosed)
		require.Zero(t, time.Since(start))
		synctest.Wait()
	})
}

// TestCloseNothingToWaitFor: Close is done at once where waiting would be for nothing.
func TestCloseNothingToWaitFor(t *testing.T) {
	for name, prepare := range map[string]func(p *pair){
		"nothing written": func(p *pair) {},
		"peer stopped reading": func(p *pair) {
			p.a.Write(make([]byte, 400))
			p.b.CloseRead()
		},
		"peer closed": func(p *pair) {
			p.b.Close()
			p.qa.set(func() { p.qa.holdSends = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, setup{noControl: true, receives: 5, size: 100, sends: 4})
				prepare(p)
				start := time.Now()
				require.NoError(t, p.a.Close())
				<-p.a.Released()
				require.Zero(t, time.Since(start))
			})
		})
	}
}

// TestAfterClose is what every method does on a closed connection.
func TestAfterClose(t *testing.T) {
	p := newPair(t, setup{})
	require.NoError(t, p.a.Close())
	for name, call := range map[string]func() error{
		"read":       func() error { _, err := p.a.Read(make([]byte, 1)); return err },
		"read none":  func() error { _, err := p.a.Read(nil); return err },
		"write":      func() error { _, err := p.a.Write([]byte{1}); return err },
		"write none": func() error { _, err := p.a.Write(nil); return err },
		"buffers":    func() error { _, err := p.a.WriteBuffers(net.Buffers{{1}}); return err },
		"readfrom":   func() error { _, err := p.a.ReadFrom(p.b); return err },
		"writeto":    func() error { _, err := p.a.WriteTo(io.Discard); return err },
		"close":      p.a.Close,
		"closewrite": p.a.CloseWrite,
		"closeread":  p.a.CloseRead,
		"nodelay":    func() error { return p.a.SetNoDelay(true) },
		"linger":     func() error { return p.a.SetLinger(1) },
		"keepalive":  func() error { return p.a.SetKeepAlive(true) },
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			require.ErrorIs(t, err, net.ErrClosed)
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, "rdma", op.Net)
			require.Equal(t, p.a.RemoteAddr(), op.Addr)
			require.Equal(t, p.a.LocalAddr(), op.Source)
		})
	}
	require.NoError(t, p.a.Abort())
	require.NotZero(t, p.a.Stats().MessagesSent)
}

func TestHalfClose(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		go func() {
			p.a.Write([]byte("question"))
			p.a.CloseWrite()
			p.a.CloseWrite() // once more is fine
		}()
		got, err := io.ReadAll(p.b)
		require.NoError(t, err)
		require.Equal(t, "question", string(got))
		_, err = p.a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = p.a.Write(nil)
		require.ErrorIs(t, err, syscall.EPIPE)

		go func() {
			p.b.Write(make([]byte, 20_000))
			p.b.Close()
		}()
		got, err = io.ReadAll(p.a)
		require.NoError(t, err)
		require.Len(t, got, 20_000)
	})
}

func TestCloseWriteUnblocksWrite(t *testing.T) {
	p := newPair(t, setup{receives: 5, size: 100, sends: 3})
	done := make(chan int)
	go func() {
		n, err := p.a.Write(make([]byte, 10_000))
		if !errors.Is(err, syscall.EPIPE) {
			n = -1
		}
		done <- n
	}()
	parked(t, p.a, &p.a.wr)
	require.NoError(t, p.a.CloseWrite())
	n := <-done
	got, err := io.ReadAll(p.b)
	require.NoError(t, err)
	require.Len(t, got, n)
}

func TestCloseRead(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		_, err := p.b.Write([]byte("unread"))
		require.NoError(t, err)
		buf := make([]byte, 2)
		_, err = p.a.Read(buf)
		require.NoError(t, err)
		done := make(chan error)
		go func() { // blocked, as it has more to write than fits
			_, err := p.b.Write(make([]byte, 1<<20))
			done <- err
		}()
		parked(t, p.b, &p.b.wr)
		require.NoError(t, p.a.CloseRead())
		require.NoError(t, p.a.CloseRead())
		n, err := p.a.Read(buf)
		require.Zero(t, n)
		require.Equal(t, io.EOF, err)
		require.ErrorIs(t, <-done, syscall.EPIPE)
		_, err = p.b.Write([]byte{1})
		require.ErrorIs(t, err, syscall.EPIPE)

		// The other direction is not concerned.
		_, err = p.a.Write([]byte("ok"))
		require.NoError(t, err)
		_, err = io.ReadFull(p.b, buf)
		require.NoError(t, err)
		require.Equal(t, "ok", string(buf))
	})
}

func TestCloseReadUnblocksRead(t *testing.T) {
	p := newPair(t, setup{})
	done := make(chan error)
	go func() { _, err := p.a.Read(make([]byte, 1)); done <- err }()
	parked(t, p.a, &p.a.rd)
	require.NoError(t, p.a.CloseRead())
	require.Equal(t, io.EOF, <-done)
}

func TestPeerClosed(t *testing.T) {
	p := newPair(t, setup{})
	_, err := p.b.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, p.b.Close())
	<-p.b.Released()
	n, err := p.a.Write(nil)
	require.Zero(t, n)
	require.ErrorIs(t, err, syscall.EPIPE)
	p = newPair(t, setup{})
	_, err = p.b.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, p.b.Close())
	<-p.b.Released()
	n, err = p.a.Write([]byte("hello?"))
	require.NoError(t, err, "as with TCP")
	require.Equal(t, 6, n)
	_, err = p.a.Write([]byte("hello?"))
	require.ErrorIs(t, err, syscall.EPIPE)
	got, err := io.ReadAll(p.a)
	require.NoError(t, err)
	require.Equal(t, "last words", string(got))
	require.NoError(t, p.a.Close())
	<-p.a.Released()
}

// TestSimultaneousClose closes both ends at once, many times; newPair checks that
// nothing is left.
func TestSimultaneousClose(t *testing.T) {
	n := 2000
	if raceEnabled {
		n = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range n {
		t.Run("", func(t *testing.T) {
			p := newPair(t, setup{seed: seed + uint64(i), noControl: i%3 == 0})
			if i%2 == 0 {
				p.a.Write([]byte("a"))
				p.b.Write([]byte("b"))
			}
			var wg sync.WaitGroup
			wg.Go(func() { p.a.Close() })
			wg.Go(func() { p.b.Close() })
			wg.Wait()
			<-p.a.Released()
			<-p.b.Released()
		})
	}
}

// TestRandomKill ends connections in the middle of traffic in every way. The other side
// sees a clean prefix and an end of some kind, never a hang.
func TestRandomKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 200 {
		how := rng.IntN(5)
		after := rng.IntN(50_000)
		t.Run(fmt.Sprintf("way %d after %d", how, after), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, setup{seed: seed + uint64(i), receives: 6, size: 500})
			data := randomBytes(seed, 100_000)
			go func() {
				p.a.Write(data[:after])
				switch how {
				case 0:
					p.a.Close()
				case 1:
					p.a.Abort()
				case 2:
					p.qa.set(func() { p.qa.fail(Completion{ID: 1, Err: status(verbs.Fatal)}) })
				case 3:
					p.ca.Close()
				case 4:
					p.b.Abort()
				}
				p.a.Write(data[after:])
			}()
			got, err := io.ReadAll(p.b)
			require.True(t, len(got) <= len(data) && string(got) == string(data[:len(got)]))
			if how == 0 {
				require.NoError(t, err)
				require.Len(t, got, after)
			} else {
				require.Error(t, err)
			}
		})
	}
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, setup{receives: 5, size: 100, sends: 4})
		_, err := p.a.Write(make([]byte, 400))
		require.NoError(t, err)
		require.NoError(t, p.a.SetLinger(0))
		start := time.Now()
		require.NoError(t, p.a.Close())
		<-p.a.Released()
		require.Zero(t, time.Since(start))
		_, err = io.ReadAll(p.b)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
	for _, test := range []struct {
		config time.Duration
		set    []int
		want   time.Duration
	}{
		{0, nil, DefaultLinger},
		{-1, nil, DefaultLinger},
		{time.Minute, nil, time.Minute},
		{0, []int{3, -1, 2}, 2 * time.Second},
		{time.Minute, []int{-1}, DefaultLinger},
		{0, []int{math.MaxInt}, math.MaxInt32 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, setup{receives: 5, size: 100, sends: 4, config: func(c *Config) { c.Linger = test.config }})
			require.NoError(t, p.b.SetKeepAlive(false)) // it would look four times a minute
			_, err := p.a.Write(make([]byte, 400))
			require.NoError(t, err)
			for _, sec := range test.set {
				require.NoError(t, p.a.SetLinger(sec))
			}
			start := time.Now()
			require.NoError(t, p.a.Close())
			<-p.a.Released()
			require.Equal(t, test.want, time.Since(start))
		})
	}
}

func TestAbort(t *testing.T) {
	p := newPair(t, setup{})
	require.NoError(t, p.a.Abort())
	require.Zero(t, p.qa.posted, "nothing is sent")
	_, err := p.b.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)

	p = newPair(t, setup{receives: 5, size: 100, sends: 4})
	_, err = p.a.Write(make([]byte, 400))
	require.NoError(t, err)
	require.NoError(t, p.a.Close()) // goes on in the background
	require.NoError(t, p.a.Abort())
	<-p.a.Released()
	got, err := io.ReadAll(p.b)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Len(t, got, 200, "what had arrived is not lost")
}

func TestQueueCloseError(t *testing.T) {
	p := newPair(t, setup{})
	p.qa.closeErr = errTest
	require.ErrorIs(t, p.a.Close(), errTest)
	<-p.a.Released()
}
