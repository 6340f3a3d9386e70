package conn

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
)

// probing is a pair that probes after 10 s and waits 3 times 2 s more.
var probing = setup{config: func(c *Config) {
	c.KeepAlive = net.KeepAliveConfig{Idle: 10 * time.Second, Interval: 2 * time.Second, Count: 3}
}}

// requireLost checks that err is the loss of a connection, first noticed on plane.
func requireLost(t *testing.T, err error, plane Plane, is error) {
	t.Helper()
	requireReset(t, err, is)
	var reset *ResetError
	require.ErrorAs(t, err, &reset)
	require.Equal(t, plane, reset.Plane)
	require.ErrorContains(t, err, plane.String())
}

// TestKeepAliveProbes: an idle connection is probed with little, for as long as it lasts,
// whether or not anybody reads. Who gets a probe need not send one: here the sides look at the
// same moments, and chance says who is first.
func TestKeepAliveProbes(t *testing.T) {
	for name, reads := range map[string]bool{"nobody reads": false, "both read": true} {
		for _, receives := range []int{MinReceives, MinReceives + 1, 16} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := probing
					s.receives = receives
					p := newPair(t, s)
					ended := make(chan error, 2)
					for _, c := range []*Conn{p.a, p.b} {
						if reads {
							go func() { _, err := io.Copy(io.Discard, c); ended <- err }()
						}
					}
					time.Sleep(time.Hour)
					probes := p.a.Stats().Probes + p.b.Stats().Probes
					require.Greater(t, probes, uint64(time.Hour/(20*time.Second)))
					require.Less(t, p.a.Stats().MessagesSent+p.b.Stats().MessagesSent, uint64(2000))
					_, err := p.a.Write([]byte("x"))
					require.NoError(t, err)
					if !reads {
						_, err = p.b.Read(make([]byte, 1))
						require.NoError(t, err)
						return
					}
					require.NoError(t, p.a.Close())
					require.NoError(t, p.b.Close())
					<-ended
					<-ended
				})
			})
		}
	}
}

// TestKeepAliveBusy: who has something to say is not probed.
func TestKeepAliveBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, probing)
		for range 100 {
			time.Sleep(4 * time.Second)
			_, err := p.a.Write([]byte("x"))
			require.NoError(t, err)
			_, err = p.b.Read(make([]byte, 1))
			require.NoError(t, err)
		}
		require.Zero(t, p.a.Stats().Probes)
		require.Zero(t, p.b.Stats().Probes)
	})
}

// TestKeepAliveFindsDeadPeer: an idle side whose peer does not answer any more learns it
// within twice Idle and what its NIC takes to find out; here that is no time.
func TestKeepAliveFindsDeadPeer(t *testing.T) {
	for _, noControl := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := probing
			s.noControl = noControl
			p := newPair(t, s)
			p.a.SetKeepAlive(true) // also without a bootstrap connection
			if noControl {
				near, far := net.Pipe()
				defer far.Close()
				p.a.Watch(near)
			}
			time.Sleep(time.Minute)
			p.qb.set(func() { p.qb.broken = true })
			died := time.Now()
			_, err := p.a.Read(make([]byte, 1))
			requireLost(t, err, QueuePair, &verbs.StatusError{Status: verbs.RetryExceeded})
			require.LessOrEqual(t, time.Since(died), 20*time.Second)
		})
	}
}

// TestKeepAliveFindsSilentNIC: completions that stay away for ever end the connection
// within twice Idle and Interval times Count, whatever was going on.
func TestKeepAliveFindsSilentNIC(t *testing.T) {
	for name, call := range map[string]func(c *Conn) error{
		"idle":    func(c *Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"writing": func(c *Conn) error { _, err := c.Write(make([]byte, 1<<20)); return err },
		"control": func(c *Conn) error { c.CloseWrite(); _, err := c.Read(make([]byte, 1)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, probing)
				time.Sleep(time.Minute + time.Second)
				p.qa.set(func() { p.qa.holdSends, p.qb.holdSends = true, true })
				began := time.Now()
				requireLost(t, call(p.a), QueuePair, errSilent)
				require.GreaterOrEqual(t, time.Since(began), 6*time.Second)
				require.LessOrEqual(t, time.Since(began), 26*time.Second)
				_, err := p.b.Write(make([]byte, 1<<20))
				require.ErrorIs(t, err, syscall.ECONNRESET)
			})
		})
	}
}

