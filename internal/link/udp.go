package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// socketBuffer is the wished size of a socket's buffers: a few thousand packets,
// because what does not fit while the receiver is busy is lost.
const socketBuffer = 8 << 20

// UDP puts a link on a local address, an interface's or any of 127/8: a RoCE v2
// end on UDP port 4791, which other Farwire processes, rdma_rxe and NICs can talk
// to. One goroutine reads and calls the receiver. Send calls the operating system
// and may wait for room in the send queue of the local interface.
//
// It computes the ICRC of what it sends, for the IPv4 identification 0 that Linux
// gives to an unconnected socket that forbids fragments; other systems may send
// another one, and only ends that cannot see it, such as this, accept such packets.
// It checks the ICRC of what it receives, over IPv4 with roce.SolveICRC.
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

// udp is a link on UDP port 4791.
type udp struct {
	addr    netip.Addr
	mtu     int
	conn    *net.UDPConn
	receive Receiver
	ids     idHistory // owned by the reader
	done    chan struct{}
	count   counters
}

var _ Link = (*udp)(nil)

func listenUDP(addr netip.Addr, r Receiver) (*udp, error) {
	zone := addr.Unmap().Zone()
	addr, err := usable(addr)
	if err != nil {
		return nil, err
	}
	network := "udp6"
	if addr.Is4() {
		network = "udp4"
	}
	config := net.ListenConfig{Control: prepareSocket}
	at := netip.AddrPortFrom(addr.WithZone(zone), roce.Port)
	conn, err := config.ListenPacket(context.Background(), network, at.String())
	if isAddrInUse(err) {
		return nil, fmt.Errorf("port %d of this address belongs to another RoCE stack, such as rdma_rxe or another process: %w (%w)", roce.Port, ErrAddrInUse, err)
	}
	if err != nil {
		return nil, err
	}
	u := &udp{
		addr: addr, mtu: interfaceMTU(addr),
		conn: conn.(*net.UDPConn), receive: r, done: make(chan struct{}),
	}
	growBuffers(u.conn)
	go u.read()
	return u, nil
}

func (u *udp) Addr() netip.Addr   { return u.addr }
func (u *udp) MTU() int           { return u.mtu }
func (u *udp) Get(n int) *Packet  { return Get(n) }
func (u *udp) Flush()             {}
func (u *udp) Counters() Counters { return u.count.snapshot() }

func (u *udp) Send(p *Packet) {
	if !p.stamp(u.addr) {
		u.count.drop(p, DropSize)
		return
	}
	dst, err := usable(p.Dst)
	if err != nil || dst.Is4() != u.addr.Is4() {
		u.count.drop(p, DropUnknown)
		return
	}
	p.seal()
	_, _, err = u.conn.WriteMsgUDPAddrPort(p.Buf, putTClass(p), netip.AddrPortFrom(dst, roce.Port))
	switch {
	case errors.Is(err, net.ErrClosed):
		u.count.drop(p, DropClosed)
	case err != nil:
		u.count.drop(p, DropSend)
	default:
		u.count.countSent(p.size())
		p.Release()
	}
}

// read receives until the socket is closed.
func (u *udp) read() {
	defer close(u.done)
	for failures := 0; ; {
		p := Get(0)
		n, control, _, from, err := u.conn.ReadMsgUDPAddrPort(p.store[:], p.oob[:])
		if errors.Is(err, net.ErrClosed) {
			p.Release()
			return
		}
		if err != nil {
			// Some systems report here that an earlier packet met a closed port.
			u.count.drop(p, DropReceive)
			failures++
			time.Sleep(backoff(failures))
			continue
		}
		failures = 0
		p.Src, p.SrcPort = from.Addr().Unmap().WithZone(""), from.Port()
		p.TClass = getTClass(p.oob[:control])
		u.arrive(p, n)
	}
}

// backoff keeps a socket that only reports errors from taking a processor.
func backoff(failures int) time.Duration {
	const free, limit = 16, 20 * time.Millisecond
	return min(limit, time.Duration(max(0, failures-free))*time.Millisecond)
}

// arrive checks a datagram of n bytes, which is in the packet's store, and passes
// it on.
func (u *udp) arrive(p *Packet, n int) {
	if n < minSize+roce.ICRCSize || n > MaxSize+roce.ICRCSize || n%4 != 0 {
		u.count.drop(p, DropSize)
		return
	}
	p.Dst, p.Buf = u.addr, p.store[:n]
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

func (u *udp) Close() error {
	err := u.conn.Close()
	<-u.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
