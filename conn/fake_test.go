package conn

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
)

// fabric joins two fakeQueues as a reliable connection does: messages arrive once, in
// order, each in the next posted receive. It is strict: what a queue pair would punish
// is counted as a fault.
type fabric struct {
	mu     sync.Mutex
	ends   [2]*fakeQueue
	faults []string
}

// fakeQueue is one end. The flags may be changed at any time through set.
type fakeQueue struct {
	f        *fabric
	peer     *fakeQueue
	inCall   atomic.Int32
	rng      *rand.Rand // if set, Poll hands out random numbers of completions
	receives []entry
	cq       []Completion
	sends    []entry // posted, not yet delivered
	held     []Completion
	armed    bool
	event    chan struct{}
	ended    chan struct{}
	broken   bool
	dead     bool
	lostErr  error // what Poll fails with
	posted   int   // sends posted
	more     bool  // another was announced with the last
	mores    []bool

	holdSends      bool  // sends are not delivered
	holdDone       bool  // completions of sends are withheld
	armMisses      bool  // Arm gives no event for what is there already, as in rxe
	failPost       error // PostSend fails
	failReceive    error // PostReceive fails
	failArm        error
	beforeArm      func() // called by the next Arm, before it takes effect
	closeErr       error
	closed, maxOut int
	out            int // sends without completion
}

type entry struct {
	id  uint64
	b   Buffer
	imm uint32
}

func newFabric() *fabric {
	f := &fabric{}
	for i := range f.ends {
		f.ends[i] = &fakeQueue{f: f, event: make(chan struct{}, 1), ended: make(chan struct{})}
	}
	f.ends[0].peer, f.ends[1].peer = f.ends[1], f.ends[0]
	return f
}

func (f *fabric) fault(s string) { f.faults = append(f.faults, s) }

func (f *fabric) check(t testing.TB) {
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.faults)
}

func (q *fakeQueue) set(change func()) {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	change()
	q.deliver()
	q.peer.deliver()
}

// enter checks that the owner makes one call at a time.
func (q *fakeQueue) enter(name string) *fakeQueue {
	busy := q.inCall.Add(1) != 1
	q.f.mu.Lock()
	if busy {
		q.f.fault(name + " called while another call is running")
	}
	if q.dead {
		q.f.fault(name + " called after Close")
	}
	return q
}

func (q *fakeQueue) leave() {
	q.f.mu.Unlock()
	q.inCall.Add(-1)
}

func (q *fakeQueue) PostSend(id uint64, b Buffer, imm uint32, more bool) error {
	defer q.enter("PostSend").leave()
	if q.failPost != nil {
		return q.failPost
	}
	q.posted++
	q.out++
	q.maxOut = max(q.maxOut, q.out)
	if q.broken {
		q.complete(Completion{ID: id, Err: flushed(), Flushed: true})
		return nil
	}
	q.sends = append(q.sends, entry{id, b, imm})
	q.more = more
	q.mores = append(q.mores, more)
	q.deliver()
	return nil
}

func (q *fakeQueue) PostReceive(id uint64, b Buffer) error {
	defer q.enter("PostReceive").leave()
	if q.failReceive != nil {
		return q.failReceive
	}
	if q.broken {
		q.complete(Completion{ID: id, Receive: true, Err: flushed(), Flushed: true})
		return nil
	}
	q.receives = append(q.receives, entry{id: id, b: b})
	return nil
}

func (q *fakeQueue) Poll(c []Completion) (int, error) {
	defer q.enter("Poll").leave()
	if q.lostErr != nil {
		return 0, q.lostErr
	}
	limit := len(c)
	if q.rng != nil {
		limit = q.rng.IntN(limit + 1)
		if limit == 0 && len(q.cq) > 0 { // late, not lost
			q.fire()
		}
	}
	n := copy(c[:limit], q.cq)
	q.cq = append(q.cq[:0], q.cq[n:]...)
	for _, e := range c[:n] {
		if !e.Receive {
			q.out--
		}
	}
	return n, nil
}

func (q *fakeQueue) Arm() error {
	defer q.enter("Arm").leave()
	if q.failArm != nil {
		return q.failArm
	}
	if f := q.beforeArm; f != nil {
		q.beforeArm = nil
		f()
	}
	q.armed = true
	if len(q.cq) > 0 && !q.armMisses {
		q.fire()
	}
	return nil
}

func (q *fakeQueue) Notify(f func()) {
	go func() {
		defer close(q.ended)
		for range q.event {
			f()
		}
	}()
}

func (q *fakeQueue) Close() error {
	func() {
		defer q.enter("Close").leave()
		q.dead = true
		q.closed++
		q.sends = nil
		close(q.event)
		q.peer.deliver()
	}()
	<-q.ended
	return q.closeErr
}

// deliver carries what can be carried to the peer. Called with f.mu held.
func (q *fakeQueue) deliver() {
	if !q.holdDone {
		for _, e := range q.held {
			q.complete(e)
		}
		q.held = nil
	}
	for !q.holdSends && !q.more && !q.broken && len(q.sends) > 0 {
		s := q.sends[0]
		q.sends = append(q.sends[:0], q.sends[1:]...)
		switch {
		case q.peer.dead || q.peer.broken:
			q.fail(Completion{ID: s.id, Err: status(verbs.RetryExceeded)})
		case len(q.peer.receives) == 0:
			q.f.fault("receiver not ready")
			q.fail(Completion{ID: s.id, Err: status(verbs.RNRRetryExceeded)})
		default:
			r := q.peer.receives[0]
			q.peer.receives = append(q.peer.receives[:0], q.peer.receives[1:]...)
			if len(s.b.Bytes) > len(r.b.Bytes) {
				q.f.fault("message too long")
			}
			copy(r.b.Bytes, s.b.Bytes)
			q.peer.complete(Completion{ID: r.id, Receive: true, Bytes: uint32(len(s.b.Bytes)), Imm: s.imm, HasImm: true})
			if q.holdDone {
				q.held = append(q.held, Completion{ID: s.id})
			} else {
				q.complete(Completion{ID: s.id})
			}
		}
	}
}

