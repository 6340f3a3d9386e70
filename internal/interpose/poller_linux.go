//go:build amd64 || arm64

package interpose

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/rdma/softnic"
)

// poller looks at the doorbell pages of all files. While doorbells are rung it
// looks every few tens of microseconds; the longer there are none, the more seldom, and
// without files it does not run.
type poller struct {
	urgent atomic.Bool // a command was executed: expect doorbells
	done   chan struct{}

	mu     sync.Mutex
	cond   sync.Cond
	files  []*softnic.ProcessFile // replaced, never changed
	closed bool
}

func newPoller() *poller {
	p := &poller{done: make(chan struct{})}
	p.cond.L = &p.mu
	go p.run()
	return p
}

func (p *poller) add(f *softnic.ProcessFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = append(slices.Clone(p.files), f)
	p.cond.Signal()
}

func (p *poller) remove(f *softnic.ProcessFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = slices.DeleteFunc(slices.Clone(p.files), func(g *softnic.ProcessFile) bool { return f == g })
}

func (p *poller) hurry() { p.urgent.Store(true) }

func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	p.cond.Signal()
	p.mu.Unlock()
	<-p.done
}

// wait waits for files; nil means that the poller is closed.
func (p *poller) wait() []*softnic.ProcessFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.files) == 0 && !p.closed {
		p.cond.Wait()
	}
	if p.closed {
		return nil
	}
	return p.files
}

func (p *poller) run() {
	defer close(p.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer prepareThread()()
	var last time.Time // of a doorbell
	for {
		files := p.wait()
		if files == nil {
			return
		}
		found := p.urgent.Swap(false)
		for _, f := range files {
			found = f.Poll() || found
		}
		now := time.Now()
		if found {
			last = now
		}
		ts := unix.NsecToTimespec(int64(pause(now.Sub(last))))
		_ = unix.Nanosleep(&ts, nil)
	}
}

// pause is how long to wait for doorbells when there was none for a time. Shorter
// pauses make everything slower where processors are few: the programs, and
// whatever else of this process takes part, get no time between two looks.
func pause(idle time.Duration) time.Duration {
	switch {
	case idle < time.Second:
		return 50 * time.Microsecond
	case idle < 10*time.Second:
		return time.Millisecond
	}
	return 4 * time.Millisecond
}

// prepareThread makes short sleeps short, and has the thread run as soon as it
// wakes: on a busy machine programs that spin would otherwise use up their time
// while they wait for it. That needs a privilege; without, doorbells are answered
// later. The NIC's own goroutine takes over what would take long. The function
// returned makes the thread one like others again. It must not end instead: it may
// be the one that started a program, which would be killed (see start).
func prepareThread() (restore func()) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	before, err := unix.SchedGetAttr(0, 0)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	_ = unix.SchedSetAttr(0, &attr, 0)
	return func() {
		if err == nil {
			_ = unix.SchedSetAttr(0, before, 0)
		}
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	}
}
