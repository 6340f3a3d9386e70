package softnic

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"time"
)

// event is a record of an event file: of 8 bytes, an element, on a completion
// channel; of 16 bytes, with a type, on an asynchronous event file.
type event struct {
	element uint64
	kind    uint32
	owner   any // the object the event is about, to forget it with the object
}

// eventFile is the descriptor of a completion channel or of asynchronous
// events. It is safe for concurrent use.
type eventFile struct {
	size   int // of a record, in bytes
	fd     int // its number within its file
	origin origin

	mu       sync.Mutex // a leaf: nothing is called with it held
	cond     sync.Cond
	queue    []event
	removed  bool // the device is gone
	closed   bool
	expired  bool // the read deadline has passed
	deadline *time.Timer

	closing func()    // called once by Close, without mu
	sink    EventSink // nil: records are read from queue
}

func newEventFile(size, fd int) *eventFile {
	e := &eventFile{size: size, fd: fd}
	e.cond.L = &e.mu
	return e
}

// raise queues a record for the reader. After Close it is dropped, and raise reports
// false.
func (e *eventFile) raise(ev event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.removed {
		return false
	}
	if e.sink != nil {
		e.sink.Put(ev.append(nil, e.size))
		return true
	}
	e.queue = append(e.queue, ev)
	e.cond.Signal()
	return true
}

// forget removes the records about owner that were not read, and returns how
// many there were.
func (e *eventFile) forget(owner any) (unread uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sink != nil {
		return e.takeBack(owner)
	}
	kept := e.queue[:0]
	for _, ev := range e.queue {
		if ev.owner == owner {
			unread++
		} else {
			kept = append(kept, ev)
		}
	}
	clear(e.queue[len(kept):])
	e.queue = kept
	return unread
}

// remove makes reads fail with EIO once the queued records are read.
func (e *eventFile) remove() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sink != nil && !e.removed && !e.closed {
		e.sink.Close()
	}
	e.removed = true
	e.cond.Broadcast()
}

// Read returns one record. It blocks until there is one, the deadline passes
// (os.ErrDeadlineExceeded), the file is closed (os.ErrClosed) or the device is
// gone (syscall.EIO). A p shorter than a record is refused with EINVAL.
func (e *eventFile) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch {
		case e.closed:
			return 0, e.error(os.ErrClosed)
		case len(p) < e.size:
			return 0, e.error(syscall.EINVAL)
		case e.expired:
			return 0, e.error(os.ErrDeadlineExceeded)
		case len(e.queue) > 0:
			return e.take(p), nil
		case e.removed:
			return 0, e.error(syscall.EIO)
		}
		e.cond.Wait()
	}
}

func (e *eventFile) take(p []byte) int {
	ev := e.queue[0]
	n := copy(e.queue, e.queue[1:])
	e.queue[n] = event{}
	e.queue = e.queue[:n]
	ev.append(p[:0], e.size)
	return e.size
}

// append appends the record of size bytes.
func (ev event) append(p []byte, size int) []byte {
	p = binary.NativeEndian.AppendUint64(p, ev.element)
	if size > 8 {
		p = binary.NativeEndian.AppendUint32(p, ev.kind)
		p = binary.NativeEndian.AppendUint32(p, 0)
	}
	return p
}

func (e *eventFile) error(err error) error {
	return &os.PathError{Op: "read", Path: eventFileName, Err: err}
}

const eventFileName = "softnic event file"

// SetReadDeadline makes blocked and later reads fail from t on; the zero time
// means never.
func (e *eventFile) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return e.error(os.ErrClosed)
	}
	if e.deadline != nil {
		e.deadline.Stop()
		e.deadline = nil
	}
	e.expired = false
	if t.IsZero() {
		return nil
	}
	wait := time.Until(t)
	if wait <= 0 {
		e.expired = true
		e.cond.Broadcast()
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.deadline == timer {
			e.expired = true
			e.cond.Broadcast()
		}
	})
	e.deadline = timer
	return nil
}

// Close wakes readers. Records raised later are dropped.
func (e *eventFile) Close() error {
	if !e.shut() {
		return &os.PathError{Op: "close", Path: eventFileName, Err: os.ErrClosed}
	}
	e.closing()
	return nil
}

// shut is Close without telling the NIC; false if it was closed.
func (e *eventFile) shut() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	if e.deadline != nil {
		e.deadline.Stop()
		e.deadline = nil
	}
	if e.sink != nil && !e.removed {
		e.sink.Close()
	}
	e.closed = true
	e.queue = nil
	e.cond.Broadcast()
	return true
}
