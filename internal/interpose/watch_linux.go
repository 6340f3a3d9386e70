//go:build amd64 || arm64

package interpose

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher tells when an open file has ended: when its last descriptor was closed
// and its last mapping removed, in whatever process.
type watcher struct {
	inotify *os.File
	ended   func(id uint64)
	done    chan struct{}

	mu  sync.Mutex
	ids map[int32]uint64 // by watch descriptor
}

func newWatcher(ended func(uint64)) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watcher{inotify: os.NewFile(uintptr(fd), "inotify"), ended: ended,
		done: make(chan struct{}), ids: map[int32]uint64{}}
	go w.run()
	return w, nil
}

// add watches the file at path for the end of the one time it is open for writing.
func (w *watcher) add(path string, id uint64) error {
	conn, err := w.inotify.SyscallConn()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var wd int
	outer := conn.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(int(fd), path, unix.IN_CLOSE_WRITE|unix.IN_ONESHOT)
	})
	if outer != nil {
		return outer
	}
	if err != nil {
		return err
	}
	w.ids[int32(wd)] = id
	return nil
}

// run reads events: watch descriptor, mask, cookie, length of a name that
// follows (struct inotify_event).
func (w *watcher) run() {
	defer close(w.done)
	buf := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := w.inotify.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			b = b[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):]
			if mask&unix.IN_CLOSE_WRITE != 0 {
				w.end(wd)
			}
		}
	}
}

func (w *watcher) end(wd int32) {
	w.mu.Lock()
	id, ok := w.ids[wd]
	delete(w.ids, wd)
	w.mu.Unlock()
	if ok {
		w.ended(id)
	}
}

func (w *watcher) close() error {
	err := w.inotify.Close()
	<-w.done
	return err
}
