package softnic_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// process stands between a driver and a ProcessFile as the system does between
// two processes: commands are copied, pages have no wake function, and event
// descriptors are the process's own.
type process struct {
	*softnic.ProcessFile

	mu     sync.Mutex
	pages  map[int64]*sharedPage
	events map[int]*inbox
	refuse error // new events and pages
}

// caller is the process as a command of it sees it.
type caller struct{ *process }

var (
	_ verbs.File     = (*process)(nil)
	_ softnic.Pages  = (*process)(nil)
	_ softnic.Caller = caller{}
)

func openFor(t testing.TB, soft *softnic.NIC) *process {
	p := &process{pages: map[int64]*sharedPage{}, events: map[int]*inbox{}}
	var err error
	p.ProcessFile, err = soft.OpenFor(processNumber, p)
	require.NoError(t, err)
	return p
}

func (p *process) Ioctl(cmd []byte) error {
	copied := slices.Clone(cmd)
	err := p.ProcessFile.Ioctl(caller{p}, copied)
	if err == nil {
		copy(cmd, copied)
	}
	return err
}

func (p *process) Map(offset int64, length int) (*verbs.Page, error) {
	if err := p.ProcessFile.Map(processNumber, offset, length); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.pages[offset]
	page.refs++
	return verbs.NewPage(page.mem.Bytes(), nil, page.Free), nil
}

// Page is a page that the NIC and the driver share.
func (p *process) Page(offset int64) (softnic.PageMemory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	mem, err := hostmem.Alloc(hostmem.PageSize())
	if err != nil {
		return nil, err
	}
	page := &sharedPage{p: p, mem: mem, refs: 1}
	p.pages[offset] = page
	return page, nil
}

type sharedPage struct {
	p    *process
	mem  *hostmem.Memory
	refs int
}

func (s *sharedPage) Bytes() []byte { return s.mem.Bytes() }

func (s *sharedPage) Free() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.refs--; s.refs > 0 {
		return nil
	}
	return s.mem.Free()
}

func (p *process) inbox(fd int) *inbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[fd]
}

func (p *process) Events(fd int) (verbs.EventFile, error) {
	if e := p.inbox(fd); e != nil {
		return inboxFile{e}, nil
	}
	return nil, syscall.EBADF
}

// processNumber is that of every process here.
const processNumber = 4711

func (c caller) Process() int { return processNumber }

func (c caller) Memory() softnic.Memory { return softnic.OwnMemory() }

func (c caller) NewEvents(size int, closed func()) (int, softnic.EventSink, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return 0, nil, c.refuse
	}
	e := &inbox{size: size, closed: closed}
	e.cond.L = &e.mu
	fd := 100 + len(c.events)
	c.events[fd] = e
	return fd, e, nil
}

func (c caller) Events(fd int) softnic.EventSink {
	if e := c.inbox(fd); e != nil {
		return e
	}
	return nil
}

// inbox is an event descriptor: the NIC's end is the sink, the driver's the file.
type inbox struct {
	size   int
	closed func()

	mu    sync.Mutex
	cond  sync.Cond
	queue [][]byte
	ended bool
}

func (e *inbox) Put(record []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = append(e.queue, record)
	e.cond.Broadcast()
}

func (e *inbox) TakeBack(drop func([]byte) bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.queue)
	e.queue = slices.DeleteFunc(e.queue, drop)
	return before - len(e.queue)
}

// Close is the NIC's.
func (e *inbox) Close() { e.end() }

func (e *inbox) end() (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first = !e.ended
	e.ended = true
	e.cond.Broadcast()
	return first
}

// inboxFile is the driver's end of an inbox.
type inboxFile struct{ *inbox }

func (e inboxFile) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) == 0 {
		if e.ended {
			return 0, os.ErrClosed
		}
		e.cond.Wait()
	}
	n := copy(b, e.queue[0])
	e.queue = e.queue[1:]
	return n, nil
}

