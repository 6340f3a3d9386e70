package link

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/roce"
)

// Packets of one size that go to one address one after the other leave as one message,
// which the kernel or the NIC cuts into datagrams (UDP_SEGMENT, udp(7)): all as long as
// the first, but the last, which may be shorter. Over IPv4 the datagrams have the
// identifications 0, 1, 2, ..., which their ICRCs must agree with.

const (
	sendQueue   = 60     // packets that wait for Flush: four full messages of MTU 4096
	maxSegments = 64     // UDP_MAX_SEGMENTS, linux/udp.h; since Linux 6.9 it is 128
	maxMessage  = 65_000 // bytes of one, a little less than fit in an IP packet
)

// sender holds the packets that Send has queued, and what it takes to send them at once.
type sender struct {
	mu      sync.Mutex
	segment bool // until it is refused
	n       int
	queue   [sendQueue]*Packet
	iov     [sendQueue]unix.Iovec // of the packets
	at      [sendQueue + 1]int    // where the packets of each message begin
	message [sendQueue]unix.Mmsghdr
	to      [sendQueue]rawAddress
	oob     [sendQueue]sendControl
}

func (u *udp) Send(p *Packet) {
	if !u.admit(p) {
		return
	}
	s := &u.out
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue[s.n] = p
	if s.n++; s.n == sendQueue {
		u.flush()
	}
}

func (u *udp) Flush() {
	s := &u.out
	s.mu.Lock()
	defer s.mu.Unlock()
	u.flush()
}

func (u *udp) flush() {
	s := &u.out
	if s.n == 0 {
		return
	}
	if u.gate.enter() {
		u.sendAll(s.arrange())
		u.gate.leave()
	} else {
		u.drop(0, s.n, DropClosed)
	}
	clear(s.queue[:s.n])
	s.n = 0
}

// arrange makes messages of all packets, and returns how many.
func (s *sender) arrange() (messages int) {
	for from := 0; from < s.n; messages++ {
		to := s.together(from)
		s.fill(messages, from, to)
		from = to
	}
	return messages
}

// together returns the end of the message that begins with a packet.
func (s *sender) together(from int) (to int) {
	first := s.queue[from]
	size, room := first.size(), maxMessage-first.size()-roce.ICRCSize
	for to = from + 1; s.segment && to < s.n && to-from < maxSegments; to++ {
		p := s.queue[to]
		room -= p.size() + roce.ICRCSize
		// A sealed packet has the identification 0, which is the first one's.
		if p.Dst != first.Dst || p.TClass != first.TClass || p.sealed || p.size() > size || room < 0 {
			break
		}
		if p.size() < size {
			return to + 1
		}
	}
	return to
}

// fill makes message i of some packets.
func (s *sender) fill(i, from, to int) {
	for k := from; k < to; k++ {
		p := s.queue[k]
		if !p.sealed {
			p.id = uint16(k - from)
			p.seal()
		}
		s.iov[k].Base = &p.Buf[0]
		s.iov[k].SetLen(len(p.Buf))
	}
	first := s.queue[from]
	s.at[i], s.at[i+1] = from, to
	oob := s.oob[i].space[:0]
	if first.TClass != usualTClass {
		oob = appendTClass(oob, first)
	}
	if to-from > 1 {
		oob = appendControl16(oob, unix.IPPROTO_UDP, unix.UDP_SEGMENT, uint16(len(first.Buf)))
	}
	h := &s.message[i].Hdr
	*h = unix.Msghdr{Name: &s.to[i][0], Namelen: s.to[i].put(first.Dst, roce.Port), Iov: &s.iov[from]}
	h.SetIovlen(to - from)
	if len(oob) > 0 {
		h.Control = &oob[0]
		h.SetControllen(len(oob))
	}
}

// sendAll sends messages. One that is refused is sent packet by packet, if it has many,
// else dropped.
func (u *udp) sendAll(messages int) {
	s := &u.out
	for i := 0; i < messages; {
		n, err := u.sendSome(s.message[i:messages])
		for ; n > 0; n-- {
			u.sent(s.at[i], s.at[i+1])
			i++
		}
		if err == 0 {
			continue
		}
		from, to := s.at[i], s.at[i+1]
		if to-from > 1 && (err == unix.EIO || err == unix.EINVAL || err == unix.EMSGSIZE || err == unix.EOPNOTSUPP) {
			s.segment = s.segment && err == unix.EMSGSIZE // else no such message will pass
			u.sendSingly(from, to)
		} else {
			u.drop(from, to, DropSend)
		}
		i++
	}
}

// sendSome sends the first of some messages, waiting for room; if that is refused, it
// returns why.
func (u *udp) sendSome(messages []unix.Mmsghdr) (n int, err unix.Errno) {
	for range sendTries {
		r, _, err := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(u.fd), uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), 0, 0, 0)
		switch err {
		case 0:
			return int(r), 0
		case unix.EINTR:
		case unix.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(u.fd), Events: unix.POLLOUT}}, sendWait)
		default:
			return 0, err
		}
	}
	return 0, unix.EAGAIN
}

// A sender waits for room as often, and for so many milliseconds, at most.
const (
	sendTries = 8
	sendWait  = 5
)

// sendSingly sends packets as what they are, from the last message on, which it uses.
func (u *udp) sendSingly(from, to int) {
	s := &u.out
	const spare = sendQueue - 1 // a message of many leaves the last one unused
	keep := s.at[spare]
	for k := from; k < to; k++ {
		s.queue[k].trim()
		end := s.at[spare+1]
		s.fill(spare, k, k+1)
		if n, _ := u.sendSome(s.message[spare : spare+1]); n == 1 {
			u.sent(k, k+1)
		} else {
			u.drop(k, k+1, DropSend)
		}
		s.at[spare], s.at[spare+1] = keep, end
	}
}

func (u *udp) sent(from, to int) {
	for _, p := range u.out.queue[from:to] {
		u.count.countSent(p.size())
		p.Release()
	}
}

func (u *udp) drop(from, to int, why Drop) {
	for _, p := range u.out.queue[from:to] {
		u.count.drop(p, why)
	}
}
