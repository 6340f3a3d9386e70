package device

import (
	"sync/atomic"

	"github.com/farwire/farwire/rdma/internal/ledger"
)

// Table finds the ledger of a completion's queue pair by a key of 24 bits: the
// user index (completion entries of version 1) or the queue pair number
// (version 0). It is safe for concurrent use.
type Table struct {
	pages [1 << tablePageBits]atomic.Pointer[tablePage]
}

const tablePageBits = 12

type tablePage [1 << tablePageBits]atomic.Pointer[ledger.Pair]

// Get is the ledger at key, or nil. Bits above the 24th do not count.
func (t *Table) Get(key uint32) *ledger.Pair {
	page := t.pages[key>>tablePageBits&(1<<tablePageBits-1)].Load()
	if page == nil {
		return nil
	}
	return page[key&(1<<tablePageBits-1)].Load()
}

// Set puts p at key; nil takes it away. The ledger that was there has left.
func (t *Table) Set(key uint32, p *ledger.Pair) {
	slot := &t.pages[key>>tablePageBits&(1<<tablePageBits-1)]
	page := slot.Load()
	if page == nil {
		slot.CompareAndSwap(nil, new(tablePage)) // unless another Set just did
		page = slot.Load()
	}
	if old := page[key&(1<<tablePageBits-1)].Swap(p); old != nil {
		old.Leave()
	}
}
