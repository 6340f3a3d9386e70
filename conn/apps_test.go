package conn

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"
)

// pairListener is a net.Listener whose Dial makes pairs.
type pairListener struct {
	t      *testing.T
	setup  setup
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPairListener(t *testing.T, s setup) *pairListener {
	return &pairListener{t: t, setup: s, conns: make(chan net.Conn, 100), closed: make(chan struct{})}
}

func (l *pairListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pairListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pairListener) Addr() net.Addr { return Addr{} }

func (l *pairListener) Dial(context.Context, string, string) (net.Conn, error) {
	p := newPair(l.t, l.setup)
	l.conns <- p.b
	return p.a, nil
}

// TestHTTP runs net/http unchanged: bodies both ways, keep-alive, and a handler that
// takes the connection over, for which the server must call off its background read.
func TestHTTP(t *testing.T) {
	for _, name := range []string{"normal", "tiny", "late"} {
		t.Run(name, func(t *testing.T) {
			l := newPairListener(t, setups[name])
			mux := http.NewServeMux()
			mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				io.Copy(w, bytes.NewReader(body))
			})
			mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
				c, rw, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\ntaken")
				rw.Flush()
			})
			srv := &http.Server{Handler: mux}
			served := make(chan error)
			go func() { served <- srv.Serve(l) }()
			client := &http.Client{Transport: &http.Transport{DialContext: l.Dial}, Timeout: 30 * time.Second}

			for i := range 20 {
				body := randomBytes(uint64(i), i*1000)
				resp, err := client.Post("http://server/echo", "", bytes.NewReader(body))
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				require.NoError(t, err)
				require.True(t, bytes.Equal(body, got))
			}
			resp, err := client.Get("http://server/hijack")
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			require.NoError(t, err)
			require.Equal(t, "taken", string(got))

			client.CloseIdleConnections()
			require.NoError(t, srv.Close())
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		})
	}
}

// TestYamux moves bytes both ways through many streams of a multiplexer at once.
func TestYamux(t *testing.T) {
	for _, name := range []string{"normal", "tiny", "late"} {
		t.Run(name, func(t *testing.T) {
			config := yamux.DefaultConfig()
			config.LogOutput = io.Discard
			p := newPair(t, setups[name])
			client, err := yamux.Client(p.a, config)
			require.NoError(t, err)
			server, err := yamux.Server(p.b, config)
			require.NoError(t, err)
			var work sync.WaitGroup
			for i := range 8 {
				c1, err := client.OpenStream()
				require.NoError(t, err)
				c2, err := server.AcceptStream()
				require.NoError(t, err)
				exchange(t, &work, c1, c2, uint64(i), c1.Close, c2.Close)
			}
			work.Wait()
			require.NoError(t, client.Close())
			require.NoError(t, server.Close())
		})
	}
}

// TestTLS moves bytes both ways through crypto/tls.
func TestTLS(t *testing.T) {
	cert := selfSigned(t)
	for _, name := range []string{"normal", "tiny", "late"} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, setups[name])
			c := tls.Client(p.a, &tls.Config{InsecureSkipVerify: true})
			s := tls.Server(p.b, &tls.Config{Certificates: []tls.Certificate{cert}})
			var work sync.WaitGroup
			exchange(t, &work, c, s, 1, c.CloseWrite, s.CloseWrite)
			work.Wait()
			require.NoError(t, c.Close())
			require.NoError(t, s.Close())
		})
	}
}

// exchange sends random bytes both ways, ends both streams and checks what comes.
func exchange(t *testing.T, work *sync.WaitGroup, a, b net.Conn, seed uint64, endA, endB func() error) {
	one, two := randomBytes(seed, 100_000), randomBytes(seed+100, 70_000)
	send := func(c net.Conn, data []byte, end func() error) {
		if _, err := c.Write(data); err != nil {
			t.Error(err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	expect := func(c net.Conn, want []byte) {
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d: %v", len(got), len(want), err)
		}
	}
	work.Go(func() { send(a, one, endA) })
	work.Go(func() { send(b, two, endB) })
	work.Go(func() { expect(b, one) })
	work.Go(func() { expect(a, two) })
}

// TestTLSCloseNotify: the alert that crypto/tls sends last, and the end after it, arrive.
func TestTLSCloseNotify(t *testing.T) {
	p := newPair(t, setup{})
	cert := selfSigned(t)
	s := tls.Server(p.b, &tls.Config{Certificates: []tls.Certificate{cert}})
	go func() {
		s.Write([]byte("bye"))
		s.Close()
	}()
	c := tls.Client(p.a, &tls.Config{InsecureSkipVerify: true})
	got, err := io.ReadAll(c)
	require.NoError(t, err, "an end without the alert would be io.ErrUnexpectedEOF")
	require.Equal(t, "bye", string(got))
	c.Close()
}

func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
