package connectx

import (
	"encoding/binary"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/vfiouser"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// ram is a guest's memory, from address 0 on.
type ram struct {
	mu sync.Mutex
	b  []byte
}

func (m *ram) access(addr, n uint64, f func(b []byte)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addr > uint64(len(m.b)) || n > uint64(len(m.b))-addr {
		return syscall.EFAULT
	}
	f(m.b[addr : addr+n])
	return nil
}

func (m *ram) Read(addr uint64, p []byte) error {
	return m.access(addr, uint64(len(p)), func(b []byte) { copy(p, b) })
}

func (m *ram) Write(addr uint64, p []byte) error {
	return m.access(addr, uint64(len(p)), func(b []byte) { copy(b, p) })
}

func (m *ram) Load32(addr uint64) (v uint32, ok bool) {
	err := m.access(addr, 4, func(b []byte) { v = binary.NativeEndian.Uint32(b) })
	return v, err == nil
}

func (m *ram) Store32(addr uint64, v uint32) bool {
	return m.access(addr, 4, func(b []byte) { binary.NativeEndian.PutUint32(b, v) }) == nil
}

func (m *ram) CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool) {
	err := m.access(addr, 8, func(b []byte) {
		if old = binary.NativeEndian.Uint64(b); old == compare {
			binary.NativeEndian.PutUint64(b, swap)
		}
	})
	return old, err == nil
}

func (m *ram) Add64(addr, n uint64) (old uint64, ok bool) {
	err := m.access(addr, 8, func(b []byte) {
		old = binary.NativeEndian.Uint64(b)
		binary.NativeEndian.PutUint64(b, old+n)
	})
	return old, err == nil
}

func (m *ram) Pin(addr, n uint64, _ bool) bool { return m.access(addr, n, func([]byte) {}) == nil }

// guest is a driver: it has memory of 4 MiB, of which it gives out pages from
// firstFree on.
type guest struct {
	t     testing.TB
	d     *Device
	nic   *softnic.NIC
	mem   *ram
	next  uint64
	mu    sync.Mutex
	raise []int // vectors raised

	page uint32 // doorbell page
}

const (
	queueAddr = 0x1000
	inBoxes   = 0x10000
	outBoxes  = 0x100000
	firstFree = 0x200000
	ramSize   = 4 << 20
	token     = 0x5a
)

func newGuest(t testing.TB) *guest {
	t.Helper()
	return newGuestOn(t, softnic.Config{LinkLayer: verbs.LinkInfiniBand, Network: softnic.NewNetwork()})
}

func newGuestOn(t testing.TB, c softnic.Config) *guest {
	t.Helper()
	c.Link = softnic.LinkMemory
	nic, err := softnic.New(&c)
	require.NoError(t, err)
	g := &guest{t: t, nic: nic, mem: &ram{b: make([]byte, ramSize)}, next: firstFree}
	g.d, err = New(Config{NIC: nic, Memory: g.mem, Raise: func(v int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.raise = append(g.raise, v)
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, g.d.Close())
		require.NoError(t, nic.Close())
	})
	g.start()
	return g
}

// start makes the device a master of the bus and takes it into use, as a driver does
// after power-on.
func (g *guest) start() {
	g.master(true)
	g.write(regQueueHigh, 0)
	g.write(regQueueLow, queueAddr)
	for _, op := range []ifc.Opcode{ifc.EnableDevice, ifc.InitDevice} {
		_, _ = g.try(command(op, ifc.HeadSize), ifc.HeadSize)
	}
}

// master sets or clears the one bit of the command register that DMA needs.
func (g *guest) master(may bool) {
	command := []byte{0, 0}
	if may {
		command[0] = 1 << 2
	}
	g.d.Write(vfiouser.ConfigSpace, 4, command)
}

// raised is the vectors raised since it was called last.
func (g *guest) raised() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.raise
	g.raise = nil
	return v
}

func (g *guest) write(offset uint64, v uint32) {
	g.d.Write(vfiouser.BAR0, offset, be.AppendUint32(nil, v))
}

func (g *guest) read(offset uint64) uint32 {
	var b [4]byte
	g.d.Read(vfiouser.BAR0, offset, b[:])
	return be.Uint32(b[:])
}

// alloc gives out whole pages.
func (g *guest) alloc(n int) uint64 {
	at := g.next
	g.next += uint64(n+pageSize-1) &^ (pageSize - 1)
	require.LessOrEqual(g.t, g.next, uint64(ramSize))
	return at
}

