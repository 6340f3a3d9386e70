package verbs

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/farwire/farwire/internal/uapi"
)

// A Context is one user context of a device: the owner of protection domains,
// memory regions, completion queues and queue pairs. Its methods marshal the
// kernel's commands, one ioctl each unless said otherwise, and are safe for
// concurrent use. Slices given to them may lie on the Go heap; they are copied.
//
// Errors are *SyscallError, or os.ErrClosed after Close.
type Context struct {
	file    File
	driver  DriverID
	async   EventFile
	vectors int
	support uint64

	mu      sync.RWMutex // held for reading by every command, for writing by Close
	closed  bool
	scratch scratch
}

// NewContext creates the user context of f. in is the driver's request, out
// receives its response; either may be empty.
//
// It issues the native GET_CONTEXT and allocates the asynchronous event file.
// Where the kernel does not know these (Linux 5.0 to 5.5) it uses the older
// GET_CONTEXT that makes both; a kernel that knows the native one is never
// asked for the older, because it is broken there since about 6.15.
//
// On success the context owns f and closes it. On failure f stays the caller's.
// If the error is that of "get context", f may be used for another attempt;
// otherwise it can only be closed.
func NewContext(f File, driver DriverID, in, out []byte) (*Context, error) {
	c := &Context{file: f, driver: driver}
	fd, err := c.create(in, out)
	if err == nil {
		c.async, err = f.Events(fd)
		if err != nil {
			err = fileError(op{name: "open async events"}, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.scratch.free())
	}
	return c, nil
}

// create makes the kernel's context and returns its asynchronous event
// descriptor.
func (c *Context) create(in, out []byte) (fd int, err error) {
	var vectors uint32
	err = c.invoke(op{name: "get context"}, uapi.ObjectDevice, uapi.MethodGetContext,
		outValue(uapi.AttrContextNumCompVectors, &vectors),
		outValue(uapi.AttrContextCoreSupport, &c.support),
		AttrIn(uapi.AttrUHWIn, in), AttrOut(uapi.AttrUHWOut, out))
	if errors.Is(err, syscall.EPROTONOSUPPORT) {
		return c.createOld(in, out)
	}
	if err != nil {
		return 0, err
	}
	c.vectors = int(vectors)
	var handle uint32
	err = c.invoke(op{name: "allocate async events"}, uapi.ObjectAsyncEvent, uapi.MethodAsyncEventAlloc,
		AttrNewObject(uapi.AttrAsyncEventFD, &handle))
	return int(handle), err
}

func (c *Context) createOld(in, out []byte) (fd int, err error) {
	var req uapi.GetContext
	var resp uapi.GetContextResp
	err = c.write(op{name: "get context"}, uapi.CmdGetContext, uapi.Bytes(&req), uapi.Bytes(&resp), in, out)
	c.vectors = int(resp.NumCompVectors)
	return int(resp.AsyncFD), err
}

// Close closes the asynchronous event file and the file, which destroys
// everything the context still owns, and frees the memory that commands were
// built in. It waits for commands in progress. Pages should be unmapped before.
// A second Close returns os.ErrClosed.
func (c *Context) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return os.ErrClosed
	}
	c.closed = true
	return errors.Join(c.async.Close(), c.file.Close(), c.scratch.free())
}

// Async returns the asynchronous event file of the context. The context owns it.
func (c *Context) Async() EventFile { return c.async }

// Driver returns the driver id the context was made with.
func (c *Context) Driver() DriverID { return c.driver }

// NumCompVectors returns how many completion vectors there are: CreateCQ takes
// 0 up to one less.
func (c *Context) NumCompVectors() int { return c.vectors }

// Map maps device memory, as [File.Map] does.
func (c *Context) Map(offset int64, length int) (*Page, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, os.ErrClosed
	}
	p, err := c.file.Map(offset, length)
	if err != nil {
		return nil, fileError(op{name: "map device memory"}, err)
	}
	return p, nil
}
