package link

import (
	"errors"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farwire/farwire/internal/shm"
)

// Shared is a link that reaches others of its kind, of this user and on this host, through
// shared memory, and everybody else by the wire. It finds them by their addresses, when it
// first sends to one; until then, and where that fails, their packets go by the wire too.
//
// What comes through shared memory waits until somebody calls Poll.
type Shared struct {
	wire    Link
	receive Receiver
	ready   func()
	door    *shm.Listener // nil: nobody can be met
	gate    gate
	count   counters

	ways  atomic.Pointer[map[netip.Addr]*sharedWay]
	peers atomic.Pointer[[]*sharedPeer]

	mu     sync.Mutex // guards changes of ways and peers
	closed bool
	tasks  sync.WaitGroup // goroutines that dial, and that wait for wakes

	unwoken atomic.Bool // some peers were sent something since the last Flush
}

var _ Link = (*Shared)(nil)

// sharedWay is what is known about an address.
type sharedWay struct {
	peer    atomic.Pointer[sharedPeer] // nil: by the wire
	dialing atomic.Bool
	retry   atomic.Int64 // when to dial again, in the nanoseconds of now
}

const (
	// retryAfter is how long an address that was not found is left alone.
	retryAfter = time.Second
	// maxWays bounds the addresses that are remembered, and maxPeers the memory: each peer
	// is a megabyte.
	maxWays  = 4096
	maxPeers = 64
)

var began = time.Now()

// now is the time of the retries.
func now() int64 { return int64(time.Since(began)) }

// Share makes a link over the one that open makes. ready is called when there is something
// for Poll, on a goroutine of the link: it must not block.
// Where no memory can be shared, the link is the wire.
func Share(open func(Receiver) (Link, error), ready func(), r Receiver) (*Shared, error) {
	wire, err := open(r)
	if err != nil {
		return nil, err
	}
	l := &Shared{wire: wire, receive: r, ready: ready, gate: newGate()}
	l.ways.Store(&map[netip.Addr]*sharedWay{})
	l.peers.Store(&[]*sharedPeer{})
	if l.door, err = shm.Listen(wire.Addr(), l.wants, l.add); err != nil {
		l.door = nil
	}
	return l, nil
}

// Addr is the wire's, as is MTU.
func (l *Shared) Addr() netip.Addr   { return l.wire.Addr() }
func (l *Shared) MTU() int           { return l.wire.MTU() }
func (l *Shared) Get(n int) *Packet  { return l.wire.Get(n) }
func (l *Shared) Buffer() int        { return l.wire.Buffer() }
func (l *Shared) Counters() Counters { return l.wire.Counters().add(l.count.snapshot()) }

// Send sends by shared memory if that leads to the packet's destination.
func (l *Shared) Send(p *Packet) {
	w := l.way(p.Dst.Unmap())
	if w == nil {
		l.wire.Send(p)
		return
	}
	peer := w.peer.Load()
	if peer == nil {
		l.find(w, p.Dst.Unmap())
		l.wire.Send(p)
		return
	}
	size := p.size()
	switch {
	case !p.stamp(l.Addr()):
		l.count.drop(p, DropSize)
	case l.gate.closed():
		l.count.drop(p, DropClosed)
	case !peer.send(p):
		l.count.drop(p, DropSend)
	default:
		l.count.countSent(size)
	}
}

// way is what is known about an address, and nil if nothing is to be.
func (l *Shared) way(to netip.Addr) *sharedWay {
	if w := (*l.ways.Load())[to]; w != nil || l.door == nil {
		return w
	}
	if _, err := usable(to); err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wayLocked(to)
}

func (l *Shared) wayLocked(to netip.Addr) *sharedWay {
	ways := *l.ways.Load()
	if w := ways[to]; w != nil || len(ways) >= maxWays {
		return w
	}
	ways = maps.Clone(ways)
	w := new(sharedWay)
	ways[to] = w
	l.ways.Store(&ways)
	return w
}

// Flush wakes those who sleep and were sent something.
func (l *Shared) Flush() {
	l.wire.Flush()
	if !l.unwoken.Load() {
		return
	}
	l.unwoken.Store(false)
	for _, peer := range *l.peers.Load() {
		peer.flush()
	}
}

// Poll gives what has come to a function, or to the receiver if that is nil: a bounded number
// of packets. It returns how many there were. Where another goroutine is at it already it
// leaves that to it. The function has a packet with Head until it returns, and releases it
// before.
func (l *Shared) Poll(take func(*Packet)) (n int) {
	for _, peer := range *l.peers.Load() {
		n += l.pollPeer(peer, take)
	}
	return n
}

func (l *Shared) pollPeer(p *sharedPeer, take func(*Packet)) int {
	if !l.gate.enter() {
		return 0
	}
	defer l.gate.leave()
	return p.poll(take)
}

// find looks for the link with an address on this host, unless it did a moment ago.
func (l *Shared) find(w *sharedWay, to netip.Addr) {
	t := now()
	if t < w.retry.Load() || !w.dialing.CompareAndSwap(false, true) {
		return
	}
	w.retry.Store(t + int64(retryAfter))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(*l.peers.Load()) >= maxPeers {
		w.dialing.Store(false)
		return
	}
	l.tasks.Go(func() {
		c, err := shm.Dial(l.Addr(), to)
		w.dialing.Store(false)
		if err == nil {
			l.add(c, to)
		}
	})
}

// wants says whether a channel from an address is wanted. Of two links that dial each other
// at once the one with the lower address has its way.
func (l *Shared) wants(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := usable(from); err != nil || l.closed || from == l.Addr() || len(*l.peers.Load()) >= maxPeers {
		return false
	}
	w := l.wayLocked(from)
	return w != nil && w.peer.Load() == nil && !(w.dialing.Load() && l.Addr().Less(from))
}

// add takes a channel to the link with an address.
func (l *Shared) add(c *shm.Channel, addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.wayLocked(addr)
	if l.closed || w == nil || w.peer.Load() != nil {
		_ = c.Close()
		return
	}
	peer := &sharedPeer{link: l, addr: addr, way: w, channel: c}
	peers := append([]*sharedPeer{peer}, *l.peers.Load()...)
	l.peers.Store(&peers)
	w.peer.Store(peer)
	l.tasks.Go(peer.wait)
}

// remove forgets a peer that is gone.
func (l *Shared) remove(peer *sharedPeer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	peer.way.peer.CompareAndSwap(peer, nil)
	var peers []*sharedPeer
	for _, p := range *l.peers.Load() {
		if p != peer {
			peers = append(peers, p)
		}
	}
	l.peers.Store(&peers)
}

// Close leaves both networks.
func (l *Shared) Close() error {
	var err error
	if l.door != nil {
		err = l.door.Close()
	}
	l.mu.Lock()
	l.closed = true
	for _, peer := range *l.peers.Load() {
		peer.channel.Shut()
	}
	l.mu.Unlock()
	l.gate.shut()
	l.tasks.Wait()
	l.gate.wait()
	return errors.Join(err, l.wire.Close())
}
