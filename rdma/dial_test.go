package rdma

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/bootstrap"
	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/listener"
	"github.com/farwire/farwire/rdma/softnic"
)

func TestNetworks(t *testing.T) {
	l := loopback(t, softnic.Config{})
	for network, address := range map[string]string{
		"rdma": "127.0.0.1:0", "rdma4": "127.0.0.1:0", "tcp": "127.0.0.1:0", "tcp4": "127.0.0.1:0",
		"rdma6": "[::1]:0", "tcp6": "[::1]:0",
	} {
		lc := ListenConfig{Config: l.listener}
		ln, err := lc.Listen(t.Context(), network, address)
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Log("no IPv6 here:", err)
			continue
		}
		require.NoError(t, err, network)
		go serve(ln, echo)
		c, err := (&Dialer{Config: l.dialer}).Dial(network, ln.Addr().String())
		require.NoError(t, err, network)
		require.Equal(t, ln.Addr().String(), c.RemoteAddr().String())
		require.Equal(t, "rdma", c.RemoteAddr().Network())
		require.NoError(t, c.Close())
		require.NoError(t, ln.Close())
	}
}

// The errors of Dial are those of net.Dial: typed, with op, network and address.
func TestDialErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := closed.Addr().String()
	closed.Close()

	for _, test := range []struct {
		name, network, address string
		config                 Config
		is                     error
		says                   string
	}{
		{"refused", "rdma", nobody, Config{}, syscall.ECONNREFUSED, "dial rdma " + nobody},
		{"unknown network", "udp", nobody, Config{}, net.UnknownNetworkError("udp"), "dial udp"},
		{"wrong family", "rdma6", nobody, Config{}, nil, "dial rdma6"},
		{"bad port", "rdma", "127.0.0.1:99999", Config{}, nil, "dial rdma"},
		{"bad config", "rdma", nobody, Config{BufferSize: 63}, nil, "BufferSize 63 is outside 64 to"},
		{"too many sends", "rdma", nobody, Config{Sends: 1 << 15}, nil, "Sends 32768 is outside"},
		{"negative timeout", "rdma", nobody, Config{HandshakeTimeout: -1}, nil, "HandshakeTimeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := (&Dialer{Config: test.config}).Dial(test.network, test.address)
			require.Nil(t, c)
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, "dial", op.Op)
			require.ErrorContains(t, err, test.says)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
}

func TestListenErrors(t *testing.T) {
	for network, address := range map[string]string{"udp": "127.0.0.1:0", "rdma": "127.0.0.1:99999"} {
		ln, err := Listen(network, address)
		require.Nil(t, ln)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "listen", op.Op)
	}
	_, err := (&ListenConfig{Config: Config{Receives: 3}}).Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.ErrorContains(t, err, "Receives 3 is outside")
	_, err = (&ListenConfig{Config: Config{Device: "mlx5_77"}}).Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.ErrorIs(t, err, errNoDevice)
}

// A device that is not there is named, at either end, and nothing is left behind.
func TestNoSuchDevice(t *testing.T) {
	l := loopback(t, softnic.Config{})
	ln := l.listen(t)
	l.dialer.Device = "mlx5_77"
	_, err := (&Dialer{Config: l.dialer}).Dial("rdma", ln.Addr().String())
	require.ErrorIs(t, err, errNoDevice)
	require.ErrorContains(t, err, "device mlx5_77")
	t.Setenv(DeviceEnv, "mlx5_78")
	_, err = Dial("rdma", ln.Addr().String())
	require.ErrorContains(t, err, "device mlx5_78")
	l.dialer.Device, l.listener.Device = Soft, Soft // before the environment
	l.pair(t)
}

