package link

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Control messages, as in struct cmsghdr: a length of type size_t, a level, a type, and
// data; the next begins at a multiple of the length's size.

// sendControl has room for the traffic class and the size of segments.
type sendControl struct{ space [64]byte }

// appendControl appends the head of a control message with n bytes of data, and room
// for these, which are returned too.
func appendControl(b []byte, level, kind, n int) (all, data []byte) {
	at := len(b)
	b = b[:at+unix.CmsgSpace(n)]
	m, native := b[at:], binary.NativeEndian
	clear(m)
	length := uint64(unix.CmsgLen(n))
	if unix.SizeofLong == 8 {
		native.PutUint64(m, length)
	} else {
		native.PutUint32(m, uint32(length))
	}
	native.PutUint32(m[unix.SizeofLong:], uint32(level))
	native.PutUint32(m[unix.SizeofLong+4:], uint32(kind))
	return b, m[unix.CmsgLen(0):]
}

func appendControl16(b []byte, level, kind int, v uint16) []byte {
	b, data := appendControl(b, level, kind, 2)
	binary.NativeEndian.PutUint16(data, v)
	return b
}

// appendTClass appends the message that sends p with its traffic class.
func appendTClass(b []byte, p *Packet) []byte {
	level, kind := unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	if p.Dst.Is4() {
		level, kind = unix.IPPROTO_IP, unix.IP_TOS
	}
	b, data := appendControl(b, level, kind, 4)
	binary.NativeEndian.PutUint32(data, uint32(p.TClass))
	return b
}

// received is what control messages say of what arrived.
type received struct {
	class   uint8
	segment int // bytes of each datagram but the last, 0 if there is one
}

func parseControl(oob []byte) (r received) {
	for len(oob) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return r
		}
		switch {
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_TOS && len(data) >= 1:
			r.class = data[0] // one byte, though it is sent as an int
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_TCLASS && len(data) >= 4:
			r.class = uint8(binary.NativeEndian.Uint32(data))
		case header.Level == unix.IPPROTO_UDP && header.Type == unix.UDP_GRO && len(data) >= 4:
			r.segment = int(binary.NativeEndian.Uint32(data))
		}
		oob = rest
	}
	return r
}

// networkOrder is a port number as it is in a socket address, or back.
func networkOrder(port uint16) uint16 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return bits.ReverseBytes16(port)
	}
	return port
}
