package link

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/farwire/farwire/internal/roce"
)

// MaxSize is the largest Buf of a packet, and minSize the smallest.
const (
	MaxSize = roce.MaxPacket
	minSize = roce.BTHSize
)

// Packet is a packet on its way. It has one owner at a time: who got it from Get
// or as a Receiver owns it, until it is given away with Send or Release. Packets
// are pooled; a former owner must not touch one.
type Packet struct {
	// Src and Dst are unicast addresses of one family, IPv4 never mapped into
	// IPv6. A sender sets Dst; the link sets Src.
	Src, Dst netip.Addr
	// SrcPort is the UDP source port; the link sets it.
	SrcPort uint16
	// TClass is the IPv4 type of service or IPv6 traffic class, DSCP<<2 | ECN. It
	// is a wish: a system that cannot set or tell it sends and shows 0.
	TClass uint8
	// Global says that an InfiniBand packet has a global route header. UDP, whose
	// packets all have the like, does not carry it.
	Global bool
	// Buf is the packet from its base transport header to its pad, a multiple of 4
	// bytes. A sender may shorten it, and lengthen it up to MaxSize.
	Buf []byte
	// Head is nil, or Buf is in memory that others may change at any time, and this a copy of
	// its first bytes, as many as roce.ParseApart wants.
	Head []byte

	// Of a received packet, as it was over UDP on IPv4; else what our links send.
	id          uint16 // identification
	mayFragment bool

	sealed bool // Buf ends with an ICRC, to be checked by whoever delivers it
	pooled bool
	block  *block // that Buf is in, if it is not in store
	store  [storeSize]byte
}

// storeSize leaves room for the ICRC, and more so that a datagram that is too
// long is seen to be.
const storeSize = MaxSize + roce.ICRCSize + 4

var pool = sync.Pool{New: func() any { return new(Packet) }}

// Get returns a packet whose Buf has n bytes, 0 to MaxSize, of any value; the
// other fields are zero.
func Get(n int) *Packet {
	p := pool.Get().(*Packet)
	p.Src, p.Dst, p.SrcPort, p.TClass, p.Global = netip.Addr{}, netip.Addr{}, 0, 0, false
	p.id, p.mayFragment, p.sealed, p.pooled = 0, false, false, false
	p.Buf, p.Head = p.store[:n], nil
	return p
}

// Release ends the life of a packet that its owner has no more use for. It panics
// when the packet was released before.
func (p *Packet) Release() {
	if p.pooled {
		panic("link: packet released twice")
	}
	p.pooled, p.Buf = true, nil
	if p.block != nil {
		p.block.release()
		p.block = nil
	}
	pool.Put(p)
}

// Headers is where the packet's headers are to be read.
func (p *Packet) Headers() []byte {
	if p.Head != nil {
		return p.Head
	}
	return p.Buf
}

// block is memory that several packets are in, as they arrived together.
type block struct {
	users atomic.Int32
	bytes [blockSize]byte
}

// blockSize is the most that one call receives as one datagram.
const blockSize = 1 << 16

var blocks = sync.Pool{New: func() any { return new(block) }}

func getBlock() *block {
	b := blocks.Get().(*block)
	b.users.Store(1)
	return b
}

// release ends one use of the block.
func (b *block) release() {
	if b.users.Add(-1) == 0 {
		blocks.Put(b)
	}
}

// stamp makes p a packet from this address, and reports whether its size is one
// that may be sent.
func (p *Packet) stamp(src netip.Addr) bool {
	p.Src, p.SrcPort, p.Dst = src, roce.Port, p.Dst.Unmap()
	return minSize <= p.size() && p.size() <= MaxSize && p.size()%4 == 0
}

// size is the length of Buf without an ICRC.
func (p *Packet) size() int {
	if p.sealed {
		return len(p.Buf) - roce.ICRCSize
	}
	return len(p.Buf)
}

// clone returns a copy, sealed if p is.
func (p *Packet) clone() *Packet {
	c := Get(0)
	c.Src, c.Dst, c.SrcPort, c.TClass, c.Global = p.Src, p.Dst, p.SrcPort, p.TClass, p.Global
	c.id, c.mayFragment, c.sealed = p.id, p.mayFragment, p.sealed
	c.Buf = c.store[:copy(c.store[:], p.Buf)]
	return c
}

// path is what the ICRC covers of a packet. That of one that a link of ours sent has
// identification 0 and don't fragment.
func (p *Packet) path() roce.Path {
	return roce.Path{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, DstPort: roce.Port, ID: p.id, MayFragment: p.mayFragment}
}

// seal appends the ICRC of a stamped packet.
func (p *Packet) seal() {
	if p.sealed {
		return
	}
	path := p.path()
	p.Buf = roce.AppendICRC(&path, p.Buf)
	p.sealed = true
}

// unseal checks an ICRC, if there is one, and takes it off; false means the
// packet is damaged.
func (p *Packet) unseal() bool {
	if !p.sealed {
		return true
	}
	path := p.path()
	if !roce.CheckICRC(&path, p.Buf) {
		return false
	}
	p.trim()
	return true
}

// trim takes the ICRC off.
func (p *Packet) trim() {
	p.Buf = p.Buf[:len(p.Buf)-roce.ICRCSize]
	p.sealed = false
}
