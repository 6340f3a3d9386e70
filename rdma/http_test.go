package rdma

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// website is an unchanged http.Server behind an RDMA listener.
type website struct {
	*http.Server
	ln     net.Listener
	url    string
	opened atomic.Int32 // connections that were ever accepted
	done   chan error   // what Serve returned
}

// website serves handler until the test ends. change may alter the server first.
func (l link) website(t testing.TB, handler http.HandlerFunc, change func(*website)) *website {
	w := &website{ln: l.listen(t), done: make(chan error, 1)}
	w.url = "http://" + w.ln.Addr().String()
	w.Server = &http.Server{
		Handler:  handler,
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				w.opened.Add(1)
			}
		},
	}
	serve := func() error { return w.Serve(w.ln) }
	if change != nil {
		change(w)
	}
	if w.TLSConfig != nil {
		w.url = "https://" + w.ln.Addr().String()
		serve = func() error { return w.ServeTLS(w.ln, "", "") }
	}
	go func() { w.done <- serve() }()
	t.Cleanup(func() { w.Close() })
	return w
}

// client is an unchanged http.Client whose connections are RDMA ones.
func (l link) client(t testing.TB) *http.Client {
	tr := &http.Transport{
		DialContext:         (&Dialer{Config: l.dialer}).DialContext,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 100,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

func get(t testing.TB, c *http.Client, url string) string {
	t.Helper()
	body, err := fetch(c, url)
	require.NoError(t, err)
	return body
}

func fetch(c *http.Client, url string) (string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.URL.Path) }

// TestHTTPKeepAlive: one connection carries all requests of a client.
func TestHTTPKeepAlive(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		site, client := l.website(t, hello, nil), l.client(t)
		for i := range 200 {
			require.Equal(t, fmt.Sprintf("hello /%d", i), get(t, client, fmt.Sprintf("%s/%d", site.url, i)))
		}
		require.EqualValues(t, 1, site.opened.Load())
	})
}

// summed passes on what it reads and adds it up.
type summed struct {
	io.Reader
	hash.Hash
}

func newSummed(r io.Reader) *summed { return &summed{r, sha256.New()} }

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.Hash.Write(p[:n])
	return n, err
}

// mirror sends the request's body back while it comes, with its length if that is known.
func mirror(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	if r.ContentLength >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
	}
	w.WriteHeader(http.StatusOK)
	io.Copy(w, r.Body)
}

// post sends n bytes to a mirror and checks what comes back. Without their length HTTP
// sends them in chunks; with it both sides use ReadFrom.
func post(client *http.Client, url string, seed byte, n int64, sized bool) error {
	sent := newSummed(unevenly([32]byte{seed}, n))
	req, err := http.NewRequest("POST", url, sent)
	if err != nil {
		return err
	}
	if sized && n > 0 {
		req.ContentLength = n
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	back := newSummed(resp.Body)
	m, err := io.Copy(io.Discard, back)
	switch {
	case err != nil:
		return err
	case m != n:
		return fmt.Errorf("%d of %d bytes came back", m, n)
	case !bytes.Equal(back.Sum(nil), sent.Sum(nil)):
		return errors.New("other bytes came back than were sent")
	}
	return nil
}

func TestHTTPBodies(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		site, client := l.website(t, mirror, nil), l.client(t)
		for i, n := range []int64{0, 1, 16 << 10, 16<<10 + 1, 8 << 20} {
			require.NoError(t, post(client, site.url, byte(i), n, false), "%d bytes", n)
			require.NoError(t, post(client, site.url, byte(i), n, true), "%d bytes", n)
		}
	})
}

