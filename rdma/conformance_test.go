package rdma

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/farwire/farwire/rdma/softnic"
)

// pipes is how nettest makes its connections.
func (l link) pipes(t testing.TB) nettest.MakePipe {
	return func() (c1, c2 net.Conn, stop func(), err error) {
		a, b := l.pair(t)
		return a, b, func() {
			a.Close()
			b.Close()
			<-a.Released()
			<-b.Released()
		}, nil
	}
}

func TestConnConformance(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		nettest.TestConn(t, l.pipes(t))
	})
}

// Both the smallest and different sizes on the two sides have to work: the smaller win.
func TestConnConformanceTiny(t *testing.T) {
	l, size := anyLink(t), 64
	if os.Getenv(rxeEnv) != "" {
		size = 1024 // the megabytes of nettest in 64 bytes each would take minutes
	}
	for _, c := range []*Config{&l.dialer, &l.listener} {
		c.BufferSize, c.Receives, c.Sends = size, 4, 1
	}
	nettest.TestConn(t, l.pipes(t))
}

func TestConnConformanceUnequal(t *testing.T) {
	l := anyLink(t)
	l.dialer.BufferSize, l.dialer.Receives, l.dialer.Sends = 100, 5, 2
	l.listener.BufferSize, l.listener.Receives, l.listener.Sends = 9000, 77, 31
	nettest.TestConn(t, l.pipes(t))
}

// Every form the NIC and its kernel can have.
func TestConnConformanceForms(t *testing.T) {
	for name, c := range map[string]softnic.Config{
		"static pages":  {StaticUAR: true},
		"no blue flame": {NoBlueFlame: true},
		"old entries":   {OldCQE: true},
		"old kernel":    {OldKernel: true, StaticUAR: true, OldCQE: true},
		"no spinning":   {},
	} {
		t.Run(name, func(t *testing.T) {
			l := inMemory(t, c)
			if name == "no spinning" {
				l.dialer.Spin, l.listener.Spin = -1, -1
			}
			nettest.TestConn(t, l.pipes(t))
		})
	}
}

// TLS and yamux on top carry the same bytes. Their own conns are not held to nettest:
// over TCP they do not pass it either.
func TestTLS(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		a, b := l.pair(t)
		testBothWays(t, tls.Client(a, &tls.Config{InsecureSkipVerify: true}), tls.Server(b, selfSigned(t)))
	})
}

func TestYamux(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		a, b := l.pair(t)
		config := yamux.DefaultConfig()
		config.LogOutput = io.Discard
		client, err := yamux.Client(a, config)
		require.NoError(t, err)
		defer client.Close()
		server, err := yamux.Server(b, config)
		require.NoError(t, err)
		defer server.Close()
		for range 3 {
			c1, err := client.Open()
			require.NoError(t, err)
			c2, err := server.Accept()
			require.NoError(t, err)
			testBothWays(t, c1, c2)
		}
	})
}

func selfSigned(t testing.TB) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// What is written on either side arrives on the other, whole and in order, whatever the
// sizes of the calls.
func TestBothWays(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		a, b := l.pair(t)
		testBothWays(t, a, b)
	})
}

func testBothWays(t *testing.T, a, b net.Conn) { testStreams(t, a, b, 4<<20) }

// testStreams sends n bytes each way.
func testStreams(t *testing.T, a, b net.Conn, n int64) {
	var wg sync.WaitGroup
	for i, ends := range [][2]net.Conn{{a, b}, {b, a}} {
		seed := [32]byte{byte(i)}
		wg.Go(func() {
			if _, err := io.Copy(ends[0], unevenly(seed, n)); err != nil {
				t.Error("write:", err)
			}
		})
		wg.Go(func() {
			got := make([]byte, n)
			m, err := io.ReadFull(ends[1], got)
			want, _ := io.ReadAll(unevenly(seed, n))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %d bytes: %v", m, err)
			}
		})
	}
	wg.Wait()
}

// unevenly reads n bytes drawn from seed, in pieces of many sizes.
func unevenly(seed [32]byte, n int64) io.Reader {
	return &pieces{io.LimitReader(mathrand.NewChaCha8(seed), n), mathrand.New(mathrand.NewChaCha8(seed))}
}

type pieces struct {
	r    io.Reader
	size *mathrand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.r.Read(b[:min(len(b), 1+p.size.IntN(70000))])
}
