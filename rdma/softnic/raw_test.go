package softnic

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// raw is a driver that does nothing but what a test says: commands, entries and
// doorbells are made byte by byte.
type raw struct {
	t       testing.TB
	nic     *NIC
	file    *file
	scratch *hostmem.Memory
	pd      uint32
	async   *eventFile
	pages   []*verbs.Page // doorbell pages
	page    uint32        // number of pages[0], dynamic mode
	mem     *hostmem.Memory
	used    int
}

const rawMemory = 16 << 20 // mapped, and touched where it is used

// private is a configuration off the network of other tests, with packets: most tests
// are of what becomes of those.
func private() Config { return Config{Link: LinkMemory, Network: NewNetwork(), Packets: true} }

// passing is private without packets.
func passing() Config { return Config{Link: LinkMemory, Network: NewNetwork()} }

func newTestNIC(t testing.TB, cfg Config) *NIC {
	n, err := New(&cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if n.Close() == nil {
			c := n.Counters()
			require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.SRQs+c.AHs+c.EventFiles, "%+v", c)
			require.Zero(t, c.PinnedBytes)
		}
	})
	return n
}

// openRaw opens the NIC without a context.
func openRaw(t testing.TB, n *NIC, m memory) *raw {
	f, err := n.open(0, m)
	require.NoError(t, err)
	r := &raw{t: t, nic: n, file: f}
	r.scratch, err = hostmem.Alloc(64 << 10)
	require.NoError(t, err)
	r.mem, err = hostmem.Alloc(rawMemory)
	require.NoError(t, err)
	t.Cleanup(r.close)
	return r
}

func (r *raw) close() {
	if r.async != nil {
		_ = r.async.Close()
	}
	for _, p := range r.pages {
		require.NoError(r.t, p.Unmap())
	}
	_ = r.file.Close()
	require.NoError(r.t, r.scratch.Free())
	require.NoError(r.t, r.mem.Free())
}

// newRaw opens the NIC and makes a context, a domain and a doorbell page.
func newRaw(t testing.TB, n *NIC) *raw {
	r := openRaw(t, n, ownMemory{})
	r.context()
	r.pd = r.allocPD()
	if r.file.dynamic() {
		p, number := r.allocPage(prm.UARTypeBlueFlame)
		r.pages, r.page = append(r.pages, p), number
	} else {
		p, err := r.file.Map(prm.MapOffset(prm.MapRegular, 0, pageSize()), pageSize())
		require.NoError(t, err)
		r.pages = append(r.pages, p)
	}
	return r
}

func (r *raw) context() {
	udata := contextRequest()
	if r.nic.cfg.OldKernel {
		reply, _, err := r.write(uapi.CmdGetContext, enc(uapi.GetContext{}), 8, prm.Bytes(&udata), 72)
		require.NoError(r.t, err)
		r.takeAsync(int(binary.NativeEndian.Uint32(reply)))
		return
	}
	err := r.call(uapi.ObjectDevice, uapi.MethodGetContext, func(c *uapi.Command) {
		c.In(uapi.AttrUHWIn, prm.Bytes(&udata))
		c.Out(uapi.AttrUHWOut, 72)
	})
	require.NoError(r.t, err)
	fd := uint64(0)
	err = r.callThen(uapi.ObjectAsyncEvent, uapi.MethodAsyncEventAlloc, func(c *uapi.Command) {
		c.NewObject(uapi.AttrAsyncEventFD)
	}, func(c *uapi.Command) { fd = c.Data(0) })
	require.NoError(r.t, err)
	r.takeAsync(int(fd))
}

func (r *raw) takeAsync(fd int) {
	e, err := r.file.Events(fd)
	require.NoError(r.t, err)
	r.async = e.(*eventFile)
}

func contextRequest() prm.AllocContextRequest {
	return prm.AllocContextRequest{TotalRegisters: 16, LowLatencyRegisters: 4, MaxCQEVersion: 1,
		LibCaps: prm.LibCap4KUAR | prm.LibCapDynUAR}
}

// call issues one command.
func (r *raw) call(object, method uint16, build func(*uapi.Command)) error {
	return r.callThen(object, method, build, nil)
}

func (r *raw) callThen(object, method uint16, build, then func(*uapi.Command)) error {
	var c uapi.Command
	c.Begin(r.scratch.Bytes(), r.scratch.Addr(), object, method, uapi.DriverMLX5)
	build(&c)
	b, err := c.Bytes()
	require.NoError(r.t, err)
	if err := r.file.Ioctl(b); err != nil {
		return err
	}
	if then != nil {
		then(&c)
	}
	return nil
}

