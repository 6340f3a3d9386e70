package device

import (
	"fmt"
	"sync"

	"github.com/farwire/farwire/internal/hostmem"
)

// recordSize is the distance between doorbell records: a cache line each, so
// that two queues' owners do not slow each other down.
const recordSize = 64

// Record is one doorbell record: the two big-endian words through which a queue
// tells the NIC how far it got. Which word means what is in internal/prm.
type Record struct {
	Words [2]*uint32
	Addr  uint64
	mem   []byte
}

// records hands out doorbell records. The kernel remembers the page of a record
// by its address for as long as any object uses it, so pages are kept until the
// device is closed and its records are recycled.
type records struct {
	mu    sync.Mutex
	pages []*hostmem.Memory
	free  []*Record
}

// get is a zeroed record.
func (r *records) get() (*Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) == 0 {
		if err := r.grow(); err != nil {
			return nil, fmt.Errorf("doorbell record: %w", err)
		}
	}
	rec := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	clear(rec.mem)
	return rec, nil
}

// put takes a record back once nothing in the kernel or the NIC uses it.
func (r *records) put(rec *Record) {
	r.mu.Lock()
	r.free = append(r.free, rec)
	r.mu.Unlock()
}

func (r *records) grow() error {
	page, err := hostmem.Alloc(hostmem.PageSize())
	if err != nil {
		return err
	}
	r.pages = append(r.pages, page)
	for b := page.Bytes(); len(b) >= recordSize; b = b[recordSize:] {
		mem := b[:recordSize]
		r.free = append(r.free, &Record{
			Words: [2]*uint32{hostmem.Word32(mem), hostmem.Word32(mem[4:])},
			Addr:  hostmem.AddrOf(mem),
			mem:   mem,
		})
	}
	return nil
}

// close unmaps every page; the kernel knows no object of the device any more.
func (r *records) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.pages) > 0 {
		if err := r.pages[len(r.pages)-1].Free(); err != nil {
			return fmt.Errorf("doorbell records: %w", err)
		}
		r.pages = r.pages[:len(r.pages)-1]
	}
	r.free = nil
	return nil
}
