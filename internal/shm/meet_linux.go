package shm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
)

// hello is what the dialling side says, with the descriptor of the memory beside it: the
// version, which changes with anything that the two must agree on, and its address. The
// answer is one byte.
const (
	version   = "farwire rings 1\n"
	helloSize = len(version) + 16

	answerYes = 1
	answerNo  = 2
)

// patience is how long the other side may take to say what it must.
const patience = 2 * time.Second

// seals are what the memory must have: nobody can make it smaller under the other's feet
// (memfd_create(2)).
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// socketName is the socket of an address. Its name is in the abstract space, which belongs to
// the network namespace, as the address does, and ends with the process.
func socketName(addr netip.Addr) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("@farwire/%d/%v", os.Geteuid(), addr)}
}

// nobody is the user that all users look like who are not in this user namespace
// (/proc/sys/kernel/overflowuid), so it tells nothing.
const nobody = 65534

// Listener is where the processes that dial an address come.
type Listener struct {
	ln   *net.UnixListener
	addr netip.Addr
	want func(from netip.Addr) bool
	take func(*Channel, netip.Addr)
	done chan struct{}
}

// Listen takes the place of an address, until Close. want says whether a channel from
// another address is wanted, and take gets it, one at a time.
func Listen(addr netip.Addr, want func(from netip.Addr) bool, take func(c *Channel, from netip.Addr)) (*Listener, error) {
	if os.Geteuid() == nobody {
		return nil, fmt.Errorf("listen for shared memory: %w", ErrUser)
	}
	ln, err := net.ListenUnix("unixpacket", socketName(addr))
	if err != nil {
		return nil, fmt.Errorf("listen for shared memory: %w", err)
	}
	l := &Listener{ln: ln, addr: addr, want: want, take: take, done: make(chan struct{})}
	go l.accept()
	return l, nil
}

// accept serves those who come, one after the other: one that keeps the others waiting, a
// process of this user, does so for a moment.
func (l *Listener) accept() {
	defer close(l.done)
	for {
		conn, err := l.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors, perhaps
			continue
		}
		c, from, err := l.greet(conn)
		if err != nil {
			_ = conn.Close()
			continue
		}
		l.take(c, from)
	}
}

// Close ends listening. When it returns, neither want nor take runs. Further calls do nothing.
func (l *Listener) Close() error {
	err := l.ln.Close()
	<-l.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// greet answers a hello.
func (l *Listener) greet(conn *net.UnixConn) (*Channel, netip.Addr, error) {
	if err := checkUser(conn); err != nil {
		return nil, netip.Addr{}, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, netip.Addr{}, err
	}
	from, file, err := readHello(conn)
	if err != nil {
		return nil, from, err
	}
	defer file.Close()
	if !l.want(from) {
		_, _ = conn.Write([]byte{answerNo})
		return nil, from, ErrRefused
	}
	c, err := join(conn, file)
	if err != nil {
		return nil, from, err
	}
	if _, err := conn.Write([]byte{answerYes}); err != nil {
		return nil, from, errors.Join(err, c.Close())
	}
	return c, from, conn.SetDeadline(time.Time{})
}

func readHello(conn *net.UnixConn) (from netip.Addr, file *os.File, err error) {
	var b [helloSize + 1]byte
	oob := make([]byte, unix.CmsgSpace(4*8))
	n, oobn, _, _, err := conn.ReadMsgUnix(b[:], oob)
	if err != nil {
		return from, nil, err
	}
	files := received(oob[:oobn])
	if n != helloSize || string(b[:len(version)]) != version || len(files) != 1 {
		closeAll(files)
		return from, nil, ErrProtocol
	}
	return netip.AddrFrom16([16]byte(b[len(version):n])).Unmap(), files[0], nil
}

// received are the files that came with a message.
func received(oob []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "rings"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// join maps memory that another process made, if it cannot become smaller.
func join(conn *net.UnixConn, file *os.File) (*Channel, error) {
	got, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: memory without seals: %w", ErrProtocol, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if got&seals != seals || info.Size() != segmentFile() {
		return nil, fmt.Errorf("%w: memory of %d bytes, seals %#x", ErrProtocol, info.Size(), got)
	}
	return open(conn, file, false)
}

// segmentFile is the size of the file: whole pages.
func segmentFile() int64 {
	page := hostmem.PageSize()
	return int64((segmentSize + page - 1) / page * page)
}

func open(conn *net.UnixConn, file *os.File, dialed bool) (*Channel, error) {
	mem, err := hostmem.Share(file, segmentSize)
	if err != nil {
		return nil, err
	}
	c, err := newChannel(conn, mem, dialed)
	if err != nil {
		return nil, errors.Join(err, mem.Free())
	}
	return c, nil
}

// Dial makes a channel to the process that listens for an address, and tells it from which
// address it comes. The error is syscall.ECONNREFUSED if there is none of this user on this
// host. It waits for the answer, but no longer than a moment.
func Dial(from, to netip.Addr) (*Channel, error) {
	conn, err := net.DialUnix("unixpacket", nil, socketName(to))
	if err != nil {
		return nil, fmt.Errorf("dial for shared memory: %w", err)
	}
	c, err := introduce(conn, from)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial for shared memory: %w", err), conn.Close())
	}
	return c, nil
}

// introduce makes the memory and says hello.
func introduce(conn *net.UnixConn, from netip.Addr) (*Channel, error) {
	if err := checkUser(conn); err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	file, err := makeSegment()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := open(conn, file, true)
	if err != nil {
		return nil, err
	}
	if err := c.introduce(file, from); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, conn.SetDeadline(time.Time{})
}

func (c *Channel) introduce(file *os.File, from netip.Addr) error {
	a := from.As16()
	hello := append([]byte(version), a[:]...)
	if _, _, err := c.conn.WriteMsgUnix(hello, unix.UnixRights(int(file.Fd())), nil); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := c.conn.Read(answer[:]); err != nil {
		return err
	}
	switch answer[0] {
	case answerYes:
		return nil
	case answerNo:
		return ErrRefused
	}
	return ErrProtocol
}

// makeSegment makes memory of a size that stays.
func makeSegment() (*os.File, error) {
	fd, err := unix.MemfdCreate("farwire rings", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "rings")
	if err := unix.Ftruncate(fd, segmentFile()); err != nil {
		return nil, errors.Join(os.NewSyscallError("ftruncate", err), file.Close())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), file.Close())
	}
	return file, nil
}

// checkUser refuses a process of another user.
func checkUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("who is there: %w", err)
	}
	return sameUser(int(peer.Uid), os.Geteuid())
}

func sameUser(theirs, ours int) error {
	if theirs != ours || ours == nobody {
		return fmt.Errorf("%w: %d there, %d here", ErrUser, theirs, ours)
	}
	return nil
}

// sendWake sends one wake, if there is room for it: where there is none, others are on their
// way.
func sendWake(fd uintptr) bool {
	_ = unix.Send(int(fd), oneWake[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return true
}

var oneWake [1]byte
