//go:build !linux

package link

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/farwire/farwire/internal/roce"
)

// plainUDP is a link on UDP port 4791 for any system: one call for each packet. Its socket
// may fragment, sends an unknown IPv4 identification, and neither sets nor shows the
// traffic class.
type plainUDP struct {
	udpEnd
	conn *net.UDPConn
	done chan struct{}
}

var _ Link = (*plainUDP)(nil)

func listenUDP(addr netip.Addr, r Receiver) (*plainUDP, error) {
	at, network, err := bindTo(addr)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, bindError(err)
	}
	u := &plainUDP{udpEnd: newUDPEnd(at.Addr().WithZone(""), r), conn: conn, done: make(chan struct{})}
	_ = u.conn.SetReadBuffer(socketBuffer)
	_ = u.conn.SetWriteBuffer(socketBuffer)
	go u.read()
	return u, nil
}

func (u *plainUDP) Flush() {}

func (u *plainUDP) Send(p *Packet) {
	if !u.admit(p) {
		return
	}
	p.seal()
	_, err := u.conn.WriteToUDPAddrPort(p.Buf, netip.AddrPortFrom(p.Dst, roce.Port))
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
func (u *plainUDP) read() {
	defer close(u.done)
	for failures := 0; ; {
		p := Get(0)
		n, from, err := u.conn.ReadFromUDPAddrPort(p.store[:])
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
		u.arrive(p, p.store[:n])
	}
}

func (u *plainUDP) Close() error {
	err := u.conn.Close()
	<-u.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
