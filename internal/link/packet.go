package link

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/farwire/farwire/internal/roce"
)

// Packet is a packet on its way. It has one owner at a time: who got it from Get
// or as a Receiver owns it, until it is given away with Send or Release. Packets
// are pooled; a former owner must not touch one.
type Packet struct {
	// Src and Dst are unicast addresses of one family, IPv4 never mapped into
	// IPv6. A sender sets Dst; the link sets Src.
	Src, Dst netip.Addr
	// SrcPort is the UDP source port: of a received packet as it was on the wire,
	// of a sent one a wish (0 means roce.Port) that UDP links ignore.
	SrcPort uint16
	// TClass is the IPv4 type of service or IPv6 traffic class: DSCP<<2 | ECN.
	TClass uint8
	// Buf is the packet from its base transport header to its pad.
	Buf []byte

	sealed bool // Buf ends with an ICRC, to be checked by whoever delivers it
	pooled bool
	store  [roce.MaxPacket + roce.ICRCSize]byte
}

// MaxSize is the largest Buf.
const MaxSize = roce.MaxPacket

var pool = sync.Pool{New: func() any { return new(Packet) }}

// Get returns a packet whose Buf has n bytes, 0 to MaxSize, of any value; the
// other fields are zero.
func Get(n int) *Packet {
	p := pool.Get().(*Packet)
	p.Src, p.Dst, p.SrcPort, p.TClass = netip.Addr{}, netip.Addr{}, 0, 0
	p.sealed, p.pooled = false, false
	p.Buf = p.store[:n:MaxSize]
	return p
}

// Release ends the life of a packet that its owner has no more use for. It panics
// when the packet was released before.
func (p *Packet) Release() {
	if p.pooled {
		panic("link: packet released twice")
	}
	p.pooled, p.Buf = true, nil
	pool.Put(p)
}

// clone returns a copy, sealed if p is.
func (p *Packet) clone() *Packet {
	c := Get(0)
	c.Src, c.Dst, c.SrcPort, c.TClass, c.sealed = p.Src, p.Dst, p.SrcPort, p.TClass, p.sealed
	c.Buf = c.store[:copy(c.store[:], p.Buf)]
	return c
}

// path is what an ICRC of a packet of ours covers: identification 0, don't
// fragment, as UDP links send.
func (p *Packet) path() roce.Path {
	port := p.SrcPort
	if port == 0 {
		port = roce.Port
	}
	return roce.Path{Src: p.Src, Dst: p.Dst, SrcPort: port, DstPort: roce.Port}
}

// seal appends the ICRC.
func (p *Packet) seal() {
	if p.sealed {
		return
	}
	n := len(p.Buf)
	if n > 0 && &p.Buf[0] == &p.store[0] {
		p.Buf = p.store[:n]
	}
	path := p.path()
	p.Buf = roce.AppendICRC(&path, p.Buf)
	p.sealed = true
}

// unseal checks the ICRC and takes it off; false means the packet is damaged.
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

// icrc returns the sealed packet's ICRC bytes.
func (p *Packet) icrc() uint32 {
	return binary.LittleEndian.Uint32(p.Buf[len(p.Buf)-roce.ICRCSize:])
}