func TestHTTPParallel(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		site, client := l.website(t, mirror, nil), l.client(t)
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				for j := range 5 {
					if err := post(client, site.url, byte(i*5+j), int64(i*7777), j%2 == 0); err != nil {
						t.Error(i, j, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestHTTPUpgrade: a handler takes its connection over, for which the server has to call
// off its background read, and both sides speak as they like.
func TestHTTPUpgrade(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		server := make(chan net.Conn, 1)
		site := l.website(t, func(w http.ResponseWriter, r *http.Request) {
			awaitBlocked(t, "backgroundRead", 1)
			c, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				close(server)
				return
			}
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: bytes\r\n\r\n")
			rw.Flush()
			server <- buffered{c, rw}
		}, nil)
		req, err := http.NewRequest("GET", site.url, nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "bytes")
		client := l.client(t)
		client.Timeout = 0 // with one, http.Client hides that the body can be written to
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		a, b := stream{ReadWriteCloser: resp.Body.(io.ReadWriteCloser)}, <-server
		testBothWays(t, a, b)
		require.NoError(t, a.Close())
		_, err = b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, b.Close())
	})
}

// buffered is a hijacked connection, part of whose input may have been read already.
type buffered struct {
	net.Conn
	io.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.Reader.Read(p) }

// stream is a net.Conn as far as reading and writing go.
type stream struct {
	net.Conn
	io.ReadWriteCloser
}

func (s stream) Read(p []byte) (int, error)  { return s.ReadWriteCloser.Read(p) }
func (s stream) Write(p []byte) (int, error) { return s.ReadWriteCloser.Write(p) }
func (s stream) Close() error                { return s.ReadWriteCloser.Close() }

// TestHTTPShutdown: Shutdown ends idle connections, waits for the request under way and
// lets nobody in meanwhile.
func TestHTTPShutdown(t *testing.T) {
	l := anyLink(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	site := l.website(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-leave
		}
		hello(w, r)
	}, nil)
	require.Equal(t, "hello /fast", get(t, l.client(t), site.url+"/fast")) // stays idle

	slow, client := make(chan string, 1), l.client(t)
	go func() {
		body, err := fetch(client, site.url+"/slow")
		if err != nil {
			t.Error(err)
		}
		slow <- body
	}()
	<-entered
	down := make(chan error, 1)
	go func() { down <- site.Shutdown(t.Context()) }()
	require.ErrorIs(t, <-site.done, http.ErrServerClosed)
	_, err := (&Dialer{Config: l.dialer}).Dial("rdma", site.ln.Addr().String())
	require.Error(t, err)
	select {
	case err := <-down:
		t.Fatal("Shutdown did not wait:", err)
	default:
	}
	close(leave)
	require.Equal(t, "hello /slow", <-slow)
	require.NoError(t, <-down)
}

// TestHTTPCancel: a client that goes away in the middle of a body, of either direction,
// is noticed by the handler, and the server goes on.
func TestHTTPCancel(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		gone := make(chan error, 1)
		site := l.website(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/down":
				_, err := io.Copy(w, unevenly([32]byte{}, 1<<40))
				<-r.Context().Done()
				gone <- err
			case "/up":
				_, err := io.Copy(io.Discard, r.Body)
				gone <- err
			default:
				hello(w, r)
			}
		}, nil)
		client := l.client(t)

		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", site.url+"/down", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, resp.Body, 1<<20)
		require.NoError(t, err)
		cancel()
		_, err = io.Copy(io.Discard, resp.Body)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, resp.Body.Close())
		require.Error(t, <-gone)

		ctx, cancel = context.WithCancel(t.Context())
		body := &cancelAfter{unevenly([32]byte{}, 1<<40), 1 << 20, cancel}
		req, err = http.NewRequestWithContext(ctx, "POST", site.url+"/up", body)
		require.NoError(t, err)
		_, err = client.Do(req)
		require.ErrorIs(t, err, context.Canceled)
		require.Error(t, <-gone)

		require.Equal(t, "hello /", get(t, client, site.url+"/"))
	})
}

// cancelAfter cancels once n bytes have been read.
type cancelAfter struct {
	io.Reader
	n      int
	cancel func()
}

