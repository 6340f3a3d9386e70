package link

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// socketBuffer is the wished size of a socket's buffers: a few thousand packets,
// because what does not fit while the receiver is busy is lost.
const socketBuffer = 8 << 20

// UDP puts a link on a local address, an interface's or any of 127/8: a RoCE v2
// end on UDP port 4791, which other Farwire processes, rdma_rxe and NICs can talk
// to. One goroutine reads and calls the receiver. Sending calls the operating system
// and may wait for room in the send queue of the local interface.
//
// On Linux Send only queues, and the kernel is given and gives many packets in one
// call; the link is then a Bursty one. Elsewhere each packet is one call.
//
// It computes the ICRC of what it sends, for the IPv4 identification that Linux
// gives to an unconnected socket that forbids fragments: 0, or the place in a batch. Other
// systems may send another one, and only ends that cannot see it, such as this, accept such
// packets. It checks the ICRC of what it receives, over IPv4 with roce.SolveICRC.
//
// ErrAddrInUse means that port 4791 of the address belongs to another RoCE stack;
// rdma_rxe takes it on all addresses of its network namespace.
func UDP(addr netip.Addr, r Receiver) (Link, error) {
	u, err := listenUDP(addr, r)
	if err != nil {
		return nil, fmt.Errorf("udp link on %v: %w", addr, err)
	}
	return u, nil
}

// Held is what a packet of n bytes occupies of a socket's buffer, at least in Linux on
// loopback: a power of two with room for the headers of networks and for what the kernel
// keeps behind each packet, and the kernel's note of it (__ip_append_data and struct sk_buff:
// 50 packets of 4112 bytes were held by 425,984 bytes, 184 of 1040). Packets that came
// together take less.
func Held(n int) int {
	const headers, behind, note = 64, 320, 256
	size := 1
	for size < n+headers+behind {
		size *= 2
	}
	return size + note
}

// Bursty is a link that gives its receiver many packets at once.
type Bursty interface {
	Link
	// Around has f called with each burst of calls of the receiver, which f must carry
	// out, from now on.
	Around(f func(burst func()))
}

// udpEnd is what links on UDP have in common.
type udpEnd struct {
	addr    netip.Addr
	mtu     int
	buffer  int
	receive Receiver
	ids     idHistory // owned by who receives
	count   counters
}

func newUDPEnd(addr netip.Addr, r Receiver) udpEnd {
	return udpEnd{addr: addr, mtu: interfaceMTU(addr), receive: r}
}

func (u *udpEnd) Addr() netip.Addr   { return u.addr }
func (u *udpEnd) MTU() int           { return u.mtu }
func (u *udpEnd) Get(n int) *Packet  { return Get(n) }
func (u *udpEnd) Buffer() int        { return u.buffer }
func (u *udpEnd) Counters() Counters { return u.count.snapshot() }

// admit makes p a packet that can be sent, or drops it.
func (u *udpEnd) admit(p *Packet) bool {
	if !p.stamp(u.addr) {
		u.count.drop(p, DropSize)
		return false
	}
	dst, err := usable(p.Dst)
	if err != nil || dst.Is4() != u.addr.Is4() {
		u.count.drop(p, DropUnknown)
		return false
	}
	p.Dst = dst
	return true
}

// arrive checks a datagram, which b is all of, and passes it on as p. It tries the
// identification in p.id first.
func (u *udpEnd) arrive(p *Packet, b []byte) {
	n := len(b)
	if n < minSize+roce.ICRCSize || n > MaxSize+roce.ICRCSize || n%4 != 0 {
		u.count.drop(p, DropSize)
		return
	}
	p.Dst, p.Buf = u.addr, b
	path := p.path()
	if !roce.SolveICRC(&path, p.Buf) || !u.ids.plausible(p.Src, path.ID) {
		u.count.drop(p, DropICRC)
		return
	}
	p.id, p.mayFragment = path.ID, path.MayFragment
	p.trim()
	u.count.countReceived(len(p.Buf))
	u.receive(p)
}

// bindTo is where the socket of an address is bound, in which network.
func bindTo(addr netip.Addr) (at netip.AddrPort, network string, err error) {
	zone := addr.Unmap().Zone()
	if addr, err = usable(addr); err != nil {
		return at, "", err
	}
	network = "udp6"
	if addr.Is4() {
		network = "udp4"
	}
	return netip.AddrPortFrom(addr.WithZone(zone), roce.Port), network, nil
}

// bindError is what binding failed with.
func bindError(err error) error {
	if isAddrInUse(err) {
		return fmt.Errorf("port %d of this address belongs to another RoCE stack, such as rdma_rxe or another process: %w (%w)", roce.Port, ErrAddrInUse, err)
	}
	return err
}

// backoff keeps a socket that only reports errors from taking a processor.
func backoff(failures int) time.Duration {
	const free, limit = 16, 20 * time.Millisecond
	return min(limit, time.Duration(max(0, failures-free))*time.Millisecond)
}
