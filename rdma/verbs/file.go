package verbs

import (
	"io"
	"sync"
	"time"
)

// A File is one open user-verbs file, and at most one user context. It is
// implemented by the device node ([Device.Open]) and by the software NIC. All
// methods are safe for concurrent use.
type File interface {
	// Ioctl issues one RDMA_VERBS_IOCTL. cmd is the header and its attributes
	// and nothing more, 8-byte aligned; new handles and output flags are
	// written back into it. cmd itself and every address in it must lie outside
	// the Go heap and stay valid until Ioctl returns. It may block: modifying a
	// queue pair waits up to a second for address resolution.
	//
	// The error is a syscall.Errno: EIO once the device has been removed, but for
	// commands that destroy an object, and EBADF after Close.
	Ioctl(cmd []byte) error

	// Map maps length bytes at offset, shared and writable: a doorbell page or
	// a provider's queue. Offsets come from the kernel or are the driver's
	// convention. A mapping keeps the context alive after Close until it is
	// unmapped. The error is a syscall.Errno.
	Map(offset int64, length int) (*Page, error)

	// Events takes over the event descriptor fd that an Ioctl handed out: a
	// completion channel or the asynchronous events. It owns fd from the moment
	// of the call: if it fails, fd is closed.
	Events(fd int) (EventFile, error)

	// Close closes the file. The kernel destroys the context with everything in
	// it as soon as no Page is mapped any more. Commands in progress finish
	// first. A second Close returns os.ErrClosed.
	Close() error
}

// An EventFile delivers event records, one for each Read, 8 bytes for a
// completion channel and 16 for asynchronous events. A Read with a shorter
// buffer fails with EINVAL.
//
// Read blocks until there is a record, the deadline passes
// (os.ErrDeadlineExceeded), or the file is closed (os.ErrClosed). After the
// device was removed a completion channel fails with an error that matches
// syscall.EIO; the last of the asynchronous events is then EventDeviceFatal, and
// what comes after it is EIO or, on recent kernels, nothing. One goroutine may read
// while another closes or sets the deadline.
type EventFile interface {
	io.ReadCloser

	// SetReadDeadline sets the time after which Read fails; the zero time means
	// none. It also applies to a Read already waiting.
	SetReadDeadline(t time.Time) error
}

// A Page is mapped device memory.
type Page struct {
	// Mem is the mapping. It must not be touched after Unmap. Stores to a
	// doorbell go through a single store of the width the device defines.
	Mem []byte

	// Wake is nil on hardware. On a software NIC it must be called after every
	// store to a doorbell, with the offset of the store in Mem. It never blocks
	// and may do the NIC's work before it returns.
	Wake func(offset int)

	once  sync.Once
	unmap func() error
	err   error
}

// NewPage returns a page over mem that is unmapped by unmap, which is called at
// most once and may be nil. It is for implementations of File.
func NewPage(mem []byte, wake func(offset int), unmap func() error) *Page {
	return &Page{Mem: mem, Wake: wake, unmap: unmap}
}

// Unmap removes the mapping. Later calls do nothing and return the first result.
func (p *Page) Unmap() error {
	p.once.Do(func() {
		if p.unmap != nil {
			p.err = p.unmap()
		}
	})
	return p.err
}
