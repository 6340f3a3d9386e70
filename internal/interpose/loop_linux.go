//go:build amd64 || arm64

package interpose

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// serve answers notifications on a thread of its own, until no process is left
// under the filter or stopWrite is closed.
func (p *Process) serve() error {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		_ = unix.Close(int(p.listener))
		return os.NewSyscallError("pipe2", err)
	}
	p.stop, p.stopWrite = fds[0], os.NewFile(uintptr(fds[1]), "stop")
	go p.loop()
	return nil
}

func (p *Process) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.loopEnd)
	defer p.nowListening()
	defer unix.Close(int(p.listener))
	defer unix.Close(p.stop)
	fds := []unix.PollFd{{Fd: int32(p.listener), Events: unix.POLLIN}, {Fd: int32(p.stop)}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil {
			if err == unix.EINTR {
				continue
			}
			return
		}
		switch got := fds[0].Revents; {
		case fds[1].Revents != 0:
			return
		case got&unix.POLLIN != 0:
		case got&(unix.POLLHUP|unix.POLLNVAL) != 0:
			return
		default:
			// POLLERR: a signal interrupted the kernel's look at the listener, which is
			// whole (seccomp_notify_poll of Linux kernel/seccomp.c).
			continue
		}
		n, err := p.listener.receive()
		if err != nil {
			continue // its caller was killed
		}
		p.answer(&n)
	}
}

// passOn lets the kernel execute the call.
const passOn = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE

// answer executes a system call, or lets the kernel do so.
func (p *Process) answer(n *notification) {
	a := answer{id: n.id, flags: passOn}
	if handle := calls[int(n.nr)]; handle != nil {
		if value, errno, ours := handle(&call{p, n}); ours {
			a = answer{id: n.id, value: int64(value), errno: -int32(errno)}
		}
	}
	p.listener.send(a)
}

// call is a system call of a program.
type call struct {
	process *Process
	n       *notification
}

// A handler executes a call that is about a device; ours is false if it is not.
type handler func(*call) (value int, errno unix.Errno, ours bool)

var calls = map[int]handler{
	unix.SYS_IOCTL:      (*call).ioctl,
	unix.SYS_OPENAT:     func(c *call) (int, unix.Errno, bool) { return c.open(c.n.args[1], c.n.args[2]) },
	sysOpen:             func(c *call) (int, unix.Errno, bool) { return c.open(c.n.args[0], c.n.args[1]) },
	unix.SYS_NEWFSTATAT: (*call).fstatat,
	unix.SYS_FSTAT:      func(c *call) (int, unix.Errno, bool) { return c.statFD(c.fd(0), c.n.args[1]) },
	sysStat:             func(c *call) (int, unix.Errno, bool) { return c.statPath(c.n.args[0], c.n.args[1]) },
	sysLstat:            func(c *call) (int, unix.Errno, bool) { return c.statPath(c.n.args[0], c.n.args[1]) },
	unix.SYS_STATX:      (*call).statx,
	unix.SYS_MMAP:       (*call).mmap,
	unix.SYS_LISTEN:     (*call).listen,
}

// fd is an argument that is a descriptor.
func (c *call) fd(arg int) int { return int(int32(c.n.args[arg])) }

func (c *call) tid() int { return int(c.n.tid) }

// listen is the kernel's business; it tells that the program is ready for others.
func (c *call) listen() (int, unix.Errno, bool) {
	c.process.nowListening()
	return 0, 0, false
}