// write issues a command of INVOKE_WRITE and returns copies of both responses.
func (r *raw) write(cmd uint32, core []byte, replyLen int, uhwIn []byte, uhwOutLen int) (reply, uhwOut []byte, err error) {
	err = r.call(uapi.ObjectDevice, uapi.MethodInvokeWrite, func(c *uapi.Command) {
		c.Const(uapi.AttrWriteCmd, uint64(cmd))
		if len(core) > 0 {
			c.In(uapi.AttrCoreIn, core)
		}
		if replyLen > 0 {
			reply = c.Out(uapi.AttrCoreOut, replyLen)
		}
		if uhwIn != nil {
			c.In(uapi.AttrUHWIn, uhwIn)
		}
		if uhwOutLen > 0 {
			uhwOut = c.Out(uapi.AttrUHWOut, uhwOutLen)
		}
	})
	return append([]byte(nil), reply...), append([]byte(nil), uhwOut...), err
}

// enc is the memory of a command structure.
func enc[T any](v T) []byte { return uapi.Bytes(&v) }

func (r *raw) allocPD() uint32 {
	reply, _, err := r.write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	require.NoError(r.t, err)
	return binary.NativeEndian.Uint32(reply)
}

// allocPage allocates and maps a doorbell page.
func (r *raw) allocPage(kind uint64) (p *verbs.Page, number uint32) {
	var offset, page []byte
	err := r.call(prm.ObjectUAR, prm.MethodUARAlloc, func(c *uapi.Command) {
		c.NewObject(prm.AttrUARHandle)
		c.Const(prm.AttrUARType, kind)
		offset = c.Out(prm.AttrUARMapOffset, 8)
		c.Out(prm.AttrUARMapLength, 4)
		page = c.Out(prm.AttrUARPageNumber, 4)
	})
	require.NoError(r.t, err)
	number = binary.NativeEndian.Uint32(page)
	p, err = r.file.Map(int64(binary.NativeEndian.Uint64(offset)), pageSize())
	require.NoError(r.t, err)
	return p, number
}

// alloc takes n bytes of the raw driver's memory, page aligned.
func (r *raw) alloc(n int) (b []byte, addr uint64) {
	n = (n + pageSize() - 1) &^ (pageSize() - 1)
	require.LessOrEqual(r.t, r.used+n, rawMemory)
	b = r.mem.Bytes()[r.used : r.used+n]
	addr = r.mem.Addr() + uint64(r.used)
	r.used += n
	return b, addr
}

// rawMR is a region.
type rawMR struct {
	b           []byte
	addr        uint64
	handle, key uint32
}

func (r *raw) regMR(n int, access uint32) rawMR {
	b, addr := r.alloc(n)
	reply, _, err := r.write(uapi.CmdRegMR, enc(uapi.RegMR{Start: addr, HcaVa: addr, Length: uint64(n),
		PDHandle: r.pd, AccessFlags: access}), 12, nil, 0)
	require.NoError(r.t, err)
	return rawMR{b, addr, binary.NativeEndian.Uint32(reply), binary.NativeEndian.Uint32(reply[4:])}
}

// rawCQ is a completion queue.
type rawCQ struct {
	r          *raw
	buf        []byte
	record     []byte
	entries    uint32
	size       uint32 // of an entry
	handle     uint32
	cqn        uint32
	consumed   uint32
	events     *eventFile
	eventFD    int32
	noConsumer bool // the record is not updated
}

func (r *raw) cqUdata(buf, record uint64) prm.CreateCQRequest {
	u := prm.CreateCQRequest{BufAddr: buf, RecordAddr: record, EntrySize: prm.CQESize}
	if r.file.dynamic() {
		u.Flags, u.UARPage = prm.CQUARPageIndex, uint16(r.page)
	}
	return u
}

func (r *raw) createCQ(entries uint32, events bool) *rawCQ {
	return r.createCQOf(prm.CQESize, entries, events)
}

// createCQOf is createCQ with entries of a size.
func (r *raw) createCQOf(size, entries uint32, events bool) *rawCQ {
	q := &rawCQ{r: r, entries: entries, size: size, eventFD: -1}
	if events {
		reply, _, err := r.write(uapi.CmdCreateCompChannel, enc(uapi.CreateCompChannel{}), 4, nil, 0)
		require.NoError(r.t, err)
		q.eventFD = int32(binary.NativeEndian.Uint32(reply))
		e, err := r.file.Events(int(q.eventFD))
		require.NoError(r.t, err)
		q.events = e.(*eventFile)
		r.t.Cleanup(func() { _ = q.events.Close() })
	}
	var buf, record uint64
	q.buf, buf = r.cqRing(size, entries)
	q.record, record = r.alloc(prm.RecordSize)
	u := r.cqUdata(buf, record)
	u.EntrySize = size
	reply, uhw, err := r.write(uapi.CmdCreateCQ, enc(uapi.CreateCQ{UserHandle: 0xc0, Cqe: entries - 1, CompChannel: q.eventFD}),
		8, prm.Bytes(&u), 8)
	require.NoError(r.t, err)
	require.Equal(r.t, entries-1, binary.NativeEndian.Uint32(reply[4:]))
	q.handle, q.cqn = binary.NativeEndian.Uint32(reply), binary.NativeEndian.Uint32(uhw)
	return q
}