func (inboxFile) SetReadDeadline(time.Time) error { return nil }

// Close tells the NIC, as the one who watches the process does.
func (e inboxFile) Close() error {
	if !e.end() {
		return os.ErrClosed
	}
	e.closed()
	return nil
}

// pollAll polls until the test is over.
func (p *process) pollAll(t testing.TB) {
	var end sync.WaitGroup
	stop := make(chan struct{})
	end.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.Poll()
				runtime.Gosched()
			}
		}
	})
	t.Cleanup(func() { close(stop); end.Wait() })
}

func memoryOnly(cfg softnic.Config) softnic.Config {
	cfg.Link, cfg.Network = softnic.LinkMemory, softnic.NewNetwork()
	return cfg
}

// The driver works on a NIC that is in another process.
func TestProcess(t *testing.T) {
	for name, cfg := range map[string]softnic.Config{
		"dynamic":       {},
		"static":        {StaticUAR: true},
		"no BlueFlame":  {NoBlueFlame: true},
		"old entries":   {OldCQE: true, StaticUAR: true},
		"RoCE v2 alone": {RoCEv2Only: true},
		"InfiniBand":    {LinkLayer: verbs.LinkInfiniBand},
	} {
		t.Run(name, func(t *testing.T) {
			soft := newNIC(t, memoryOnly(cfg))
			p := openFor(t, soft)
			e := newEndOn(t, soft, p, region.Local)
			p.pollAll(t)
			connect(t, e, e, region.Local)
			for i := range 50 {
				e.mr.Bytes()[0] = byte(i)
				require.NoError(t, e.pair.Receive(7, e.mr.Local(8192, 8192)))
				require.NoError(t, e.pair.Post(qp.Entry{Op: qp.Send, Local: e.mr.Local(0, 5000), Signaled: true}))
				e.pair.Ring()
				for _, c := range e.poll(t, 2) {
					require.NoError(t, c.Err())
				}
				require.Equal(t, byte(i), e.mr.Bytes()[8192])
			}
			require.Zero(t, soft.Counters().BadDoorbells)
		})
	}
}

// endpoints are two queue pairs of one context, each with a completion queue.
func endpoints(t *testing.T, soft *softnic.NIC, p *process) (a, b *end) {
	a = newEndOn(t, soft, p, region.Local)
	done, err := cq.New(a.nic, 64)
	require.NoError(t, err)
	pair, err := qp.New(done, qp.Config{Sends: 16, Receives: 16})
	require.NoError(t, err)
	b = &end{soft: soft, nic: a.nic, done: done, pair: pair, mr: a.mr}
	t.Cleanup(func() {
		require.NoError(t, pair.Destroy())
		require.NoError(t, done.Close())
	})
	connect(t, a, a, region.Local)
	connect(t, b, b, region.Local)
	return a, b
}

func (e *end) nop(t *testing.T) {
	require.NoError(t, e.pair.Receive(0, e.mr.Local(0, 8)))
	require.NoError(t, e.pair.Post(qp.Entry{Op: qp.Send, Local: e.mr.Local(8, 8), Signaled: true}))
	e.pair.Ring()
}

// Doorbells that overwrote each other before they were seen are not lost.
func TestProcessOverwrittenDoorbells(t *testing.T) {
	for name, cfg := range map[string]softnic.Config{
		"dynamic":      {},
		"static":       {StaticUAR: true},
		"no BlueFlame": {NoBlueFlame: true},
	} {
		t.Run(name, func(t *testing.T) {
			soft := newNIC(t, memoryOnly(cfg))
			p := openFor(t, soft)
			a, b := endpoints(t, soft, p)
			require.False(t, p.Poll(), "nothing was rung")
			for range 5 {
				a.nop(t)
				b.nop(t)
				a.nop(t)
				require.Zero(t, soft.Counters().Completions%6)
				require.True(t, p.Poll())
				require.False(t, p.Poll())
				a.poll(t, 4)
				b.poll(t, 2)
			}
		})
	}
}

