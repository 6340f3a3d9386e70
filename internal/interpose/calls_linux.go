//go:build amd64 || arm64

package interpose

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/uapi"
)

// open gives the program a file of the NIC whose device node it opens.
func (c *call) open(path, flags uint64) (int, unix.Errno, bool) {
	d := c.device(path)
	if d == nil {
		return 0, 0, false
	}
	fd, err := c.process.host.open(c, d, uint32(flags)&unix.O_CLOEXEC)
	if err != nil {
		return 0, errnoOf(err), true
	}
	return fd, 0, true
}

// device is the device whose node a path names, or nil.
func (c *call) device(path uint64) *device {
	s, ok := readString(c.tid(), path, maxNode)
	if !ok || !c.process.listener.waiting(c.n.id) {
		return nil
	}
	return c.process.host.nodes[s]
}

func (c *call) fstatat() (int, unix.Errno, bool) {
	if d := c.device(c.n.args[1]); d != nil {
		return c.putStat(d, c.n.args[2])
	}
	if c.n.args[3]&unix.AT_EMPTY_PATH == 0 {
		return 0, 0, false
	}
	if s, ok := readString(c.tid(), c.n.args[1], 1); ok && s == "" || c.n.args[1] == 0 {
		return c.statFD(c.fd(0), c.n.args[2])
	}
	return 0, 0, false
}

func (c *call) statPath(path, buf uint64) (int, unix.Errno, bool) {
	if d := c.device(path); d != nil {
		return c.putStat(d, buf)
	}
	return 0, 0, false
}

func (c *call) statFD(fd int, buf uint64) (int, unix.Errno, bool) {
	if f := c.process.host.fileOf(c.tid(), fd); f != nil {
		return c.putStat(f.device, buf)
	}
	return 0, 0, false
}

// nodeMode is the mode of a device node.
const nodeMode = unix.S_IFCHR | 0o666

func (c *call) putStat(d *device, buf uint64) (int, unix.Errno, bool) {
	st := unix.Stat_t{Ino: uint64(d.minor), Nlink: 1, Mode: nodeMode, Rdev: unix.Mkdev(major, d.minor), Blksize: 4096}
	return c.put(buf, bytesOf(&st))
}

func (c *call) statx() (int, unix.Errno, bool) {
	d := c.device(c.n.args[1])
	if d == nil && c.n.args[2]&unix.AT_EMPTY_PATH != 0 {
		s, ok := readString(c.tid(), c.n.args[1], 1)
		if f := c.process.host.fileOf(c.tid(), c.fd(0)); f != nil && (ok && s == "" || c.n.args[1] == 0) {
			d = f.device
		}
	}
	if d == nil {
		return 0, 0, false
	}
	st := unix.Statx_t{Mask: unix.STATX_BASIC_STATS, Ino: uint64(d.minor), Nlink: 1, Mode: nodeMode,
		Rdev_major: major, Rdev_minor: d.minor, Blksize: 4096}
	return c.put(c.n.args[4], bytesOf(&st))
}

// put writes what a call returns by address.
func (c *call) put(addr uint64, p []byte) (int, unix.Errno, bool) {
	if !writeBytes(c.tid(), addr, p) {
		return 0, unix.EFAULT, true
	}
	return 0, 0, true
}

// mmap judges a mapping of a device file; the kernel then makes it.
func (c *call) mmap() (int, unix.Errno, bool) {
	f := c.process.host.fileOf(c.tid(), c.fd(4))
	if f == nil {
		return 0, 0, false
	}
	pid, err := processOf(c.tid())
	if err != nil {
		return 0, errnoOf(err), true
	}
	if err := f.nicFile.Map(pid, int64(c.n.args[5]), int(c.n.args[1])); err != nil {
		return 0, errnoOf(err), true
	}
	return 0, 0, false
}

// ioctl executes a command.
func (c *call) ioctl() (int, unix.Errno, bool) {
	f := c.process.host.fileOf(c.tid(), c.fd(0))
	if f == nil {
		return 0, 0, false
	}
	mem, err := f.memoryOf(c.tid(), c.n.args[2])
	if err != nil {
		return 0, errnoOf(err), true
	}
	cmd, err := readCommand(mem, c.n.args[2])
	if err != nil {
		return 0, errnoOf(err), true
	}
	c.process.host.poller.hurry()
	if err := f.nicFile.Ioctl(&caller{c, f, mem}, cmd); err != nil {
		return 0, errnoOf(err), true
	}
	if mem.Write(c.n.args[2]+uapi.HeaderSize, cmd[uapi.HeaderSize:]) != nil {
		return 0, unix.EFAULT, true
	}
	return 0, 0, true
}

// readCommand copies header and attributes. A length that makes no sense is the
// NIC's to refuse.
func readCommand(mem *processMemory, addr uint64) ([]byte, error) {
	cmd := make([]byte, uapi.HeaderSize, uapi.HeaderSize+8*uapi.AttrSize)
	if err := mem.Read(addr, cmd); err != nil {
		return nil, unix.EFAULT
	}
	if n := uapi.CommandLength(cmd); n > len(cmd) && n <= uapi.MaxCommand {
		cmd = append(cmd, make([]byte, n-len(cmd))...)
		if err := mem.Read(addr, cmd); err != nil {
			return nil, unix.EFAULT
		}
	}
	return cmd, nil
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}
