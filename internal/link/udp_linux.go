package link

import (
	"net/netip"
	"os"
	"sync/atomic"
)

// udp is a link on UDP port 4791.
type udp struct {
	udpEnd
	fd     int
	file   *os.File // of fd
	gate   gate     // calls that send by fd
	around atomic.Pointer[func(func())]
	out    sender
	in     inlet
	done   chan struct{} // the reader has ended
}

var _ Bursty = (*udp)(nil)

func listenUDP(addr netip.Addr, r Receiver) (*udp, error) {
	at, network, err := bindTo(addr)
	if err != nil {
		return nil, err
	}
	fd, err := openSocket(at, network)
	if err != nil {
		return nil, bindError(err)
	}
	u := &udp{
		udpEnd: newUDPEnd(at.Addr().WithZone(""), r),
		fd:     fd, file: os.NewFile(uintptr(fd), "udp"), gate: newGate(), done: make(chan struct{}),
	}
	raw, err := u.file.SyscallConn()
	if err != nil {
		u.file.Close()
		return nil, err
	}
	u.buffer = readBuffer(fd)
	u.out.segment = true
	u.in.open(u)
	go u.read(raw)
	return u, nil
}

// Around implements Bursty.
func (u *udp) Around(f func(burst func())) { u.around.Store(&f) }

// Close sends what is queued, and leaves.
func (u *udp) Close() (err error) {
	u.Flush()
	first := u.gate.shut()
	u.gate.wait()
	if first {
		err = u.file.Close() // ends the reader
	}
	<-u.done
	return err
}
