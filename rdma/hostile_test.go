package rdma

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/bootstrap"
	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/work"
)

// stranger is the other end of a connection: a queue pair that shook hands as it should and
// then does as it likes.
type stranger struct {
	*pair
	control net.Conn
	buffers *conn.Lease
	under   int // sends without a completion
}

// The immediate data of a message; see package conn.
const (
	fin   = 1 << 31
	stop  = 1 << 30
	probe = 1 << 29
)

// stranger connects to ln.
func (l link) stranger(t *testing.T, ln net.Listener) *stranger {
	control, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	port, err := l.dialer.ports.acquire("", routeOf(control), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	q, err := newPair(port, 64, 64)
	require.NoError(t, err)
	buffers, err := port.pool(poolKey{conn.DefaultSize, lasting}).Get(32)
	require.NoError(t, err)
	s := &stranger{pair: q, control: control, buffers: buffers}
	t.Cleanup(func() {
		s.end()
		buffers.Release()
		port.release()
	})
	own := bootstrap.Message{Endpoint: q.Endpoint(), Receives: 16, Size: conn.DefaultSize}
	_, err = bootstrap.Exchange{}.Dial(t.Context(), control, own, func(peer bootstrap.Message) error {
		if err := q.Connect(work.Local, peer.Endpoint); err != nil {
			return err
		}
		for i := range own.Receives {
			if err := q.PostReceive(uint64(i), buffers.Buffers[16+i]); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	return s
}

// end is the end of the stranger's process.
func (s *stranger) end() {
	if s.control != nil {
		s.control.Close()
		s.Close()
		s.control = nil
	}
}

// says posts a message of n bytes. What comes of it is no matter.
func (s *stranger) says(op work.Op, n int, imm uint32) {
	e := work.Entry{Op: op, Local: segment(s.buffers.Buffers[0].Slice(n)), Imm: imm, Signaled: true}
	if op == work.Write || op == work.WriteImm || op == work.Read {
		e.Remote = work.Target{Addr: 4096 * rand.Uint64N(1<<30), RKey: rand.Uint32()}
	}
	if s.Post(e) == nil {
		s.Ring()
		s.under++
	}
	s.poll()
}

func (s *stranger) poll() {
	var c [16]conn.Completion
	n, _ := s.Poll(c[:])
	for _, e := range c[:n] {
		if !e.Receive {
			s.under--
		}
	}
}

// heard waits until the peer's NIC has taken in, or refused, what was said.
func (s *stranger) heard(t *testing.T) {
	eventually(t, func() bool { s.poll(); return s.under == 0 }, "sends do not complete")
}

// strangers are what strangers do, and what the error must be for it.
var strangers = map[string]struct {
	does  func(s *stranger)
	wants string
}{
	"message without immediate data": {func(s *stranger) { s.says(work.Send, 10, 0) }, "without immediate data"},
	"unknown flags":                  {func(s *stranger) { s.says(work.SendImm, 10, 1<<25) }, "unknown bits"},
	"grants of nothing":              {func(s *stranger) { s.says(work.SendImm, 10, 40) }, "grants for data never sent"},
	"counts of nothing":              {func(s *stranger) { s.says(work.SendImm, 0, 9<<16) }, "never sent"},
	"data after the end": {func(s *stranger) {
		s.says(work.SendImm, 10, fin)
		s.says(work.SendImm, 10, 0)
	}, "data after the end"},
	"the end twice": {func(s *stranger) {
		s.says(work.SendImm, 0, fin)
		s.says(work.SendImm, 0, fin)
	}, "said twice"},
	"stop twice": {func(s *stranger) {
		s.says(work.SendImm, 0, stop)
		s.says(work.SendImm, 0, stop)
	}, "said twice"},
	"more data than credits": {func(s *stranger) {
		for range conn.DefaultReceives {
			s.says(work.SendImm, 1, 0)
		}
	}, "data without credit"},
	"more control than credits": {func(s *stranger) {
		for range conn.Reserve + 1 {
			s.says(work.SendImm, 0, 0)
		}
	}, "control message without credit"},
	"probe with payload":                {func(s *stranger) { s.says(work.SendImm, 10, probe) }, "a probe with payload"},
	"bytes on the bootstrap connection": {func(s *stranger) { io.WriteString(s.control, "hello?") }, "bytes on the bootstrap connection"},
	"a message that is too long":        {func(s *stranger) { s.says(work.SendImm, conn.DefaultSize, 0) }, "reset"},
	"a write into memory":               {func(s *stranger) { s.says(work.Write, 8, 0) }, "reset"},
	"a read of memory":                  {func(s *stranger) { s.says(work.Read, 8, 0) }, "reset"},
	"nothing but silence":               {func(s *stranger) {}, "timeout"},
	"vanishes":                          {func(s *stranger) { s.end() }, "reset"},
}

// TestStrangers: whatever the other end does, it costs this connection alone, with an error
// that says what was wrong, and no memory but for what this side writes itself: one slab.
func TestStrangers(t *testing.T) {
	eachSoftLink(t, softnic.Config{}, func(t *testing.T, l link) {
		// Receives that are smaller than what the stranger can send.
		l.listener.BufferSize = conn.DefaultSize / 2
		l.withStrangers(t, func(ln net.Listener, registered func() int) {
			for name, test := range strangers {
				t.Run(name, func(t *testing.T) {
					s := l.stranger(t, ln)
					victim, err := ln.Accept()
					require.NoError(t, err)
					defer victim.Close()
					before := registered()
					test.does(s)
					if s.control != nil {
						s.heard(t) // before the victim reads, and gives credits
					}
					require.NoError(t, victim.SetDeadline(time.Now().Add(30*time.Second)))
					if test.wants == "timeout" {
						require.NoError(t, victim.SetDeadline(time.Now().Add(50*time.Millisecond)))
					}
					got, err := io.ReadAll(victim)
					require.LessOrEqual(t, len(got), 16)
					if err == nil { // the stream ended before it did wrong
						_, err = io.Copy(victim, unevenly([32]byte{}, 1<<30))
					}
					require.ErrorContains(t, err, test.wants)
					require.LessOrEqual(t, registered(), before+1)
					require.LessOrEqual(t, victim.(*conn.Conn).Stats().Receives, conn.DefaultReceives)
				})
			}
		})
	})
}

// TestStrangersAtRandom is the same with anything at all, while the victim writes and reads.
func TestStrangersAtRandom(t *testing.T) {
	l := inMemory(t, softnic.Config{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	l.withStrangers(t, func(ln net.Listener, registered func() int) {
		for range times(300) {
			s := l.stranger(t, ln)
			victim, err := ln.Accept()
			require.NoError(t, err)
			before := registered()
			require.NoError(t, victim.SetDeadline(time.Now().Add(20*time.Second)))
			wrote, read := make(chan error, 1), make(chan error, 1)
			go func() { _, err := io.Copy(victim, unevenly([32]byte{}, 1<<40)); wrote <- err }()
			go func() { _, err := io.Copy(io.Discard, victim); read <- err }()
			for range rng.IntN(30) {
				imm := rng.Uint32N(4) | rng.Uint32N(2)<<16 // nearly right
				switch rng.IntN(6) {
				case 0:
					imm = rng.Uint32()
				case 1:
					imm |= 1 << (24 + rng.IntN(8))
				}
				op := work.SendImm
				if rng.IntN(20) == 0 {
					op = []work.Op{work.Send, work.Write, work.WriteImm, work.Read}[rng.IntN(4)]
				}
				s.says(op, rng.IntN(3)*rng.IntN(conn.DefaultSize/2), imm)
			}
			s.end()
			require.Error(t, <-wrote)
			<-read // a stream may have ended as it should
			require.LessOrEqual(t, registered(), before+1)
			require.NoError(t, victim.Close())
		}
	})
}

// withStrangers runs test on a listener, with a count of the memory that the listener's side
// has registered, and checks that another connection on the same device goes on meanwhile.
func (l link) withStrangers(t *testing.T, test func(ln net.Listener, registered func() int)) {
	l.near().strangers, l.far().strangers = true, true
	good, far := l.pair(t)
	stopped := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stopped:
				done <- nil
				return
			default:
			}
			text := fmt.Sprintf("message %9d", i)
			good.Write([]byte(text))
			got := make([]byte, len(text))
			if _, err := io.ReadFull(far, got); err != nil || string(got) != text {
				done <- fmt.Errorf("%q: %w", got, err)
				return
			}
		}
	}()
	test(l.listen(t), func() int { return l.far().counters().MRs })
	close(stopped)
	require.NoError(t, <-done, "the other connection")
}