// An entry that came with its doorbell is known for one.
func TestProcessBlueFlame(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	p := openFor(t, soft)
	a, _ := endpoints(t, soft, p)
	for i := range 3 {
		require.NoError(t, a.pair.Receive(0, a.mr.Local(0, 8)))
		require.NoError(t, a.pair.Post(qp.Entry{Op: qp.Send, Inline: []byte("in the entry"[i:][:8]), Signaled: true}))
		a.pair.Ring()
		require.True(t, p.Poll())
		a.poll(t, 2)
		require.EqualValues(t, i+1, soft.Counters().BlueFlames)
	}
	require.Zero(t, soft.Counters().BadDoorbells)
}

// What was rung before a command is done before it.
func TestProcessDoorbellsBeforeCommands(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	p := openFor(t, soft)
	a, _ := endpoints(t, soft, p)
	a.nop(t)
	_, err := a.nic.Port()
	require.NoError(t, err)
	require.EqualValues(t, 2, soft.Counters().Completions)
	require.False(t, p.Poll())
	a.poll(t, 2)
}

// It is also while somebody else polls, who may have seen the doorbell first.
func TestProcessDoorbellsBeforeCommandsWhilePolled(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{Null: true}))
	p := openFor(t, soft)
	a, _ := endpoints(t, soft, p)
	p.pollAll(t)
	for range 20000 {
		a.nop(t)
		_, err := a.pair.State()
		require.NoError(t, err)
		var c [3]cq.Completion
		n, err := a.done.Poll(c[:])
		require.NoError(t, err)
		require.Equal(t, 2, n)
	}
}

// Nor are arms, and a queue that was never armed raises nothing.
func TestProcessOverwrittenArms(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	p := openFor(t, soft)
	a, b := endpoints(t, soft, p)
	events := func() int { return int(soft.Counters().CompletionEvents) }
	require.NoError(t, a.done.Arm(true))
	p.Poll()
	b.nop(t)
	p.Poll()
	b.poll(t, 2)
	require.Zero(t, events(), "it was not the queue that is armed")

	require.NoError(t, a.done.Arm(false)) // more than before
	require.NoError(t, b.done.Arm(false)) // overwrites it
	p.Poll()
	require.Zero(t, events(), "nothing came")
	a.nop(t)
	b.nop(t)
	p.Poll()
	require.Equal(t, 2, events())
	a.poll(t, 2)
	b.poll(t, 2)
}

// The page about the clock is made once, with the file's other pages.
func TestProcessClockInfo(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	p := openFor(t, soft)
	endpoints(t, soft, p)
	offset := prm.MapOffset(prm.MapClockInfo, prm.ClockInfoV1, hostmem.PageSize())
	p.refuse = syscall.EMFILE
	require.Equal(t, syscall.EMFILE, p.ProcessFile.Map(processNumber, offset, hostmem.PageSize()))
	p.refuse = nil
	polled := p.Pages()
	for range 2 {
		page, err := p.Map(offset, hostmem.PageSize())
		require.NoError(t, err)
		require.EqualValues(t, 1, *hostmem.Word32(page.Mem[32:]), "a tick is a nanosecond")
		require.NoError(t, page.Unmap())
	}
	require.Equal(t, polled, p.Pages(), "it is no doorbell page")
	require.Equal(t, syscall.EINVAL, p.ProcessFile.Map(processNumber, offset, 1))
}

// A file that is closed twice gives its page about the clock back once.
func TestProcessClosedTwice(t *testing.T) {
	p := openFor(t, newNIC(t, memoryOnly(softnic.Config{})))
	nic, err := mlx5.OpenFile(p, mlx5.Config{})
	require.NoError(t, err)
	offset := prm.MapOffset(prm.MapClockInfo, prm.ClockInfoV1, hostmem.PageSize())
	require.NoError(t, p.ProcessFile.Map(processNumber, offset, hostmem.PageSize()))
	require.NoError(t, nic.Close())
	require.ErrorIs(t, p.Close(), os.ErrClosed)
	require.Zero(t, p.pages[offset].refs)
}

