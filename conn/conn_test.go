package conn

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/nettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setups are the shapes of connections that every test of behaviour should hold for.
var setups = map[string]setup{
	"normal":     {},
	"tiny":       {sends: 1, receives: MinReceives, size: MinSize},
	"two sends":  {sends: 2, receives: MinReceives, size: MinSize},
	"asymmetric": {sends: 3, receives: 32, size: 512, sends2: 16, receives2: 5, size2: 100},
	"late":       {seed: 1, receives: 6, size: 300},
	"no missed":  {armMisses: true, receives: 6, size: 300},
	"no spin":    {config: func(c *Config) { c.Spin = -1 }},
	"long spin":  {config: func(c *Config) { c.Spin = time.Millisecond }},
	"no control": {noControl: true},
}

func forSetups(t *testing.T, test func(t *testing.T, s setup)) {
	for name, s := range setups {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func TestNettest(t *testing.T) {
	forSetups(t, func(t *testing.T, s setup) {
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			p := newPair(t, s)
			return p.a, p.b, func() { p.a.Close(); p.b.Close() }, nil
		})
	})
}

// TestBulk sends both ways at once, in pieces of random size, and compares.
func TestBulk(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	forSetups(t, func(t *testing.T, s setup) {
		p := newPair(t, s)
		errs := make(chan error, 4)
		for i, c := range []*Conn{p.a, p.b} {
			go func() { errs <- sendRandom(c, seed+uint64(i), 200_000) }()
			go func() { errs <- expectRandom(c, seed+uint64(1-i), 200_000) }()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
	})
}

func sendRandom(c *Conn, seed uint64, total int) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	data := randomBytes(seed, total)
	for len(data) > 0 {
		n := min(1+rng.IntN(1<<rng.IntN(14)), len(data))
		if _, err := c.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return c.CloseWrite()
}

func expectRandom(c *Conn, seed uint64, total int) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	want := randomBytes(seed, total)
	buf := make([]byte, 1<<14)
	for {
		n, err := c.Read(buf[:1+rng.IntN(1<<rng.IntN(14))])
		if n > len(want) || !bytes.Equal(buf[:n], want[:n]) {
			return fmt.Errorf("wrong bytes %d before the end", len(want))
		}
		want = want[n:]
		if err == io.EOF && len(want) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%d bytes before the end: %w", len(want), err)
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	r.Read(b)
	return b
}

func TestAddresses(t *testing.T) {
	p := newPair(t, setup{})
	for range 2 {
		require.Equal(t, "10.0.0.1:7471", p.a.LocalAddr().String())
		require.Equal(t, "10.0.0.2:7471", p.a.RemoteAddr().String())
		require.Equal(t, "rdma", p.a.LocalAddr().Network())
		require.NoError(t, p.a.Abort()) // and the same once it is closed
	}
	for text, a := range map[string]net.Addr{
		":0":               nil,
		"1.2.3.4:5":        &net.TCPAddr{IP: net.ParseIP("::ffff:1.2.3.4"), Port: 5},
		"[fe80::1%eth0]:9": &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 9},
		"[::1]:80":         textAddr("[::1]:80"),
		"10.1.1.1:1":       AddrFrom(netip.MustParseAddrPort("10.1.1.1:1")),
	} {
		require.Equal(t, text, AddrOf(a).String())
	}
	require.Equal(t, ":0", AddrOf((*net.TCPAddr)(nil)).String())
	require.Equal(t, ":0", AddrOf(textAddr("pipe")).String())
	require.Equal(t, uint16(5), AddrOf(textAddr("1.1.1.1:5")).AddrPort().Port())

	p = newPair(t, setup{config: func(c *Config) { c.Local, c.Remote = nil, nil }})
	require.NotNil(t, p.a.LocalAddr())
	require.Equal(t, ":0", p.a.RemoteAddr().String())
}

type textAddr string

func (textAddr) Network() string  { return "text" }
func (a textAddr) String() string { return string(a) }

func TestConfigRefused(t *testing.T) {
	good := func() Config {
		return Config{Sends: buffers(1, 64), Receives: buffers(4, 64), PeerReceives: 4, PeerSize: 64}
	}
	for name, change := range map[string]func(*Config){
		"no sends":          func(c *Config) { c.Sends = nil },
		"small send":        func(c *Config) { c.Sends = buffers(1, MinSize-1) },
		"few receives":      func(c *Config) { c.Receives = c.Receives[:3] },
		"many receives":     func(c *Config) { c.Receives = make([]Buffer, MaxReceives+1) },
		"small receive":     func(c *Config) { c.Receives = buffers(4, MinSize-1) },
		"unequal receives":  func(c *Config) { c.Receives[3].Bytes = make([]byte, 65) },
		"peer has none":     func(c *Config) { c.PeerReceives = MinReceives - 1 },
		"peer has too many": func(c *Config) { c.PeerReceives = MaxReceives + 1 },
		"peer's are small":  func(c *Config) { c.PeerSize = MinSize - 1 },
		"peer's are large":  func(c *Config) { c.PeerSize = MaxSize + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			change(&cfg)
			_, err := New(newFabric().ends[0], cfg)
			require.ErrorContains(t, err, "conn: ")
		})
	}
	q := newFabric().ends[0]
	q.failReceive = errTest
	_, err := New(q, good())
	require.ErrorIs(t, err, errTest)
}

// TestNoAllocations: neither Read nor Write allocates.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newPair(t, setup{size: 8192})
	out, in := make([]byte, 20_000), make([]byte, 20_000)
	for _, n := range []int{1, 64, 5000, 20_000} {
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if _, err := p.a.Write(out[:n]); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(p.b, in[:n]); err != nil {
				t.Error(err)
			}
		}), "%d bytes", n)
	}
}

// TestIdle: a connection that waits does nothing: no polling, no timers.
func TestIdle(t *testing.T) {
	p := newPair(t, setup{config: func(c *Config) { c.Spin = -1 }})
	done := make(chan error, 1)
	go func() {
		_, err := p.a.Read(make([]byte, 1))
		done <- err
	}()
	parked(t, p.a, &p.a.rd)
	before := p.a.Stats()
	require.Equal(t, uint64(1), before.Parks)
	require.Zero(t, before.Spins)
	_, err := p.b.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, uint64(1), p.a.Stats().Parks)
}

// parked waits until a goroutine is parked in one direction of c.
func parked(t *testing.T, c *Conn, h *half) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return h.parked
	}, 10*time.Second, 100*time.Microsecond)
}

// isTimeout checks what a deadline must cause.
func isTimeout(t *testing.T, err error) {
	t.Helper()
	var ne net.Error
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.True(t, asNetError(err, &ne) && ne.Timeout(), "%v", err)
}

func asNetError(err error, ne *net.Error) (ok bool) {
	*ne, ok = err.(net.Error)
	return ok
}
