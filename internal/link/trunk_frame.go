package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/farwire/farwire/internal/roce"
)

// A trunk carries frames: a kind, a zero, and how many bytes follow, big endian.
// The near end is the one with the links, the far end the one with the switch.
const (
	frameHello  = 1 + iota // first, both ways: trunkVersion and the label
	frameJoin              // a question to the far end: the address of a new link
	frameHas               // a question to the far end: an address that somebody may have
	frameAnswer            // to the near end, for each question: one of the answers below
	frameLeave             // to the far end: an address that is given up
	framePacket            // both ways: packetHead and the packet's Buf
)

// trunkVersion starts a hello.
const trunkVersion = "farwire trunk 1 "

// Answers. An address that somebody has is in use.
const (
	answerDone = iota // joined, or nobody has the address
	answerInUse
	answerBadAddr
	answerTooMany
)

// Sizes of frames: of their heads, of an address, and of what a packet has before its
// Buf, which is its source, its destination, its traffic class, and flags.
const (
	frameHead  = 4
	addrSize   = 16
	packetHead = 2*addrSize + 2
	maxLabel   = 64
	maxFrame   = packetHead + MaxSize + roce.ICRCSize
)

// Flags of a packet.
const (
	flagGlobal = 1 << iota
	flagSealed
)

// ErrTrunk is returned for what is no frame of a trunk, or not one in its place.
var ErrTrunk = errors.New("not a trunk")

// appendFrame appends the head of a frame, whose body the caller appends.
func appendFrame(b []byte, kind uint8, size int) []byte {
	return binary.BigEndian.AppendUint16(append(b, kind, 0), uint16(size))
}

func appendAddr(b []byte, addr netip.Addr) []byte {
	a := addr.As16()
	return append(b, a[:]...)
}

// addrFrame is a frame with an address.
func addrFrame(kind uint8, addr netip.Addr) []byte {
	return appendAddr(appendFrame(nil, kind, addrSize), addr)
}

func appendPacket(b []byte, p *Packet) []byte {
	var flags uint8
	if p.Global {
		flags |= flagGlobal
	}
	if p.sealed {
		flags |= flagSealed
	}
	b = appendFrame(b, framePacket, packetHead+len(p.Buf))
	b = append(appendAddr(appendAddr(b, p.Src), p.Dst), p.TClass, flags)
	return append(b, p.Buf...)
}

// readFrame returns the next frame's kind and body, which lasts until the next read,
// or io.EOF where there is none. The reader's buffer holds a whole frame.
func readFrame(r *bufio.Reader) (kind uint8, body []byte, err error) {
	head, err := r.Peek(frameHead)
	if len(head) > 0 {
		err = noEOF(err)
	}
	if err != nil {
		return 0, nil, err
	}
	kind, size := head[0], int(binary.BigEndian.Uint16(head[2:]))
	if head[1] != 0 || size > maxFrame {
		return 0, nil, fmt.Errorf("frame %x: %w", head, ErrTrunk)
	}
	frame, err := r.Peek(frameHead + size)
	if err != nil {
		return 0, nil, noEOF(err)
	}
	_, _ = r.Discard(len(frame)) // they are in the buffer
	return kind, frame[frameHead:], nil
}

// parseAddr reads an address.
func parseAddr(b []byte) (netip.Addr, error) {
	if len(b) != addrSize {
		return netip.Addr{}, fmt.Errorf("address of %d bytes: %w", len(b), ErrTrunk)
	}
	return netip.AddrFrom16([addrSize]byte(b)).Unmap(), nil
}

// parsePacket returns the packet of a frame.
func parsePacket(b []byte) (*Packet, error) {
	if len(b) < packetHead || len(b) > maxFrame {
		return nil, fmt.Errorf("packet of %d bytes: %w", len(b), ErrTrunk)
	}
	p := Get(0)
	p.Src = netip.AddrFrom16([addrSize]byte(b)).Unmap()
	p.Dst = netip.AddrFrom16([addrSize]byte(b[addrSize:])).Unmap()
	p.TClass, p.Global, p.sealed = b[2*addrSize], b[2*addrSize+1]&flagGlobal != 0, b[2*addrSize+1]&flagSealed != 0
	p.Buf = p.store[:copy(p.store[:], b[packetHead:])]
	if !p.stamp(p.Src) {
		size := p.size()
		p.Release()
		return nil, fmt.Errorf("packet with %d bytes: %w", size, ErrTrunk)
	}
	return p, nil
}
