package perftest

import (
	"errors"
	"fmt"
	"math"
)

// Record is what an end says of a queue pair and the memory behind it.
type Record struct {
	LID   uint16 // of an InfiniBand port, 0 of others
	Reads uint16 // reads and atomics that it answers at a time
	QPN   uint32 // 24 bits
	PSN   uint32 // 24 bits
	RKey  uint32
	Addr  uint64   // of the memory that the peer may write, read or count in
	GID   [16]byte // zero without global addresses
	SRQN  uint32   // of a shared receive queue's number, 0 without
}

// ErrRecord is returned for what is not a record.
var ErrRecord = errors.New("not a record")

// Records are hexadecimal numbers with separators and a zero byte at the end. Each
// number has all its digits.
const (
	shortRecord = len("0000:0000:000000:000000:00000000:0000000000000000:00000000") + 1
	longRecord  = shortRecord + 16*len("00:") + len(":")
)

func recordSize(global bool) int {
	if global {
		return longRecord
	}
	return shortRecord
}

// Append appends the record as it travels, with the GID or without. Numbers must
// fit their digits.
func (r *Record) Append(b []byte, global bool) ([]byte, error) {
	if r.QPN >= 1<<24 || r.PSN >= 1<<24 {
		return b, fmt.Errorf("record with QPN %#x, PSN %#x: more than 24 bits", r.QPN, r.PSN)
	}
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", r.LID, r.Reads, r.QPN, r.PSN, r.RKey, r.Addr)
	if !global {
		return fmt.Appendf(b, "%08x\x00", r.SRQN), nil
	}
	for _, v := range r.GID {
		b = fmt.Appendf(b, "%02x:", v)
	}
	return fmt.Appendf(b, "%08x:\x00", r.SRQN), nil
}

// ParseRecord reads a record with a GID or without. What Append does not write is
// ErrRecord.
func ParseRecord(b []byte, global bool) (r Record, err error) {
	if len(b) != recordSize(global) {
		return r, fmt.Errorf("%d bytes, not %d: %w", len(b), recordSize(global), ErrRecord)
	}
	p := parser{rest: b}
	r.LID, r.Reads = uint16(p.number(4, ':')), uint16(p.number(4, ':'))
	r.QPN, r.PSN = uint32(p.number(6, ':')), uint32(p.number(6, ':'))
	r.RKey, r.Addr = uint32(p.number(8, ':')), p.number(16, ':')
	end := byte(0)
	if global {
		for i := range r.GID {
			r.GID[i] = byte(p.number(2, ':'))
		}
		end = ':'
	}
	r.SRQN = uint32(p.number(8, end))
	if global {
		p.number(0, 0)
	}
	if p.bad {
		return Record{}, fmt.Errorf("%q: %w", b, ErrRecord)
	}
	return r, nil
}

// parser takes numbers off the front of a record that is long enough for them.
type parser struct {
	rest []byte
	bad  bool
}

// number is that of so many lower-case digits, with end behind them.
func (p *parser) number(digits int, end byte) (n uint64) {
	for _, c := range p.rest[:digits] {
		d := digit(c)
		p.bad = p.bad || d == math.MaxUint64
		n = n<<4 | d
	}
	p.bad = p.bad || p.rest[digits] != end
	p.rest = p.rest[digits+1:]
	return n
}

func digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10
	}
	return math.MaxUint64
}
