package shm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
)

// newRing is both ends of a ring in this process's memory.
func newRing(t testing.TB) (w *Writer, r *Reader) {
	mem, err := hostmem.Alloc(ringSize)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mem.Free()) })
	w, r = new(Writer), new(Reader)
	w.mem, r.mem = mem.Bytes(), mem.Bytes()
	return w, r
}

// put puts a packet, and reports whether there was room.
func put(w *Writer, tag uint16, b []byte) bool {
	room := w.Room()
	if room == nil {
		return false
	}
	w.Put(tag, copy(room, b))
	return true
}

// packet is one of n bytes that tells its number.
func packet(i, n int) []byte {
	b := bytes.Repeat([]byte{byte(i)}, n)
	binary.LittleEndian.PutUint32(b, uint32(i))
	return b
}

func requireNext(t *testing.T, r *Reader, tag uint16, want []byte) {
	t.Helper()
	require.True(t, r.Ready())
	b, got, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, tag, got)
	require.True(t, bytes.Equal(want, b))
	r.Done()
}

// Packets of all sizes come out as they were put in, and in that order, around the ring.
func TestRing(t *testing.T) {
	w, r := newRing(t)
	in, out := 0, 0
	for burst := 1; in < 5*Slots; burst = burst*7%Slots + 1 {
		for range burst {
			require.True(t, put(w, uint16(in), packet(in, 4+in*13%(MaxPacket-3))))
			in++
		}
		require.False(t, r.Ready(), "not published")
		w.Publish()
		for ; out < in; out++ {
			requireNext(t, r, uint16(out), packet(out, 4+out*13%(MaxPacket-3)))
		}
		_, _, ok := r.Next()
		require.False(t, ok)
	}
}

// A writer that finds no room is owed a wake, and gets one, once, when there is some.
func TestRoom(t *testing.T) {
	w, r := newRing(t)
	for i := range Slots {
		require.True(t, put(w, 0, packet(i, 8)))
	}
	require.False(t, put(w, 0, packet(Slots, 8)), "and what was put is published, or it would wait for ever")
	for i := range Slots / 4 {
		require.False(t, r.WakeDue(), i)
		requireNext(t, r, 0, packet(i, 8))
	}
	require.True(t, r.WakeDue())
	require.False(t, r.WakeDue())
	for i := range Slots / 4 {
		require.True(t, put(w, 0, packet(Slots+i, 8)))
	}
	require.False(t, put(w, 0, nil))
	for i := range Slots {
		requireNext(t, r, 0, packet(Slots/4+i, 8))
	}
	require.True(t, r.WakeDue())
	require.False(t, r.WakeDue(), "nobody waits")
}

// A reader that sleeps is woken once; one that does not, never.
func TestSleep(t *testing.T) {
	w, r := newRing(t)
	require.True(t, put(w, 0, packet(1, 8)))
	w.Publish()
	require.False(t, w.WakeDue())
	r.Sleep()
	require.True(t, w.WakeDue())
	require.False(t, w.WakeDue())
	r.Sleep()
	r.Wake()
	require.False(t, w.WakeDue())
}

func TestRingDoesNotAllocate(t *testing.T) {
	w, r := newRing(t)
	b := packet(1, 4096)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		put(w, 1, b)
		w.Publish()
		w.WakeDue()
		r.Next()
		r.Done()
		r.WakeDue()
	}))
}

// Whatever another process writes into a ring, the reader gets packets inside the ring or
// none, and goes on; and so does the writer.
func FuzzRing(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint16(ringHead))
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f}, uint16(ringHead))
	f.Add([]byte{0x39, 0x10, 0, 0x80}, uint16(ringHead))
	f.Add([]byte{2, 0, 0, 0}, uint16(sleepWord))
	f.Fuzz(func(t *testing.T, garbage []byte, at uint16) {
		w, r := newRing(t)
		for i := range 3 {
			put(w, 0, packet(i, 64))
		}
		w.Publish()
		copy(r.mem[at:], garbage)
		copy(r.mem[ringHead+slotSize+int(at)%slotSize:], garbage)
		for range 2 * Slots {
			b, _, ok := r.Next()
			if !ok {
				break
			}
			require.LessOrEqual(t, len(b), MaxPacket)
			require.Equal(t, len(b), cap(b))
			if b != nil {
				first := hostmem.AddrOf(r.mem)
				require.GreaterOrEqual(t, hostmem.AddrOf(b), first)
				require.LessOrEqual(t, hostmem.AddrOf(b)+uint64(len(b)), first+ringSize)
			}
			r.Done()
			r.WakeDue()
		}
		for range Slots {
			put(w, 0, garbage[:min(len(garbage), MaxPacket)])
			w.WakeDue()
		}
		w.Publish()
	})
}

func BenchmarkRing(b *testing.B) {
	w, r := newRing(b)
	p := packet(1, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		put(w, 0, p)
		w.Publish()
		r.Next()
		r.Done()
	}
}
