package ring

import "fmt"

// invalid is the opcode, bits 7:4 of an entry's last byte, of an entry that was
// never written.
const invalid = 15

// Completion counts a completion queue, for its consumer or its producer: the
// producer writes at Next with the owner bit Owner, the consumer finds the entry
// there Owned, and each then advances. It is not safe for concurrent use.
type Completion struct {
	size  uint32 // a power of two: the bit of count that changes from pass to pass
	count uint32
}

// NewCompletion is a completion queue of a power of two of entries, up to
// MaxCompletions, at its start. It panics on another size: sizes are computed, not
// received.
func NewCompletion(entries uint32) Completion {
	if entries == 0 || entries&(entries-1) != 0 || entries > MaxCompletions {
		panic(fmt.Sprintf("ring: %d entries is not a power of two up to %d", entries, MaxCompletions))
	}
	return Completion{size: entries}
}

// Size is the number of entries.
func (c *Completion) Size() uint32 { return c.size }

// Next is the slot of the next entry, below Size.
func (c *Completion) Next() uint32 { return c.count & (c.size - 1) }

// Owner is the owner bit of the entries of this pass over the ring: 0 on the
// first, then 1, and so on.
func (c *Completion) Owner() uint8 {
	if c.count&c.size != 0 {
		return 1
	}
	return 0
}

// Owned reports whether the entry at Next, whose last byte is own, was written on
// this pass and is the consumer's to read.
func (c *Completion) Owned(own uint8) bool {
	return own&1 == c.Owner() && own < invalid<<4
}

// Advance counts one entry as written, or as read.
func (c *Completion) Advance() { c.count++ }

// Back undoes Advance, for a consumer that looks through what it has not
// consumed.
func (c *Completion) Back() { c.count-- }

// Record is the counter as the doorbell record has it, in 24 bits: the entries
// consumed.
func (c *Completion) Record() uint32 { return c.count & 0xffffff }
