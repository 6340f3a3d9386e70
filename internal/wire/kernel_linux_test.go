package wire

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// eachWay runs a test with the software NIC as the requester and the kernel as the
// responder, and the other way round.
func eachWay(t *testing.T, n network, c softnic.Config, bytes int, play func(t *testing.T, from, to *end)) {
	c.Addr = n.Soft
	soft, kernel := softEnd(t, c, bytes), kernelEnd(t, n.Kernel, bytes)
	t.Run("to the kernel", func(t *testing.T) { play(t, soft, kernel) })
	t.Run("from the kernel", func(t *testing.T) { play(t, kernel, soft) })
}

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

// same compares without printing megabytes.
func same(t *testing.T, want, got []byte, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	if bytes.Equal(want, got) {
		return
	}
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "other bytes", "%s: byte %d of %d is %#x, not %#x", what, i, len(want), got[i], want[i])
		}
	}
}

// move sends, writes and reads n bytes from one end's memory to the other's.
func (l *line) move(n, seed int) {
	l.t.Helper()
	l.send(n, seed)
	l.write(n, seed+1)
	l.writeImm(n, seed+2)
	l.read(n, seed+3)
}

// memories is the first n bytes of both ends.
func (l *line) memories(n int) (mine, theirs []byte) {
	return l.from.memory.Bytes()[:n], l.to.memory.Bytes()[:n]
}

func (l *line) send(n, seed int) {
	l.t.Helper()
	mine, theirs := l.memories(n)
	require.NoError(l.t, l.b.Receive(uint64(seed), l.to.memory.Local(0, n)))
	fill(mine, seed)
	l.post(work.Entry{Op: work.SendImm, Local: l.from.memory.Local(0, n), Imm: uint32(seed) + 1<<24})
	c := l.good(l.b)
	require.Equal(l.t, uint64(seed), c.ID)
	require.EqualValues(l.t, n, c.Bytes)
	require.True(l.t, c.HasImm)
	require.EqualValues(l.t, seed+1<<24, c.Imm)
	l.good(l.a)
	same(l.t, mine, theirs, "send")
}

func (l *line) write(n, seed int) {
	l.t.Helper()
	mine, theirs := l.memories(n)
	fill(mine, seed)
	l.post(work.Entry{Op: work.Write, Local: l.from.memory.Local(0, n), Remote: l.target()})
	l.good(l.a)
	same(l.t, mine, theirs, "write")
}

func (l *line) writeImm(n, seed int) {
	l.t.Helper()
	mine, theirs := l.memories(n)
	require.NoError(l.t, l.b.Receive(2))
	fill(mine, seed)
	l.post(work.Entry{Op: work.WriteImm, Local: l.from.memory.Local(0, n), Remote: l.target(), Imm: 0xfffefdfc})
	c := l.good(l.b)
	require.Equal(l.t, work.ReceiveWrite, c.Op)
	require.EqualValues(l.t, 0xfffefdfc, c.Imm)
	l.good(l.a)
	same(l.t, mine, theirs, "write with immediate")
}

func (l *line) read(n, seed int) {
	l.t.Helper()
	mine, theirs := l.memories(n)
	fill(theirs, seed)
	l.post(work.Entry{Op: work.Read, Local: l.from.memory.Local(0, n), Remote: l.target()})
	require.EqualValues(l.t, n, l.good(l.a).Bytes)
	same(l.t, theirs, mine, "read")
}

func (l *line) target() work.Target {
	to, err := l.to.memory.Remote(0)
	require.NoError(l.t, err)
	return to
}