// All offsets that name a static page ring its doorbells.
func TestProcessAliases(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{StaticUAR: true}))
	p := openFor(t, soft)
	a, _ := endpoints(t, soft, p)
	pages := p.Pages()
	offset := prm.MapOffset(prm.MapNonCached, 0, hostmem.PageSize())
	alias, err := p.Map(offset, hostmem.PageSize())
	require.NoError(t, err)
	require.Equal(t, pages+1, p.Pages())
	again, err := p.Map(offset, hostmem.PageSize())
	require.NoError(t, err)
	require.Equal(t, pages+1, p.Pages(), "the same offset is the same page")
	require.NoError(t, again.Unmap())
	require.NoError(t, a.done.Arm(false))
	p.Poll()
	word := prm.ArmDoorbell(prm.ArmValue(0, false, 0), 1)
	*hostmem.Word64(alias.Mem[prm.ArmRegister:]) = word
	require.True(t, p.Poll())
	require.Zero(t, *hostmem.Word64(alias.Mem[prm.ArmRegister:]))
	require.EqualValues(t, 1, soft.Counters().BadDoorbells, "there is no queue of that number")
	require.NoError(t, alias.Unmap())

	require.Equal(t, syscall.EINVAL, p.ProcessFile.Map(processNumber, offset, 1))
	require.Equal(t, syscall.EINVAL, p.ProcessFile.Map(processNumber, offset+1, hostmem.PageSize()))
	p.refuse = syscall.EMFILE
	require.Equal(t, syscall.EMFILE, p.ProcessFile.Map(processNumber, prm.MapOffset(prm.MapNonCached, 1, hostmem.PageSize()), hostmem.PageSize()))
	p.refuse = nil
}

// Unread events of a queue go with it, and the driver learns how many it read.
func TestProcessEventsAtDestroy(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	p := openFor(t, soft)
	e := newEndOn(t, soft, p, region.Local)
	p.pollAll(t)
	connect(t, e, e, region.Local)
	e.nop(t)
	require.NoError(t, e.done.Arm(false))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, e.done.Wait(ctx))
	e.poll(t, 2)
}

func TestProcessErrors(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	p := openFor(t, soft)
	require.Equal(t, syscall.EINVAL, p.ProcessFile.Map(processNumber, 0, hostmem.PageSize()), "no context yet")
	p.refuse = syscall.EMFILE
	_, err := mlx5.OpenFile(p, mlx5.Config{})
	require.ErrorIs(t, err, syscall.EMFILE)
	require.Equal(t, syscall.EBADF, p.ProcessFile.Map(processNumber, 0, hostmem.PageSize()), "the file is closed")
	for _, cfg := range []softnic.Config{{StaticUAR: true}, {}} {
		soft := newNIC(t, memoryOnly(cfg))
		p := openFor(t, soft)
		p.refuse = os.ErrInvalid
		_, err = mlx5.OpenFile(p, mlx5.Config{})
		require.ErrorIs(t, err, syscall.ENOMEM)
	}

	p = openFor(t, soft)
	nic, err := mlx5.OpenFile(p, mlx5.Config{})
	require.NoError(t, err)
	_, err = region.Dmabuf(nic, region.Local, 0, 0, 4096)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP, "descriptors of another process")
	p.refuse = syscall.EMFILE
	done, err := cq.New(nic, 1)
	require.NoError(t, err, "no page and no descriptor of its own")
	require.NoError(t, done.Close())
	require.NoError(t, nic.Close())

	p = openFor(t, soft)
	soft.Fail()
	_, err = soft.OpenFor(processNumber, p)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, syscall.EIO, p.ProcessFile.Map(processNumber, 0, hostmem.PageSize()))
	require.NoError(t, p.Close())
}