func TestEnvironmentNamesTheSoftwareNIC(t *testing.T) {
	t.Setenv(DeviceEnv, Soft)
	ln, err := Listen("rdma", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go serve(ln, echo)
	c, err := Dial("rdma", ln.Addr().String())
	require.NoError(t, err)
	require.Contains(t, c.(*conn.Conn).Device(), "software")
	require.NoError(t, c.Close())
}

func TestBadEnvironment(t *testing.T) {
	(&machine{ports: system}).settle(t) // connections of other tests may still be closing
	t.Setenv(softnic.EnvVar, "lost=0.5")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, err = Dial("rdma", ln.Addr().String())
	require.ErrorContains(t, err, `unknown key "lost"`)
}

// A server that is not one of ours, or says nothing, ends the dial in time.
func TestDialStrangers(t *testing.T) {
	l := loopback(t, softnic.Config{})
	for name, answer := range map[string]string{"silent": "", "http": "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			go serve(ln, func(c net.Conn) {
				io.WriteString(c, answer)
				io.Copy(io.Discard, c)
			})
			d := Dialer{Config: l.dialer}
			d.Config.HandshakeTimeout = 50 * time.Millisecond
			_, err = d.Dial("rdma", ln.Addr().String())
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, ln.Addr().String(), op.Addr.String())
			if answer == "" {
				require.True(t, op.Timeout(), "%v", err)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.ErrorIs(t, err, bootstrap.ErrMagic)
			}
		})
	}
}

func TestDialCanceled(t *testing.T) {
	l := loopback(t, softnic.Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := ln.Accept()
		if err == nil {
			defer c.Close()
			cancel() // the dialer waits for the answer now
			io.Copy(io.Discard, c)
		}
	}()
	_, err = (&Dialer{Config: l.dialer}).DialContext(ctx, "rdma", ln.Addr().String())
	require.ErrorIs(t, err, context.Canceled)
}

// Clients that are none reach OnError, never Accept, and good ones are served meanwhile.
func TestBadClients(t *testing.T) {
	l := loopback(t, softnic.Config{})
	var mu sync.Mutex
	var errs []error
	lc := ListenConfig{Config: l.listener, Backlog: 8, OnError: func(_ net.Addr, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}}
	lc.Config.HandshakeTimeout = time.Second
	ln, err := lc.Listen(t.Context(), "rdma", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go serve(ln, echo)

	const bad = 40
	for i := range bad {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		switch i % 4 {
		case 0:
			io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
		case 1:
			c.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}) // a TLS hello
		case 2:
			c.Close()
		case 3: // silence
		}
		if i%8 == 0 {
			c := l.dial(t, ln)
			_, err = c.Write([]byte("good"))
			require.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, 4))
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	}
	eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(errs) == bad
	}, "every bad client must be told of")
}

// Two ends that can never reach each other are told so by name.
func TestUnreachable(t *testing.T) {
	l := loopback(t, softnic.Config{})
	far := newMachine(t, softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork(), Addr: addr("10.1.2.3")})
	l.dialer.ports = far.ports
	ln := l.listen(t)
	_, err := (&Dialer{Config: l.dialer}).Dial("rdma", ln.Addr().String())
	require.ErrorContains(t, err, "cannot reach")
	var refused *bootstrap.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, bootstrap.CodeEndpoint, refused.Code)
}

// A listener whose device cannot be set up refuses its clients with the reason.
func TestRefusedWithReason(t *testing.T) {
	l := loopback(t, softnic.Config{})
	l.listener.ports = newPorts(func() (*softnic.Config, error) { return nil, os.ErrPermission })
	ln := l.listen(t)
	_, err := (&Dialer{Config: l.dialer}).Dial("rdma", ln.Addr().String())
	var refused *bootstrap.RefusedError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Remote)
	require.Equal(t, bootstrap.CodeResources, refused.Code)
	require.Contains(t, refused.Text, os.ErrPermission.Error())
}

func TestListenerType(t *testing.T) {
	ln, err := Listen("rdma", "127.0.0.1:0")
	require.NoError(t, err)
	require.IsType(t, (*listener.Listener)(nil), ln)
	require.NoError(t, ln.Close())
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