// chain puts data into mailboxes, as many as hold n bytes.
func (g *guest) chain(at uint64, data []byte, n int) {
	for number := uint32(0); n > 0; number++ {
		var box [boxSize]byte
		data = data[copy(box[:boxData], data):]
		be.PutUint64(box[boxNext:], at+1024)
		be.PutUint32(box[boxNumber:], number)
		box[boxToken] = token
		require.NoError(g.t, g.mem.Write(at, box[:]))
		at, n = at+1024, n-boxData
	}
}

// prepare puts a command into slot 0.
func (g *guest) prepare(in []byte, out int) (slot [slotSize]byte) {
	slot[slotType] = slotTypePCIe
	be.PutUint32(slot[slotInLen:], uint32(len(in)))
	be.PutUint32(slot[slotOutLen:], uint32(out))
	be.PutUint64(slot[slotInBox:], inBoxes)
	be.PutUint64(slot[slotOutBox:], outBoxes)
	slot[slotToken], slot[slotOwner] = token, slotOwned
	rest := in[copy(slot[slotIn:slotIn+slotInline], in):]
	g.chain(inBoxes, rest, len(rest))
	g.chain(outBoxes, nil, out-slotInline)
	return slot
}

// submit has the device take slot 0.
func (g *guest) submit(slot [slotSize]byte) (after [slotSize]byte) {
	require.NoError(g.t, g.mem.Write(queueAddr, slot[:]))
	g.write(regDoorbell, 1)
	require.NoError(g.t, g.mem.Read(queueAddr, after[:]))
	return after
}

// try carries out a command that must be delivered.
func (g *guest) try(in []byte, outLen int) (out []byte, status ifc.Status) {
	g.t.Helper()
	slot := g.submit(g.prepare(in, outLen))
	require.Zero(g.t, slot[slotOwner], "delivery status %#x", slot[slotOwner]>>1)
	out = append(out, slot[slotOut:slotOut+slotInline]...)
	for at := uint64(outBoxes); len(out) < outLen; at += 1024 {
		var box [boxData]byte
		require.NoError(g.t, g.mem.Read(at, box[:]))
		out = append(out, box[:]...)
	}
	return out[:outLen], ifc.Status(ifc.Answer.Status.Get(out))
}

// do is try for a command that must succeed.
func (g *guest) do(in []byte, outLen int) []byte {
	g.t.Helper()
	out, status := g.try(in, outLen)
	require.Zero(g.t, status, "opcode %#x", ifc.Command.Opcode.Get(in))
	return out
}

// number is do for a command that makes an object.
func (g *guest) number(in []byte) uint32 {
	g.t.Helper()
	return uint32(ifc.Answer.Number.Get(g.do(in, ifc.HeadSize)))
}

// command is the input of a command of n bytes.
func command(op ifc.Opcode, n int) []byte {
	in := make([]byte, n)
	ifc.Command.Opcode.Put(in, uint64(op))
	return in
}

// about is the input of a command about an object.
func about(op ifc.Opcode, object uint32) []byte {
	in := command(op, ifc.HeadSize)
	ifc.Object.Put(in, uint64(object))
	return in
}

// withPages appends a list of pages for size bytes, and gives out the memory.
func (g *guest) withPages(in []byte, size int) (whole []byte, addr uint64) {
	addr = g.alloc(size)
	for at := addr; at < addr+uint64(size); at += pageSize {
		in = be.AppendUint64(in, at)
	}
	return in, addr
}

const eqEntries = 64

// createEQ makes an event queue of eqEntries entries, which belong to nobody yet.
func (g *guest) createEQ(vector uint64, mask uint64) (number uint32, addr uint64) {
	in := command(ifc.CreateEQ, ifc.Pages)
	c := in[ifc.Context:]
	ifc.EventQueue.LogSize.Put(c, 6)
	ifc.EventQueue.Vector.Put(c, vector)
	be.PutUint64(in[ifc.EventMask:], mask)
	in, addr = g.withPages(in, eqEntries*ifc.EventSize)
	for i := range uint64(eqEntries) {
		require.NoError(g.t, g.mem.Write(addr+i*ifc.EventSize+ifc.EventOwner, []byte{1}))
	}
	return g.number(in), addr
}

func (g *guest) event(addr uint64, index int) (v entry) {
	require.NoError(g.t, g.mem.Read(addr+uint64(index)*ifc.EventSize, v[:]))
	return v
}

// armEQ arms an event queue from an index on.
func (g *guest) armEQ(number, index uint32) {
	g.write(uint64(g.page)*pageSize+eqArm, number<<24|index)
}
