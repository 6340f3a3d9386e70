package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/farwire/farwire/internal/uapi"
	"golang.org/x/sys/unix"
)

// Open opens the device's node, /dev/infiniband/<UverbsName> or, where that is
// absent or something else, /dev/char/<Major>:<Minor>. No context is made yet.
// The error is a *SyscallError whose hint names the usual cause.
func (d Device) Open() (File, error) {
	dev := filepath.Join(rootDir(d.root), "dev")
	f, err := d.openNode(filepath.Join(dev, "infiniband", d.UverbsName))
	if err == nil {
		return f, nil
	}
	f, err2 := d.openNode(filepath.Join(dev, "char", fmt.Sprintf("%d:%d", d.Major, d.Minor)))
	if err2 == nil {
		return f, nil
	}
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err2, fs.ErrNotExist) {
		return nil, err2
	}
	return nil, err
}

// openNode opens path if it is the device: names in /dev can be stale.
func (d Device) openNode(path string) (File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, openError(path, err)
	}
	if !d.isNode(fd) {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open %s: not the character device %d:%d of %s", path, d.Major, d.Minor, d.Name)
	}
	return &node{fd: fd, path: path}, nil
}

func (d Device) isNode(fd int) bool {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	rdev := uint64(st.Rdev)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(rdev) == d.Major && unix.Minor(rdev) == d.Minor
}

// A node is an open device node.
type node struct {
	path  string
	pages atomic.Int64 // mapped

	mu     sync.RWMutex // held for reading while fd is in use
	fd     int
	closed bool
}

var _ File = (*node)(nil)

func (n *node) Ioctl(cmd []byte) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
		return syscall.EBADF
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(n.fd), uapi.RDMAVerbsIoctl, uintptr(unsafe.Pointer(unsafe.SliceData(cmd))))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

func (n *node) Map(offset int64, length int) (*Page, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
		return nil, syscall.EBADF
	}
	mem, err := unix.Mmap(n.fd, offset, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	n.pages.Add(1)
	return NewPage(mem, nil, func() error {
		n.pages.Add(-1)
		return os.NewSyscallError("munmap", unix.Munmap(mem))
	}), nil
}

// Close also reports pages that are still mapped, because they keep the context
// and its queue pairs alive in the kernel.
func (n *node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return os.ErrClosed
	}
	n.closed = true
	err := os.NewSyscallError("close", unix.Close(n.fd))
	if mapped := n.pages.Load(); mapped != 0 {
		err = errors.Join(err, fmt.Errorf("close %s: %d pages are still mapped and keep the context alive", n.path, mapped))
	}
	return err
}