// fail moves the queue pair to the error state, as the completion first does.
func (q *fakeQueue) fail(first Completion) {
	q.broken = true
	q.complete(first)
	for _, s := range q.sends {
		q.complete(Completion{ID: s.id, Err: flushed(), Flushed: true})
	}
	for _, r := range q.receives {
		q.complete(Completion{ID: r.id, Receive: true, Err: flushed(), Flushed: true})
	}
	q.sends, q.receives = nil, nil
}

func (q *fakeQueue) complete(e Completion) {
	if q.dead {
		return
	}
	q.cq = append(q.cq, e)
	if q.armed {
		q.fire()
	}
}

func (q *fakeQueue) fire() {
	if q.dead {
		return
	}
	q.armed = false
	select {
	case q.event <- struct{}{}:
	default:
	}
}

// receive takes a posted receive away.
func (q *fakeQueue) receive() uint64 {
	r := q.receives[0]
	q.receives = append(q.receives[:0], q.receives[1:]...)
	return r.id
}

// completeOne lets one send complete that holdDone has held back.
func (q *fakeQueue) completeOne() {
	e := q.held[0]
	q.held = q.held[1:]
	q.complete(e)
}

// inject makes a message arrive that no Conn would send.
func (q *fakeQueue) inject(n uint32, imm uint32, hasImm bool) {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	if len(q.receives) == 0 || q.dead {
		return
	}
	q.complete(Completion{ID: q.receive(), Receive: true, Bytes: n, Imm: imm, HasImm: hasImm})
}

func status(s verbs.Status) error { return &verbs.StatusError{Status: s, Opcode: "SEND", QPN: 7} }

func flushed() error { return status(verbs.Flushed) }

var errTest = errors.New("test error")

// setup is how to make a pair of connections for a test.
type setup struct {
	sends, receives, size    int // of the first; the zero value means ordinary sizes
	sends2, receives2, size2 int // of the second; the zero value means as the first
	seed                     uint64
	armMisses                bool
	config                   func(*Config)
	noControl                bool
}

// pair is two connected connections and what is under them.
type pair struct {
	*fabric
	a, b    *Conn
	qa, qb  *fakeQueue
	ca, cb  net.Conn // control connections
	release atomic.Int32
}

func newPair(t testing.TB, s setup) *pair {
	p := &pair{fabric: newFabric()}
	p.qa, p.qb = p.ends[0], p.ends[1]
	or := func(v ...int) int {
		for _, n := range v {
			if n != 0 {
				return n
			}
		}
		return 0
	}
	sends, receives, size := or(s.sends, 8), or(s.receives, 16), or(s.size, 4096)
	sends2, receives2, size2 := or(s.sends2, sends), or(s.receives2, receives), or(s.size2, size)
	for i, q := range p.ends {
		if s.seed != 0 {
			q.rng = rand.New(rand.NewPCG(s.seed, uint64(i)))
		}
		q.armMisses = s.armMisses
	}
	p.a = p.conn(t, s, p.qa, Config{Sends: buffers(sends, size), Receives: buffers(receives, size), PeerReceives: receives2, PeerSize: size2}, 1)
	p.b = p.conn(t, s, p.qb, Config{Sends: buffers(sends2, size2), Receives: buffers(receives2, size2), PeerReceives: receives, PeerSize: size}, 2)
	if !s.noControl {
		p.ca, p.cb = net.Pipe()
		p.a.Watch(p.ca)
		p.b.Watch(p.cb)
	}
	t.Cleanup(func() {
		p.a.Abort()
		p.b.Abort()
		<-p.a.Released()
		<-p.b.Released()
		require.Equal(t, int32(2), p.release.Load())
		p.check(t)
		require.Equal(t, []int{1, 1}, []int{p.qa.closed, p.qb.closed})
		require.LessOrEqual(t, p.qa.maxOut, len(p.a.out.bufs)+Reserve)
		require.LessOrEqual(t, p.qb.maxOut, len(p.b.out.bufs)+Reserve)
	})
	return p
}

func (p *pair) conn(t testing.TB, s setup, q *fakeQueue, cfg Config, n byte) *Conn {
	cfg.Local = AddrOf(&net.TCPAddr{IP: net.IPv4(10, 0, 0, n), Port: 7471})
	cfg.Remote = AddrOf(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 3-n), Port: 7471})
	if s.config != nil {
		s.config(&cfg)
	}
	cfg.Release = func() {
		p.release.Add(1)
		for _, b := range append(cfg.Sends, cfg.Receives...) {
			for i := range b.Bytes { // under the race detector this finds late users
				b.Bytes[i] = 0xdb
			}
		}
	}
	c, err := New(q, cfg)
	require.NoError(t, err)
	return c
}

func buffers(n, size int) []Buffer {
	mem := make([]byte, n*size)
	bufs := make([]Buffer, n)
	for i := range bufs {
		bufs[i] = Buffer{Bytes: mem[i*size : (i+1)*size : (i+1)*size]}
	}
	return bufs
}