// count does both atomics on a number of the other end.
func (l *line) count() {
	number := func(e *end) []byte { return e.memory.Bytes()[:8] }
	local, remote := l.from.memory.Local(0, 8), l.target()
	value := uint64(0x0102030405060708)
	binary.NativeEndian.PutUint64(number(l.to), value)
	for _, e := range []struct {
		entry work.Entry
		after uint64
	}{
		{work.Entry{Op: work.FetchAdd, Add: 1<<63 + 5}, value + 1<<63 + 5},
		{work.Entry{Op: work.CompareSwap, Compare: 1, Swap: 2}, value + 1<<63 + 5},
		{work.Entry{Op: work.CompareSwap, Compare: value + 1<<63 + 5, Swap: 9}, 9},
		{work.Entry{Op: work.FetchAdd, Add: ^uint64(0)}, 8},
	} {
		before := binary.NativeEndian.Uint64(number(l.to))
		e.entry.Local, e.entry.Remote = local, remote
		l.post(e.entry)
		l.good(l.a)
		require.Equal(l.t, before, binary.NativeEndian.Uint64(number(l.from)), "what was there")
		require.Equal(l.t, e.after, binary.NativeEndian.Uint64(number(l.to)))
	}
}

// Every operation, each MTU, messages about as long as a packet and of several.
func TestKernelOperations(t *testing.T) {
	lay(t)
	for name, n := range networks {
		t.Run(name, func(t *testing.T) {
			eachWay(t, n, softnic.Config{}, 1<<17, func(t *testing.T, from, to *end) {
				for mtu := verbs.MTU256; mtu <= verbs.MTU4096; mtu++ {
					l := connect(t, from, to, from.pair(), to.pair(), mtu)
					m := mtu.Bytes()
					for i, size := range []int{0, 1, 2, 3, 4, m - 1, m, m + 1, 2 * m, 5*m + 3, 1<<16 + 7} {
						l.move(size, i)
					}
					l.count()
				}
			})
		})
	}
}

// The kernel's own messages are of 8 MiB at most, or more with its version; its peer
// may write and read more. Of a READ the software NIC asks for so much at a time as
// its socket has room for; what the kernel asks for comes in one answer.
func TestKernelLongMessages(t *testing.T) {
	lay(t)
	const size = 4 << 20
	eachWay(t, networks["IPv4"], softnic.Config{}, 4*size, func(t *testing.T, from, to *end) {
		l := connect(t, from, to, from.pair(), to.pair(), verbs.MTU4096)
		l.move(size, 1)
		l.send(2*size, 2)
		l.write(2*size, 3)
		if from.soft != nil {
			l.write(4*size, 4)
			l.read(4*size, 5)
			return
		}
		mine, theirs := l.memories(4 * size)
		fill(theirs, 5)
		for off := 0; off < 4*size; off += 2 * size {
			at := l.target()
			at.Addr += uint64(off)
			l.post(work.Entry{Op: work.Read, Local: from.memory.Local(off, 2*size), Remote: at})
		}
		l.good(l.a)
		l.good(l.a)
		same(t, theirs, mine, "reads at once")
	})
}

// Messages during which the packet sequence numbers start over: requests, and the
// responses of a read.
func TestKernelSequenceNumbersWrap(t *testing.T) {
	lay(t)
	const packets = 1 << 14 // fewer, and more queue pairs are made until one fits
	size := packets * verbs.MTU256.Bytes()
	eachWay(t, networks["IPv6"], softnic.Config{}, size, func(t *testing.T, from, to *end) {
		for _, op := range []work.Op{work.Send, work.Read} {
			var a *pair
			for a = from.pair(); a.Endpoint().PSN+packets <= verbs.MaxPSN; a = from.pair() {
				a.destroy() // a queue pair starts where it likes
			}
			l := connect(t, from, to, a, to.pair(), verbs.MTU256)
			mine, theirs := from.memory.Bytes(), to.memory.Bytes()
			fill(mine, 1)
			fill(theirs, 2)
			require.NoError(t, l.b.Receive(1, to.memory.Local(0, size)))
			e := work.Entry{Op: op, Local: from.memory.Local(0, size)}
			if op == work.Read {
				e.Remote = l.target()
			}
			l.post(e)
			l.good(l.a)
			same(t, mine, theirs, op.String())
			l.count()
			if from.soft == nil {
				return // a queue pair of the kernel takes its time, and thousands of them
			}
		}
	})
}

