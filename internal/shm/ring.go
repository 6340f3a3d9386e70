package shm

import (
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
)

// The layout of a ring. Its head is two lines, each written by one side for the other:
//
//	0    the reader sleeps: 1 asks the writer for a wake after its next packet
//	64   the writer waits: 1 asks the reader for a wake once there is room
//
// Slots follow. A slot's first word is 0 while the slot is the writer's; else it is the
// reader's, and holds fullSlot, the tag and the size of the packet behind it.
const (
	// MaxPacket is the largest packet, in bytes.
	MaxPacket = slotSize - slotHead

	// Slots is how many packets a ring holds.
	Slots = 128

	slotSize = 65 * 64
	slotHead = 8
	ringHead = 2 * 64
	ringSize = ringHead + Slots*slotSize

	fullSlot  = 1 << 31
	tagShift  = 14
	sizeMask  = 1<<tagShift - 1
	sleepWord = 0
	waitWord  = 64
)

// end is what both sides of a ring have: the memory, and which slot is next. Each keeps
// the latter to itself, so that there is no index in the memory to be lied about.
type end struct {
	mem  []byte
	next atomic.Uint32 // changed by its user only, read by Reader.Ready too
}

func (e *end) slot(i uint32) []byte {
	at := ringHead + int(i%Slots)*slotSize
	return e.mem[at : at+slotSize : at+slotSize]
}

func (e *end) word(at int) *uint32 { return hostmem.Word32(e.mem[at:]) }

func head(slot []byte) *uint32 { return hostmem.Word32(slot) }

// Writer is the sending end of a ring. One goroutine at a time uses it.
type Writer struct {
	end
	put   uint32        // packets that were put and are not published
	heads [Slots]uint32 // of these, what is to be published, the first one's first
}

// Room returns the place of the next packet, MaxPacket bytes in the ring, or nil if it is
// taken; then the reader owes a wake once there is one. What the caller reads from it may
// be anything.
func (w *Writer) Room() []byte {
	if w.put == Slots {
		w.Publish()
	}
	slot := w.slot(w.next.Load() + w.put)
	if atomic.LoadUint32(head(slot)) != 0 {
		w.Publish()
		atomic.StoreUint32(w.word(waitWord), 1)
		if atomic.LoadUint32(head(slot)) != 0 {
			return nil
		}
	}
	return slot[slotHead:]
}

// Put puts the packet of n bytes that is at the place that Room returned last.
func (w *Writer) Put(tag uint16, n int) {
	w.heads[w.put] = fullSlot | uint32(tag)<<tagShift | uint32(n)
	w.put++
}

// Publish gives the reader what was put, the first packet last: so the reader, which looks
// for that one, does not get in the way before it has all of them.
func (w *Writer) Publish() {
	next := w.next.Load()
	for i := w.put; i > 0; i-- {
		atomic.StoreUint32(head(w.slot(next+i-1)), w.heads[i-1])
	}
	w.next.Store((next + w.put) % Slots)
	w.put = 0
}

// WakeDue reports whether the reader sleeps and is to be woken. It says so once.
func (w *Writer) WakeDue() bool { return take(w.word(sleepWord)) }

// take takes a request that the other side has left in a word.
func take(word *uint32) bool {
	return atomic.LoadUint32(word) == 1 && atomic.CompareAndSwapUint32(word, 1, 0)
}

// Reader is the receiving end of a ring. One goroutine at a time uses it, but for Ready,
// Sleep and Wake, which any may call.
type Reader struct {
	end
	taken int // since the writer was last asked whether it waits
}

// Ready reports whether there is a packet.
func (r *Reader) Ready() bool { return atomic.LoadUint32(head(r.slot(r.next.Load()))) != 0 }

// Next returns the next packet and its tag; ok is false if there is none, and the packet nil
// if what the ring says of it cannot be. Its bytes are in the ring until Done: the writer may
// still change them, at any time, so that nothing in them may be looked at twice.
func (r *Reader) Next() (packet []byte, tag uint16, ok bool) {
	slot := r.slot(r.next.Load())
	v := atomic.LoadUint32(head(slot))
	if v == 0 {
		return nil, 0, false
	}
	if n := v & sizeMask; v&fullSlot != 0 && n <= MaxPacket {
		packet = slot[slotHead : slotHead+n : slotHead+n]
	}
	return packet, uint16(v >> tagShift), true
}

// Done gives the place of the packet that Next returned back to the writer.
func (r *Reader) Done() {
	i := r.next.Load()
	atomic.StoreUint32(head(r.slot(i)), 0)
	r.next.Store((i + 1) % Slots)
	r.taken++
}

// WakeDue reports whether the writer waits for room and is to be told that there is some:
// as soon as the ring is empty, and before that when a part of it has been read. It says
// so once.
func (r *Reader) WakeDue() bool {
	if r.taken < Slots/4 && r.Ready() {
		return false
	}
	r.taken = 0
	return take(r.word(waitWord))
}

// Sleep asks the writer for a wake after its next packet. Packets that came before are
// to be looked for after it.
func (r *Reader) Sleep() { atomic.StoreUint32(r.word(sleepWord), 1) }

// Wake takes Sleep back. A wake may be on its way all the same.
func (r *Reader) Wake() {
	if atomic.LoadUint32(r.word(sleepWord)) != 0 {
		atomic.StoreUint32(r.word(sleepWord), 0)
	}
}
