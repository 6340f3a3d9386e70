package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// streamFaults are impairments that a stream has to survive, each with the trace that
// shows that they happened.
var streamFaults = map[string]struct {
	softnic.Faults
	trace func(softnic.Counters) uint64
}{
	"loss":      {softnic.Faults{Loss: 0.03}, func(c softnic.Counters) uint64 { return c.Retransmits }},
	"duplicate": {softnic.Faults{Duplicate: 0.1}, func(c softnic.Counters) uint64 { return c.Duplicates }},
	"reorder":   {softnic.Faults{Reorder: 0.1}, func(c softnic.Counters) uint64 { return c.OutOfSequence }},
	"corrupt":   {softnic.Faults{Corrupt: 0.03}, func(c softnic.Counters) uint64 { return c.DropICRC }},
	"late":      {softnic.Faults{Late: 0.1, LateBy: 2 * time.Millisecond}, func(c softnic.Counters) uint64 { return c.LateCompletions }},
	"delay":     {softnic.Faults{Delay: time.Millisecond, Jitter: time.Millisecond}, nil},
	"all": {softnic.Faults{Loss: 0.01, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.01, Late: 0.05,
		Delay: 200 * time.Microsecond, Jitter: 300 * time.Microsecond}, func(c softnic.Counters) uint64 { return c.Retransmits }},
}

// TestStreamsUnderFaults: both streams of a connection arrive whole and in order.
func TestStreamsUnderFaults(t *testing.T) {
	seeds := []uint64{1, 2, rand.Uint64()}
	for name, f := range streamFaults {
		for _, where := range []string{"memory", "udp", "loopback"} {
			for _, seed := range seeds {
				t.Run(fmt.Sprintf("%s/%s/seed %d", name, where, seed), func(t *testing.T) {
					t.Parallel()
					if where == "udp" {
						needUDP(t)
					}
					l := links[where](t, softnic.Config{Faults: f.Faults, Seed: seed})
					a, b := l.pair(t)
					began := time.Now()
					testStreams(t, a, b, 512<<10)
					if f.trace == nil {
						require.Greater(t, time.Since(began), f.Delay)
					} else {
						require.NotZero(t, f.trace(l.counters()), "nothing went wrong")
					}
				})
			}
		}
	}
}

// TestPortFlap: a port that comes back before the retries are used up costs time only.
func TestPortFlap(t *testing.T) {
	eachSoftLink(t, softnic.Config{}, func(t *testing.T, l link) {
		a, b := l.pair(t)
		for _, m := range []*machine{l.near(), l.far()} {
			before := l.counters().Timeouts
			m.nic().SetPort(false)
			done := make(chan struct{})
			go func() {
				testStreams(t, a, b, 512<<10)
				close(done)
			}()
			eventually(t, func() bool { return l.counters().Timeouts > before }, "nobody retries")
			m.nic().SetPort(true)
			<-done
		}
	})
}

// TestPortDown: a port that stays down ends the connection once the retries are used up,
// which by the InfiniBand specification (9.7.6.1.3, 9.9.2.1.1) are 1 + 7 waits of 67 ms to
// four times that each.
func TestPortDown(t *testing.T) {
	const timeout = 4096 << 14 * time.Nanosecond
	eachSoftLink(t, softnic.Config{}, func(t *testing.T, l link) {
		a, b := l.pair(t)
		l.near().nic().SetPort(false)
		began := time.Now()
		errs := make(chan error, 3)
		go func() { _, err := a.Read(make([]byte, 1)); errs <- err }()
		go func() { _, err := io.Copy(a, unevenly([32]byte{}, 1<<40)); errs <- err }()
		for range 2 {
			err := <-errs
			requireReset(t, err)
			var status *verbs.StatusError
			require.ErrorAs(t, err, &status)
			require.Equal(t, verbs.RetryExceeded, status.Status)
		}
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 8*timeout)
		require.Less(t, took, 8*4*timeout+5*time.Second) // and what a busy machine adds
		_, err := b.Read(make([]byte, 1))
		requireReset(t, err)
		l.near().nic().SetPort(true)
	})
}

// requireReset checks that an error is what a lost connection gives.
func requireReset(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, syscall.ECONNRESET)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.NotNil(t, op.Source)
	require.NotNil(t, op.Addr)
	require.False(t, op.Timeout())
}