// A message that finds no receive is sent again until it finds one.
func TestKernelReceiverNotReady(t *testing.T) {
	lay(t)
	eachWay(t, networks["IPv4"], softnic.Config{}, 1<<14, func(t *testing.T, from, to *end) {
		l := connect(t, from, to, from.pair(), to.pair(), verbs.MTU1024)
		naks := func() uint64 { c := l.counters(); return c.RNRNaksReceived + c.RNRNaksSent }
		const size = 5000
		for i, op := range []work.Op{work.Send, work.WriteImm} {
			before := naks()
			fill(from.memory.Bytes()[:size], i)
			e := work.Entry{Op: op, Local: from.memory.Local(0, size)}
			if op == work.WriteImm {
				e.Remote = l.target()
			}
			l.post(e)
			require.Eventually(t, func() bool { return naks() >= before+2 }, waitTime, time.Millisecond, "%+v", l.counters())
			require.NoError(t, l.b.Receive(1, to.memory.Local(0, size)))
			l.good(l.b)
			l.good(l.a)
			same(t, from.memory.Bytes()[:size], to.memory.Bytes()[:size], op.String())
		}
	})
}

// What the responder refuses ends both queue pairs in the same way.
func TestKernelRefusals(t *testing.T) {
	lay(t)
	capture := filepath.Join(t.TempDir(), "pcap")
	eachWay(t, networks["IPv4"], softnic.Config{PcapFile: capture}, 1<<14, func(t *testing.T, from, to *end) {
		for _, op := range []work.Op{work.Write, work.Read, work.FetchAdd} {
			l := connect(t, from, to, from.pair(), to.pair(), verbs.MTU1024)
			bad := l.target()
			bad.RKey ^= 1 << 16
			l.post(work.Entry{Op: op, Local: from.memory.Local(0, 8), Remote: bad})
			require.Equal(t, verbs.RemoteAccess, l.next(l.a).Status, op)
		}
		l := connect(t, from, to, from.pair(), to.pair(), verbs.MTU1024)
		require.NoError(t, l.b.Receive(1, to.memory.Local(0, 4999)))
		l.post(work.Entry{Op: work.Send, Local: from.memory.Local(0, 5000)})
		want := verbs.RemoteInvalid
		if to.soft == nil {
			want = verbs.RemoteOperation // the kernel's NAK is of that kind, as the capture shows
		}
		require.Equal(t, want, l.next(l.a).Status)
		require.NotEqual(t, verbs.Success, l.next(l.b).Status)
		nak := byte(0x61) // invalid request
		if to.soft == nil {
			nak = 0x63 // remote operational error
		}
		require.Equal(t, nak, lastSyndrome(t, capture))
	})
}

// lastSyndrome is that of the last acknowledgement in a capture of packets over IPv4.
func lastSyndrome(t *testing.T, capture string) (syndrome byte) {
	const file, record, headers, bth, acknowledge = 24, 16, 14 + 20 + 8, 12, 0x11
	b, err := os.ReadFile(capture)
	require.NoError(t, err)
	for b = b[file:]; len(b) > 0; {
		size := binary.LittleEndian.Uint32(b[8:])
		if packet := b[record:][headers:]; packet[0] == acknowledge {
			syndrome = packet[bth]
		}
		b = b[record+size:]
	}
	return syndrome
}

// What the software NIC sends is lost, comes twice, late or damaged.
func TestKernelBadWire(t *testing.T) {
	lay(t)
	faults := softnic.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.01}
	const size, rounds = 20001, 10
	eachWay(t, networks["IPv4"], softnic.Config{Faults: faults, Seed: 1}, 1<<15, func(t *testing.T, from, to *end) {
		l := connect(t, from, to, from.pair(), to.pair(), verbs.MTU1024)
		for i := range rounds {
			l.move(size, i)
			l.count()
		}
		t.Logf("%+v", l.counters())
	})
}