func (c *cancelAfter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.n -= n; c.n < 0 {
		c.cancel()
	}
	return n, err
}

// TestHTTPTimeouts: the limits of client and server work, which are deadlines of the
// connection.
func TestHTTPTimeouts(t *testing.T) {
	const short = 50 * time.Millisecond
	t.Run("client", func(t *testing.T) {
		l := anyLink(t)
		site := l.website(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
		client := l.client(t)
		client.Timeout = short
		_, err := client.Get(site.url)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, os.IsTimeout(err))
	})
	t.Run("header", func(t *testing.T) {
		l := anyLink(t)
		site := l.website(t, hello, func(w *website) { w.ReadHeaderTimeout = short })
		c := l.dial(t, site.ln)
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: ")
		require.NoError(t, err)
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Empty(t, got, "the server hangs up")
	})
	t.Run("idle", func(t *testing.T) {
		l := anyLink(t)
		site := l.website(t, hello, func(w *website) { w.IdleTimeout = short })
		c := l.dial(t, site.ln)
		_, err := io.WriteString(c, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		got, err := io.ReadAll(c)
		require.NoError(t, err, "the server hangs up")
		require.Contains(t, string(got), "hello /x")
	})
	t.Run("write", func(t *testing.T) {
		l := anyLink(t)
		wrote := make(chan error, 1)
		site := l.website(t, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(w, unevenly([32]byte{}, 1<<40))
			wrote <- err
		}, func(w *website) { w.WriteTimeout = short })
		c := l.dial(t, site.ln) // and it reads nothing
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		require.ErrorIs(t, <-wrote, os.ErrDeadlineExceeded)
	})
	t.Run("body", func(t *testing.T) {
		l := anyLink(t)
		read := make(chan error, 1)
		site := l.website(t, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		}, func(w *website) { w.ReadTimeout = short })
		c := l.dial(t, site.ln)
		_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
		require.NoError(t, err)
		require.ErrorIs(t, <-read, os.ErrDeadlineExceeded)
	})
}

// TestHTTPBadClients: http.Serve returns on the first error of Accept, so no client may
// cause one.
func TestHTTPBadClients(t *testing.T) {
	l := anyLink(t)
	l.listener.HandshakeTimeout = cmp.Or(l.listener.HandshakeTimeout, time.Second)
	site, client := l.website(t, hello, nil), l.client(t)
	for i := range 30 {
		c, err := net.Dial("tcp", site.ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		switch i % 3 {
		case 0:
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: tcp\r\n\r\n")
		case 1:
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		case 2: // silence
		}
		rc := l.dial(t, site.ln) // one that shakes hands and then talks nonsense or goes
		if i%2 == 0 {
			rc.Write(bytes.Repeat([]byte{0xff}, 100))
		}
		rc.Abort()
		require.Equal(t, "hello /", get(t, client, site.url+"/"))
	}
	select {
	case err := <-site.done:
		t.Fatal("Serve returned:", err)
	default:
	}
}

func TestHTTPS(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		config := selfSigned(t)
		site := l.website(t, mirror, func(w *website) {
			w.ln = tls.NewListener(w.ln, config)
			w.url = "https://" + w.ln.Addr().String()
		})
		client := l.client(t)
		for i := range 10 {
			require.NoError(t, post(client, site.url, byte(i), int64(i*100_000), i%2 == 0))
		}
		require.EqualValues(t, 1, site.opened.Load())
	})
}

// TestHTTP2: many requests at once share one connection.
func TestHTTP2(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		config := selfSigned(t)
		site := l.website(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Error("the server sees", r.Proto)
			}
			mirror(w, r)
		}, func(w *website) { w.TLSConfig = config })
		client := l.client(t)
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
		require.NoError(t, post(client, site.url, 0, 1, true)) // now the one connection is there
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if err := post(client, site.url, byte(i), 1<<18, i%2 == 0); err != nil {
					t.Error(i, err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, site.opened.Load())
	})
}
