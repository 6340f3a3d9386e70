package link

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/shm"
)

// sharedPeer is a link on this host that is reached through shared memory.
type sharedPeer struct {
	link    *Shared
	addr    netip.Addr
	way     *sharedWay
	channel *shm.Channel

	out     sync.Mutex  // held to use channel.Out and waiting
	waiting []*Packet   // for room, in order
	held    atomic.Bool // there are some
	unwoken atomic.Bool // it was sent something since the last flush

	in sync.Mutex // held to use channel.In, but for what words is for

	words sync.Mutex // held for a look at channel.In, or a word to the writer; a leaf
	shut  bool       // the channel is not to be used any more; set with all three held
}

// maxWaiting bounds the packets that wait for room in the ring of a peer that is slow, or
// stopped. More are lost.
const maxWaiting = 1 << 12

// The tag that a packet has in a ring: its traffic class, and two bits.
const (
	tagSealed = 1 << (8 + iota)
	tagGlobal
)

func tagOf(p *Packet) uint16 {
	tag := uint16(p.TClass)
	if p.sealed {
		tag |= tagSealed
	}
	if p.Global {
		tag |= tagGlobal
	}
	return tag
}

// send takes a packet, or reports that it cannot.
func (p *sharedPeer) send(pkt *Packet) bool {
	p.out.Lock()
	defer p.out.Unlock()
	if p.shut || len(p.waiting) >= maxWaiting {
		return false
	}
	if len(p.waiting) > 0 || !p.put(pkt) {
		p.waiting = append(p.waiting, pkt)
		p.held.Store(true)
	} else {
		pkt.Release()
	}
	p.sent()
	return true
}

// sent has the next Flush wake the peer.
func (p *sharedPeer) sent() {
	if !p.unwoken.Load() {
		p.unwoken.Store(true)
		p.link.unwoken.Store(true)
	}
}

// put copies a packet into the ring, if there is room.
func (p *sharedPeer) put(pkt *Packet) bool {
	room := p.channel.Out.Room()
	if room == nil {
		return false
	}
	p.channel.Out.Put(tagOf(pkt), copy(room, pkt.Buf))
	return true
}

// flush wakes the peer if it sleeps.
func (p *sharedPeer) flush() {
	if !p.unwoken.Load() {
		return
	}
	p.unwoken.Store(false)
	p.out.Lock()
	defer p.out.Unlock()
	if !p.shut {
		p.publish()
	}
}

func (p *sharedPeer) publish() {
	p.channel.Out.Publish()
	if p.channel.Out.WakeDue() {
		p.channel.Wake()
	}
}

// push sends what waits, as far as there is room now.
func (p *sharedPeer) push() {
	if !p.held.Load() {
		return
	}
	p.out.Lock()
	defer p.out.Unlock()
	if p.shut {
		return
	}
	n := 0
	for n < len(p.waiting) && p.put(p.waiting[n]) {
		p.waiting[n].Release()
		n++
	}
	rest := copy(p.waiting, p.waiting[n:])
	clear(p.waiting[rest:])
	p.waiting = p.waiting[:rest]
	p.held.Store(rest > 0)
	if n > 0 {
		p.publish()
	}
}

// peek reports whether the peer has sent something.
func (p *sharedPeer) peek() bool {
	p.words.Lock()
	defer p.words.Unlock()
	return !p.shut && p.channel.In.Ready()
}

// sleep has the peer send a wake with its next packet.
func (p *sharedPeer) sleep() {
	p.words.Lock()
	defer p.words.Unlock()
	if !p.shut {
		p.channel.In.Sleep()
	}
}

// pollPackets is how many packets one poll of a peer takes.
const pollPackets = 32

// poll gives what the peer has sent to a receiver.
func (p *sharedPeer) poll(r func(*Packet)) (n int) {
	p.push()
	if !p.in.TryLock() {
		return 0
	}
	defer p.in.Unlock()
	if p.shut {
		return 0
	}
	in := &p.channel.In
	for ; n < pollPackets && p.arrive(in, r); n++ {
	}
	if n > 0 && in.WakeDue() {
		p.channel.Wake()
	}
	return n
}

// arrive takes one packet out of the ring, if there is one.
func (p *sharedPeer) arrive(in *shm.Reader, r func(*Packet)) bool {
	b, tag, ok := in.Next()
	if !ok {
		return false
	}
	l, pkt := p.link, Get(0)
	pkt.Src, pkt.Dst, pkt.SrcPort = p.addr, l.Addr(), roce.Port
	pkt.TClass, pkt.sealed, pkt.Global = uint8(tag), tag&tagSealed != 0, tag&tagGlobal != 0
	pkt.Buf = b
	switch size := pkt.size(); {
	case size < minSize || size > MaxSize || size%4 != 0:
		l.count.drop(pkt, DropSize)
	case !pkt.secure(r == nil):
		l.count.drop(pkt, DropICRC)
	default:
		l.count.countReceived(size)
		if r == nil {
			r = l.receive
		}
		r(pkt)
	}
	in.Done()
	return true
}

// secure copies what must not change any more out of shared memory: the headers, or all. It
// checks an ICRC, if there is one.
func (p *Packet) secure(all bool) bool {
	if all || p.sealed {
		p.Buf = p.store[:copy(p.store[:], p.Buf)]
		return p.unseal()
	}
	p.Head = p.store[:copy(p.store[:roce.MaxHeaders], p.Buf)]
	return true
}

// attend has what the peer has sent taken in, and then the peer send a wake with its next packet.
// Of what is still there then, or comes meanwhile, the link's owner has been told.
func (p *sharedPeer) attend() {
	p.link.ready()
	p.sleep()
	if p.peek() {
		p.link.ready()
	}
}

// wait hears the peer's wakes, and removes the peer when it is gone.
func (p *sharedPeer) wait() {
	p.attend() // something may have come with the channel
	for p.channel.Wait() == nil {
		p.attend()
	}
	p.link.remove(p)
	p.link.ready()
	for range shm.Slots / pollPackets {
		p.link.pollPeer(p, nil) // what it has sent before
	}
	p.close()
}

func (p *sharedPeer) close() {
	p.in.Lock()
	defer p.in.Unlock()
	p.out.Lock()
	defer p.out.Unlock()
	p.words.Lock()
	defer p.words.Unlock()
	p.shut = true
	for _, pkt := range p.waiting {
		p.link.count.drop(pkt, DropClosed)
	}
	p.waiting = nil
	_ = p.channel.Close()
}
