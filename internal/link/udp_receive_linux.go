package link

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What arrives of one sender in datagrams of one size the kernel may give as one
// (UDP_GRO, udp(7)): all as long as the first, but the last.

const (
	maxReceive = 8 // messages of one call
	minReceive = 2 // at least: one that is left unused says that there are no more

	// Packets of so many bytes, together, are copied out of the block they are in, which
	// is used again at once. Blocks are large, and packets may be kept.
	copied = 8 << 10
)

// inlet is what the reader receives into.
type inlet struct {
	want    int // messages to ask for
	got     int
	burst   func()
	message [maxReceive]unix.Mmsghdr
	iov     [maxReceive]unix.Iovec
	from    [maxReceive]rawAddress
	oob     [maxReceive][128]byte
	blocks  [maxReceive]*block
}

func (in *inlet) open(u *udp) {
	in.want = minReceive
	in.burst = func() {
		for i := range in.got {
			u.take(i)
		}
	}
}

func (in *inlet) close() {
	for i, b := range in.blocks {
		if b != nil {
			b.release()
			in.blocks[i] = nil
		}
	}
}

// drain receives until nothing is there. It reports a failure, which may be about a packet
// sent earlier.
func (u *udp) drain() (failed bool) {
	in := &u.in
	for {
		in.ask()
		n, _, err := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(u.fd), uintptr(unsafe.Pointer(&in.message[0])), uintptr(in.want), unix.MSG_DONTWAIT, 0, 0)
		switch err {
		case 0:
		case unix.EAGAIN:
			return false
		case unix.EINTR:
			continue
		default:
			u.count.dropped[DropReceive].Add(1)
			return true
		}
		in.got = int(n)
		if around := u.around.Load(); around != nil {
			(*around)(in.burst)
		} else {
			in.burst()
		}
		asked := in.want
		switch {
		case in.got == asked:
			in.want = min(2*asked, maxReceive)
			continue
		case in.got <= asked/2:
			in.want = max(asked/2, minReceive)
		}
		return false // the kernel found no more; what comes from now on it tells of
	}
}

// ask makes the messages ready that are wanted.
func (in *inlet) ask() {
	for i := range in.want {
		b := in.blocks[i]
		if b == nil {
			b = getBlock()
			in.blocks[i] = b
			in.iov[i].Base = &b.bytes[0]
			in.iov[i].SetLen(blockSize)
		}
		h := &in.message[i].Hdr
		*h = unix.Msghdr{Name: &in.from[i][0], Namelen: uint32(len(in.from[i])), Iov: &in.iov[i], Control: &in.oob[i][0]}
		h.SetIovlen(1)
		h.SetControllen(len(in.oob[i]))
	}
}

// take passes on the packets of message i.
func (u *udp) take(i int) {
	in := &u.in
	m, b := &in.message[i], in.blocks[i]
	info := parseControl(in.oob[i][:m.Hdr.Controllen])
	src, port := in.from[i].get()
	all := b.bytes[:m.Len]
	size := len(all)
	if info.segment > 0 {
		size = min(size, info.segment)
	}
	keep := len(all) > copied && size <= storeSize
	if keep {
		in.blocks[i] = nil
	}
	id := uint16(0)
	for first := true; first || len(all) > 0; first = false {
		size = min(size, len(all))
		datagram := all[:size:size]
		all = all[size:]
		p := Get(0)
		p.Src, p.SrcPort, p.TClass, p.id = src, port, info.class, id
		id++
		if keep {
			b.users.Add(1)
			p.block = b
		} else {
			datagram = p.store[:copy(p.store[:], datagram)]
		}
		u.arrive(p, datagram)
	}
	if keep {
		b.release()
	}
}

// read receives until the link is closed.
func (u *udp) read(raw syscall.RawConn) {
	defer close(u.done)
	defer u.in.close()
	failures := 0
	drain := func(uintptr) (failed bool) {
		if failed = u.drain(); failed {
			failures++
		} else {
			failures = 0
		}
		return failed
	}
	for raw.Read(drain) == nil {
		time.Sleep(backoff(failures))
	}
}
