package link

import "net/netip"

// idHistory strengthens the check of an ICRC whose IPv4 identification had to be
// found (see roce.SolveICRC), because one damaged packet in 32768 passes that. It
// remembers which sources send identification 0, as Linux sockets that forbid
// fragments do (or a small one: the place in a batch). When such a source seems
// to have changed, the packet is far more likely to be damaged than not. The
// history then begins anew, so a source that really changed loses one packet.
type idHistory [64]struct {
	src   netip.Addr
	small uint8 // successive packets with small identifications
}

const (
	steadyAfter = 8
	smallID     = 128 // segments of a batch at most (UDP_MAX_SEGMENTS of linux/udp.h)
)

// plausible reports whether to believe a packet with this identification, and
// remembers it.
func (h *idHistory) plausible(src netip.Addr, id uint16) bool {
	b := src.As16()
	e := &h[(b[15]^b[14]<<2^b[13]<<4)%64]
	if e.src != src {
		e.src, e.small = src, 0
	}
	if id < smallID {
		e.small = min(e.small+1, steadyAfter)
		return true
	}
	steady := e.small == steadyAfter
	e.small = 0
	return !steady
}
