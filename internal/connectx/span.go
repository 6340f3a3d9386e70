package connectx

import (
	"syscall"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/rdma/softnic"
)

// span is the memory of an object: its buffer from address 0 on, in pages of guest
// memory that a command listed; and, with recordBit, any other guest memory, which is
// where its doorbell record is.
type span struct {
	guest softnic.Memory
	pages []uint64
	shift uint // of the pages' size
}

var _ softnic.Memory = (*span)(nil)

// recordBit is set in addresses that are not in the pages.
const recordBit = 1 << 63

// at is where addr is in guest memory, and how many of n bytes from there on are in
// one piece; 0 if it is outside.
func (s *span) at(addr, n uint64) (to, piece uint64) {
	if addr&recordBit != 0 {
		return addr &^ recordBit, n
	}
	page, off := addr>>s.shift, addr&(1<<s.shift-1)
	if page >= uint64(len(s.pages)) {
		return 0, 0
	}
	return s.pages[page] + off, min(n, 1<<s.shift-off)
}

func (s *span) Read(addr uint64, p []byte) error {
	return s.each(addr, p, s.guest.Read)
}

func (s *span) Write(addr uint64, p []byte) error {
	return s.each(addr, p, s.guest.Write)
}

func (s *span) each(addr uint64, p []byte, access func(uint64, []byte) error) error {
	for len(p) > 0 {
		to, n := s.at(addr, uint64(len(p)))
		if n == 0 {
			return syscall.EFAULT
		}
		if err := access(to, p[:n]); err != nil {
			return err
		}
		addr, p = addr+n, p[n:]
	}
	return nil
}

// word is where the word of size bytes at addr is in guest memory.
func (s *span) word(addr, size uint64) (to uint64, ok bool) {
	to, n := s.at(addr, size)
	return to, n == size
}

func (s *span) Load32(addr uint64) (uint32, bool) {
	to, ok := s.word(addr, 4)
	if !ok {
		return 0, false
	}
	return s.guest.Load32(to)
}

func (s *span) Store32(addr uint64, v uint32) bool {
	to, ok := s.word(addr, 4)
	return ok && s.guest.Store32(to, v)
}

func (s *span) CompareSwap64(addr, compare, swap uint64) (uint64, bool) {
	to, ok := s.word(addr, 8)
	if !ok {
		return 0, false
	}
	return s.guest.CompareSwap64(to, compare, swap)
}

func (s *span) Add64(addr, n uint64) (uint64, bool) {
	to, ok := s.word(addr, 8)
	if !ok {
		return 0, false
	}
	return s.guest.Add64(to, n)
}

func (s *span) Pin(addr, n uint64, write bool) bool {
	for n > 0 {
		to, piece := s.at(addr, n)
		if piece == 0 || !s.guest.Pin(to, piece, write) {
			return false
		}
		addr, n = addr+piece, n-piece
	}
	return true
}

// maxPages is how many entries the page lists of a device's objects have together:
// those of 64 GiB of memory in the smallest pages.
const maxPages = 1 << 24

// maxLogPage bounds the size of pages, as the logarithm of what is beyond 4 KiB.
const maxLogPage = 31

// pages takes the list of pages of an object that is to be size bytes large, and that
// begins offset bytes into the first page. The object's memory begins with that page.
func (d *Device) pages(r *request, logPage, offset, size uint64) (*span, error) {
	if logPage > maxLogPage {
		return nil, refuse(ifc.BadParameter, "pages of 4 KiB << %d", logPage)
	}
	s := &span{guest: d.guest, shift: uint(12 + logPage)}
	page := uint64(1) << s.shift
	if offset+size < size || offset+size+page < page {
		return nil, refuse(ifc.BadParameter, "object of %d bytes", size)
	}
	n := (offset + size + page - 1) >> s.shift
	listed := uint64(len(r.in)-ifc.Pages) / 8
	switch {
	case n > listed:
		return nil, refuse(ifc.BadInputLength, "%d pages listed, %d needed", listed, n)
	case int64(n) > d.budget:
		return nil, refuse(ifc.ExceedsLimit, "%d more pages of memory", n)
	}
	s.pages = make([]uint64, n)
	for i := range s.pages {
		// The lowest bits of an entry are flags; bit 63 marks other memory here.
		s.pages[i] = be.Uint64(r.in[ifc.Pages+8*i:]) &^ (pageSize - 1) &^ recordBit
	}
	return s, nil
}
