package rxe

import (
	"fmt"
	"sync/atomic"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/rdma/verbs"
)

// maxSlots is the most slots of a ring that is worked with: identifiers of entries
// tell half of 16 bits of slots apart, as package ledger does.
const maxSlots = 1 << 15

// ring is a queue that the kernel made, mapped into this process. Counters given to
// it are free-running.
type ring struct {
	page     *verbs.Page
	head     *rxeabi.Queue
	elements []byte
	shift    uint32 // log2 of the distance of elements
	mask     uint32 // slots - 1
}

// mapRing maps a queue for elements of at least size bytes.
func mapRing(ctx *verbs.Context, at rxeabi.MapInfo, size int) (*ring, error) {
	page, err := ctx.Map(int64(at.Offset), int(at.Size))
	if err != nil {
		return nil, err
	}
	r, err := newRing(page, size)
	if err != nil {
		_ = page.Unmap()
		return nil, err
	}
	return r, nil
}

// newRing is the queue in a page, whose sizes, once read, are never looked at again.
func newRing(page *verbs.Page, size int) (*ring, error) {
	head := rxeabi.Size[rxeabi.Queue]()
	if len(page.Mem) < head {
		return nil, fmt.Errorf("the kernel's queue has %d bytes, less than its head", len(page.Mem))
	}
	r := &ring{page: page, head: rxeabi.View[rxeabi.Queue](page.Mem), elements: page.Mem[head:]}
	r.shift, r.mask = r.head.Log2ElemSize, r.head.IndexMask
	slots := uint64(r.mask) + 1
	if slots&(slots-1) != 0 || slots > maxSlots || r.shift > 16 || size > 1<<r.shift || slots<<r.shift > uint64(len(r.elements)) {
		return nil, fmt.Errorf("the kernel's queue of %d bytes has %d slots of 1<<%d bytes, which do not hold %d bytes each",
			len(page.Mem), slots, r.shift, size)
	}
	return r, nil
}

// slots is how many there are; one of them is always free.
func (r *ring) slots() uint32 { return r.mask + 1 }

// size is the bytes of a slot.
func (r *ring) size() int { return 1 << r.shift }

// slot is the memory of element i.
func (r *ring) slot(i uint32) []byte {
	at := int(i&r.mask) << r.shift
	return r.elements[at : at+r.size() : at+r.size()]
}

// produce hands the kernel every element before i.
func (r *ring) produce(i uint32) { atomic.StoreUint32(&r.head.ProducerIndex, i&r.mask) }

// full reports whether the kernel still has element i-(slots-1): then i has no slot.
func (r *ring) full(i uint32) bool {
	return (i+1)&r.mask == atomic.LoadUint32(&r.head.ConsumerIndex)&r.mask
}

// ready reports whether the kernel has produced element i.
func (r *ring) ready(i uint32) bool {
	return i&r.mask != atomic.LoadUint32(&r.head.ProducerIndex)&r.mask
}

// consume hands every element before i back to the kernel.
func (r *ring) consume(i uint32) { atomic.StoreUint32(&r.head.ConsumerIndex, i&r.mask) }

func (r *ring) unmap() error { return r.page.Unmap() }