// cqRing is memory for completions, all fresh.
func (r *raw) cqRing(size, entries uint32) (buf []byte, addr uint64) {
	buf, addr = r.alloc(int(entries * size))
	for end := size; end <= entries*size; end += size {
		buf[end-1] = prm.CQEFresh
	}
	return buf, addr
}

// at is the entry that counter i falls to, all of its bytes, and as it is read.
func (q *rawCQ) at(i uint32) (whole []byte, e prm.CQE) {
	whole = q.buf[i%q.entries*q.size:][:q.size]
	return whole, whole[q.size-prm.CQESize:]
}

// inline is the data in the completion read last.
func (q *rawCQ) inline() []byte {
	whole, e := q.at(q.consumed - 1)
	if e.Format() == prm.CQEInline64 {
		require.EqualValues(q.r.t, 2*prm.CQESize, q.size)
	}
	return whole[:e.ByteCount()]
}

// next is the next completion, or nil.
func (q *rawCQ) next() prm.CQE {
	_, e := q.at(q.consumed)
	own := prm.OwnByte(atomic.LoadUint32(hostmem.Word32(e[prm.CQELastWord:])))
	if prm.CQEOpcode(own>>4) == prm.CQEInvalid || uint32(own&1) != q.consumed/q.entries&1 {
		return nil
	}
	q.consumed++
	if !q.noConsumer {
		q.store(prm.RecordCI, q.consumed&prm.MaxNumber)
	}
	return append(prm.CQE(nil), e...)
}

func (q *rawCQ) store(word int, v uint32) {
	atomic.StoreUint32(hostmem.Word32(q.record[4*word:]), prm.BE32(v))
}

// wait is next that waits.
func (q *rawCQ) wait() (e prm.CQE) {
	q.r.t.Helper()
	require.Eventually(q.r.t, func() bool { e = q.next(); return e != nil }, 10*time.Second, time.Millisecond)
	return e
}

// wants checks that the next completion is an error with this cause.
func (q *rawCQ) wants(op prm.CQEOpcode, s prm.Syndrome, d detail) prm.CQE {
	q.r.t.Helper()
	e := q.wait()
	require.Equal(q.r.t, op, e.Opcode(), "%v %v", e.Syndrome(), detail(e.VendorSyndrome()))
	if op.IsError() {
		require.Equal(q.r.t, s, e.Syndrome(), "%v", detail(e.VendorSyndrome()))
		require.Equal(q.r.t, d, detail(e.VendorSyndrome()))
	}
	return e
}

func (q *rawCQ) arm(solicited bool, sequence, ci uint32) {
	v := prm.ArmValue(sequence, solicited, ci)
	q.store(prm.RecordArm, v)
	q.r.ring(0, prm.ArmRegister, prm.ArmDoorbell(v, q.cqn))
}

// ring stores to a doorbell page.
func (r *raw) ring(page, offset int, v uint64) {
	atomic.StoreUint64(hostmem.Word64(r.pages[page].Mem[offset:]), v)
	r.pages[page].Wake(offset)
}

func (m rawMR) segment(off, n int) prm.Segment {
	return prm.Segment{Addr: m.addr + uint64(off), LKey: m.key, Length: uint32(n)}
}

// readAsync is the next asynchronous event of a kind, others skipped.
func (r *raw) readAsync(kind uint32) uint64 {
	r.t.Helper()
	require.NoError(r.t, r.async.SetReadDeadline(time.Now().Add(10*time.Second)))
	for {
		var b [16]byte
		_, err := r.async.Read(b[:])
		require.NoError(r.t, err, "waiting for event %d", kind)
		if binary.NativeEndian.Uint32(b[8:]) == kind {
			return binary.NativeEndian.Uint64(b[:])
		}
	}
}

func requireErrno(t testing.TB, want syscall.Errno, err error, msg ...any) {
	t.Helper()
	if want == 0 {
		require.NoError(t, err, msg...)
		return
	}
	require.Equal(t, want, err, msg...)
}