// TestKeepAliveResumes: a peer, or a NIC, that comes back in time costs nothing.
func TestKeepAliveResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, probing)
		for range 10 {
			p.qa.set(func() { p.qa.holdSends = true })
			time.Sleep(15 * time.Second)
			p.qa.set(func() { p.qa.holdSends = false })
			time.Sleep(time.Second)
		}
		_, err := p.a.Write([]byte("x"))
		require.NoError(t, err)
		_, err = p.b.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}

// TestKeepAliveSwitchedOff: then nothing is sent, until it is switched on.
func TestKeepAliveSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, probing)
		require.NoError(t, p.a.SetKeepAlive(false))
		require.NoError(t, p.b.SetKeepAliveConfig(net.KeepAliveConfig{}))
		time.Sleep(time.Hour)
		require.Zero(t, p.a.Stats().MessagesSent+p.b.Stats().MessagesSent)
		require.NoError(t, p.a.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Minute}))
		time.Sleep(59 * time.Second)
		require.Zero(t, p.a.Stats().Probes)
		time.Sleep(2 * time.Second)
		require.Equal(t, uint64(1), p.a.Stats().Probes)
	})
}

// TestKeepAliveConfig: values are taken as net.TCPConn takes them.
func TestKeepAliveConfig(t *testing.T) {
	var k keepalive
	k.set(net.KeepAliveConfig{Enable: true})
	require.Equal(t, keepalive{on: true, idle: 15 * time.Second, interval: 15 * time.Second, count: 9}, k)
	k.set(net.KeepAliveConfig{Idle: 1, Interval: 2, Count: 3})
	require.Equal(t, keepalive{idle: 1, interval: 2, count: 3}, k)
	k.set(net.KeepAliveConfig{Idle: -1, Interval: -1, Count: -1})
	require.Equal(t, keepalive{idle: 1, interval: 2, count: 3}, k)
	k.set(net.KeepAliveConfig{})
	require.Equal(t, 135*time.Second, k.patience())
	k = keepalive{}
	k.set(net.KeepAliveConfig{Idle: -1, Interval: -1, Count: -1})
	require.Equal(t, keepalive{idle: 15 * time.Second, interval: 15 * time.Second, count: 9}, k)
}

// TestBootstrapLost: what ends the bootstrap connection decides what the error says.
func TestBootstrapLost(t *testing.T) {
	for name, test := range map[string]struct{ read, is error }{
		"closed":     {io.EOF, errHangup},
		"reset":      {fromTCP(syscall.ECONNRESET), errHangup},
		"no answer":  {fromTCP(syscall.ETIMEDOUT), syscall.ETIMEDOUT},
		"no way any": {fromTCP(syscall.EHOSTUNREACH), syscall.EHOSTUNREACH},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, setup{noControl: true})
			control := &endless{ended: make(chan struct{}), err: test.read}
			p.a.Watch(control)
			close(control.ended)
			_, err := p.a.Read(make([]byte, 1))
			requireLost(t, err, Bootstrap, test.is)
		})
	}
}

// fromTCP is an error of the kernel as a net.TCPConn returns it.
func fromTCP(err error) error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
}

// endless is a bootstrap connection that ends with err when told to.
type endless struct {
	net.Conn
	ended chan struct{}
	err   error
}

func (e *endless) Read([]byte) (int, error)        { <-e.ended; return 0, e.err }
func (e *endless) SetReadDeadline(time.Time) error { return nil }
func (e *endless) Close() error                    { return nil }

func TestPlaneNames(t *testing.T) {
	require.Equal(t, "queue pair", QueuePair.String())
	require.Equal(t, "bootstrap connection", Bootstrap.String())
	require.Equal(t, "plane 7", Plane(7).String())
}
