package rdma

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
)

// transports are what the benchmarks compare, TCP loopback first.
var transports = []struct {
	name string
	pair func(b *testing.B) (client, server net.Conn)
}{
	{"tcp", tcpPair},
	{"loopback", func(b *testing.B) (client, server net.Conn) { return loopback(b, softnic.Config{}).pair(b) }},
	{"memory", func(b *testing.B) (client, server net.Conn) { return inMemory(b, softnic.Config{}).pair(b) }},
	{"udp", func(b *testing.B) (client, server net.Conn) {
		needUDP(b)
		return overUDP(b, softnic.Config{}).pair(b)
	}},
	{"shm", func(b *testing.B) (client, server net.Conn) {
		needUDP(b)
		return overShared(b, softnic.Config{}).pair(b)
	}},
}

func tcpPair(b *testing.B) (client, server net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer ln.Close()
	client, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	server, err = ln.Accept()
	require.NoError(b, err)
	b.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// BenchmarkRoundTrip is one message there and back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{64, 4096, 65536} {
		for _, transport := range transports {
			b.Run(fmt.Sprintf("%dB/%s", size, transport.name), func(b *testing.B) {
				client, server := transport.pair(b)
				go echo(server)
				message := make([]byte, size)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := client.Write(message); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(client, message); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStream is one direction kept full.
func BenchmarkStream(b *testing.B) {
	const size = 64 << 10
	for _, transport := range transports {
		b.Run("64KiB/"+transport.name, func(b *testing.B) {
			client, server := transport.pair(b)
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				buf := make([]byte, size)
				for {
					if _, err := server.Read(buf); err != nil {
						return
					}
				}
			}()
			message := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				if _, err := client.Write(message); err != nil {
					b.Fatal(err)
				}
			}
			client.Close()
			<-drained
		})
	}
}

// BenchmarkStreamLent is BenchmarkStream of the ends that fill and look at registered
// memory themselves: neither copies.
func BenchmarkStreamLent(b *testing.B) {
	client, server := inMemory(b, softnic.Config{}).pair(b)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for {
			r, err := server.Borrow()
			if err != nil {
				return
			}
			r.Release()
		}
	}()
	b.ReportAllocs()
	b.SetBytes(conn.DefaultSize)
	for b.Loop() {
		s, err := client.Reserve()
		require.NoError(b, err)
		require.NoError(b, s.Send(len(s.Bytes())))
	}
	client.Close()
	<-drained
}

// BenchmarkHTTP is one small request on a connection that is kept.
func BenchmarkHTTP(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	run := func(b *testing.B, ln net.Listener, transport *http.Transport) {
		server := &http.Server{Handler: handler}
		go server.Serve(ln)
		defer server.Close()
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		b.ReportAllocs()
		for b.Loop() {
			resp, err := client.Get("http://" + ln.Addr().String())
			require.NoError(b, err)
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	b.Run("tcp", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		run(b, ln, &http.Transport{})
	})
	b.Run("loopback", func(b *testing.B) {
		l := loopback(b, softnic.Config{})
		dialer := &Dialer{Config: l.dialer}
		run(b, l.listen(b), &http.Transport{DialContext: dialer.DialContext})
	})
}

// BenchmarkConnect is a connection made and closed.
func BenchmarkConnect(b *testing.B) {
	b.Run("tcp", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		defer ln.Close()
		go serve(ln, echo)
		for b.Loop() {
			c, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(b, err)
			c.Close()
		}
	})
	b.Run("loopback", func(b *testing.B) {
		l := loopback(b, softnic.Config{})
		ln := l.listen(b)
		go serve(ln, echo)
		keep := l.dial(b, ln) // so that the device stays open
		defer keep.Close()
		d := &Dialer{Config: l.dialer}
		for b.Loop() {
			c, err := d.Dial("rdma", ln.Addr().String())
			require.NoError(b, err)
			c.Close()
		}
	})
}