// TestDeviceFatal: the death of a device ends every call that waits for it, and the next
// connection gets a device that works.
func TestDeviceFatal(t *testing.T) {
	eachSoftLink(t, softnic.Config{}, func(t *testing.T, l link) {
		for _, m := range []*machine{l.near(), l.far()} {
			ln := l.listen(t)
			const conns = 6
			type end struct {
				err error
				own bool // of the device that fails
			}
			ended := make(chan end, 2*conns)
			for i := range conns {
				near := l.dial(t, ln)
				c, err := ln.Accept()
				require.NoError(t, err)
				far := c.(*conn.Conn)
				t.Cleanup(func() { far.Close() })
				for c, own := range map[*conn.Conn]*machine{near: l.near(), far: l.far()} {
					go func() {
						var err error
						switch i % 3 {
						case 0:
							_, err = c.Read(make([]byte, 1))
						case 1:
							_, err = c.Write(make([]byte, 64<<20))
						case 2:
							_, err = c.ReadFrom(unevenly([32]byte{}, 1<<40))
						}
						ended <- end{err, own == m}
					}()
				}
			}
			for _, function := range []string{"(*Conn).Read", "(*Conn).Write", "(*Conn).ReadFrom"} {
				awaitBlocked(t, function, 4)
			}
			m.nic().Fail()
			for range cap(ended) {
				e := <-ended
				requireReset(t, e.err)
				require.Equal(t, e.own, errors.Is(e.err, verbs.ErrDeviceFatal), "%v", e.err)
			}

			go serve(ln, echo)
			opened := len(m.nics)
			c := l.dial(t, ln)
			require.Greater(t, len(m.nics), opened, "a new device")
			_, err := c.Write([]byte("again"))
			require.NoError(t, err)
			got := make([]byte, 5)
			_, err = io.ReadFull(c, got)
			require.NoError(t, err)
			require.Equal(t, "again", string(got))
			require.NoError(t, c.Close())
			require.NoError(t, ln.Close())
		}
	})
}

// TestHeldCompletions: deadlines work although the NIC says nothing, and nothing is lost
// when it speaks again.
func TestHeldCompletions(t *testing.T) {
	eachSoftLink(t, softnic.Config{}, func(t *testing.T, l link) {
		a, b := l.pair(t)
		l.near().nic().HoldCompletions()
		_, err := b.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, a.SetDeadline(time.Now().Add(50*time.Millisecond)))
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		sent := make([]byte, 1<<20)
		rand.NewChaCha8([32]byte{3}).Read(sent)
		taken := conn.DefaultSends * conn.DefaultSize
		fill(t, a, sent, taken)

		l.near().nic().ReleaseCompletions()
		require.NoError(t, a.SetDeadline(time.Time{}))
		_, err = io.ReadFull(a, make([]byte, 1))
		require.NoError(t, err)
		expectRest(t, a, b, sent, taken)
	})
}

// fill writes the first taken bytes of sent, which must be what c takes without help from
// the other side, with Writes that a deadline ends.
func fill(t *testing.T, c net.Conn, sent []byte, taken int) {
	t.Helper()
	write := func() int {
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		n, err := c.Write(sent)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		sent = sent[n:]
		return n
	}
	for tries := 0; taken > 0; tries++ {
		require.Less(t, tries, 1000, "%d bytes less than expected", taken)
		taken -= write()
	}
	require.Zero(t, taken)
	require.Zero(t, write())
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
}

// expectRest writes what a Write of sent did not take, and checks that all of it arrives.
func expectRest(t *testing.T, from, to net.Conn, sent []byte, taken int) {
	t.Helper()
	wrote := make(chan error, 1)
	go func() { _, err := from.Write(sent[taken:]); wrote <- err }()
	got := make([]byte, len(sent))
	_, err := io.ReadFull(to, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
	require.NoError(t, <-wrote)
}

// TestCloseWithHeldCompletions: Close neither waits for a NIC that says nothing, nor does
// what it leaves to the background wait for longer than Linger.
func TestCloseWithHeldCompletions(t *testing.T) {
	for name, release := range map[string]bool{"for ever": false, "for a while": true} {
		t.Run(name, func(t *testing.T) {
			l := inMemory(t, softnic.Config{})
			l.dialer.Linger = time.Minute
			if !release {
				l.dialer.Linger = 200 * time.Millisecond
			}
			a, b := l.pair(t)
			l.near().nic().HoldCompletions()
			sent := bytes.Repeat([]byte("0123456789"), 3000) // in two messages
			_, err := a.Write(sent)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, a.Close())
			require.Less(t, time.Since(began), 10*time.Second)
			got := make([]byte, len(sent))
			_, err = io.ReadFull(b, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, got))
			if release {
				select {
				case <-a.Released():
					t.Fatal("gave up")
				default:
				}
				l.near().nic().ReleaseCompletions()
			}
			<-a.Released()
		})
	}
}

// TestPeerThatNeverReads: a Write stands still, says exactly how much it has taken when
// its deadline ends it, and all of that and what follows arrives.
func TestPeerThatNeverReads(t *testing.T) {
	eachLink(t, func(t *testing.T, l link) {
		a, b := l.pair(t)
		sent := make([]byte, 4<<20)
		rand.NewChaCha8([32]byte{4}).Read(sent)
		taken := (FirstReceives - conn.Reserve + conn.DefaultSends) * conn.DefaultSize
		fill(t, a, sent, taken) // what the two sides have buffers for
		expectRest(t, a, b, sent, taken)
	})
}
