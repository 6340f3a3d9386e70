package rdma

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/listener"
	"github.com/farwire/farwire/rdma/softnic"
)

// A thousand clients that are none, of every sort, do not keep good ones out, end
// http.Serve, or leave anything behind; each is told to OnError and counted. What good
// ones wait is printed, beside what they wait meanwhile at a TCP server that nobody molests.
func TestUnderFire(t *testing.T) {
	const n, staying, backlog = 1000, 128, 160
	l := inMemory(t, softnic.Config{})
	var told atomic.Uint64
	lc := ListenConfig{Config: l.listener, Backlog: backlog, OnError: func(net.Addr, error) { told.Add(1) }}
	ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.NoError(t, err)
	address := ln.Addr().String()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	server := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	beside, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	besideServer := &http.Server{Handler: handler}
	go besideServer.Serve(beside)
	defer besideServer.Close()

	hello := "FARW\x01\x01\x01\x00\x00\x58\x00\x00" + strings.Repeat("x", 32) // half of one
	held := make(chan net.Conn, staying)                                      // those who stay, until others come
	says := func(what string, stay bool) func(net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, what)
			for stay {
				select {
				case held <- c:
					return
				default:
					(<-held).Close()
				}
			}
			c.Close()
		}
	}
	bad := []func(net.Conn){
		says("", false), // a port scan
		func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() },
		says("GET / HTTP/1.1\r\nHost: x\r\n\r\n", true),
		says("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", true), // TLS
		says(hello, false),
		says(hello, true),
		says("F", true), // who would send the next byte in a second
		says("", true),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		inParallel(n, 16, func(i int) {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			bad[i%len(bad)](c)
		})
	}()
	t.Cleanup(func() {
		<-done
		for len(held) > 0 {
			(<-held).Close()
		}
	})
	get := func(dial func(ctx context.Context, network, address string) (net.Conn, error), address string) time.Duration {
		client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		defer client.CloseIdleConnections()
		began := time.Now()
		resp, err := client.Get("http://" + address)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "hello", string(body))
		return time.Since(began)
	}
	d := &Dialer{Config: l.dialer}
	l.dial(t, ln) // the client has its device open
	var took, tookTCP []time.Duration
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		took = append(took, get(d.DialContext, address))
		tookTCP = append(tookTCP, get(new(net.Dialer).DialContext, beside.Addr().String()))
		require.LessOrEqual(t, ln.(*listener.Listener).Stats().UnderWay, backlog)
	}
	for name, took := range map[string][]time.Duration{"rdma": took, "tcp": tookTCP} {
		slices.Sort(took)
		t.Logf("%s: %d requests on connections of their own: median %v, longest %v", name, len(took), took[len(took)/2], took[len(took)-1])
	}
	select {
	case err := <-served:
		require.Fail(t, "Serve has ended", "%v", err)
	default:
	}
	for len(held) > 0 {
		(<-held).Close()
	}
	eventually(t, func() bool { return told.Load() == n }, "clients that OnError was not told of")
	s := ln.(*listener.Listener).Stats()
	require.Equal(t, uint64(n), s.Failed)
	require.Equal(t, uint64(len(took)+1), s.Finished)
	require.Equal(t, s.Accepted, s.Failed+s.Finished)
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}
