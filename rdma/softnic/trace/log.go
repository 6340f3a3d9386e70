package trace

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Log writes records as text, a line for each; docs/trace.md has the format. Its
// Trace method is for softnic.Config.Trace, of any number of NICs: all methods are
// safe for concurrent use.
//
// Lines are gathered and written together, whole, soon after the first of them.
type Log struct {
	w io.Writer

	mu     sync.Mutex
	line   line
	buf    []byte // whole lines that are not written yet
	timer  *time.Timer
	timed  bool                      // the timer runs
	seen   map[user]map[word][4]byte // doorbell records, as they were read last
	err    error                     // of the first write that failed
	closed bool
}

// user is an open file.
type user struct {
	nic  string
	file int
}

// word is a word of a doorbell record.
type word struct {
	queue  Queue
	number uint32
}

const (
	flushSize = 32 << 10
	flushWait = 100 * time.Millisecond
)

// began is what all logs of this process count their times from.
var began = time.Now()

// NewLog makes a log on w, which stays the caller's. The caller closes the log once
// no NIC calls it any more. Its first line says what its times count from, which is the
// same for all logs of the process.
func NewLog(w io.Writer) *Log {
	l := &Log{w: w, seen: map[user]map[word][4]byte{}}
	l.timer = time.AfterFunc(time.Hour, func() { _ = l.Flush() })
	l.timer.Stop()
	l.buf = fmt.Appendf(l.buf, "# farwire trace 1, process %d, seconds from %s\n", os.Getpid(), began.UTC().Format(time.RFC3339Nano))
	return l
}

// Trace writes a record.
func (l *Log) Trace(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || r.Kind == RecordRead && !l.news(r) {
		return
	}
	if r.Kind == Ioctl || r.Kind == Close {
		l.forget(r)
	}
	l.buf = strconv.AppendFloat(l.buf, time.Since(began).Seconds(), 'f', 6, 64)
	l.buf = fmt.Appendf(l.buf, " %s %d.%d", r.NIC, r.Process, r.File)
	l.line = l.line[:0]
	l.line.record(r)
	l.buf = append(append(l.buf, l.line...), '\n')
	switch {
	case len(l.buf) >= flushSize:
		l.write()
	case !l.timed: // it runs from the first line on, and later ones do not put it off
		l.timed = true
		l.timer.Reset(flushWait)
	}
}

// news reports whether a word of a doorbell record was read for the first time, or
// differs from what was read before.
func (l *Log) news(r *Record) bool {
	u, w := user{r.NIC, r.File}, word{r.Queue, r.Number}
	if len(r.Bytes) != 4 {
		return true
	}
	v := [4]byte(r.Bytes)
	if old, ok := l.seen[u][w]; ok && old == v {
		return false
	}
	if l.seen[u] == nil {
		l.seen[u] = map[word][4]byte{}
	}
	l.seen[u][w] = v
	return true
}

// forget forgets the doorbell records of what is gone.
func (l *Log) forget(r *Record) {
	u := user{r.NIC, r.File}
	switch {
	case r.Kind == Close:
		delete(l.seen, u)
	case r.Command != nil && r.Errno == 0 && r.Command.destroys():
		for _, o := range r.Command.Objects {
			for q := range QueuePair {
				delete(l.seen[u], word{q, o.Number})
			}
		}
	}
}

// Flush writes what was gathered.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
	return l.err
}

func (l *Log) write() {
	l.timer.Stop()
	l.timed = false
	if len(l.buf) > 0 && l.err == nil {
		_, l.err = l.w.Write(l.buf)
	}
	l.buf = l.buf[:0]
}

// Close writes what was gathered, and returns the error of the first write that
// failed. Records that come later are dropped. A second call returns os.ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	l.closed = true
	l.write()
	return l.err
}
