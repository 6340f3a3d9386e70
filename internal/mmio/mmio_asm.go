//go:build amd64 || arm64

package mmio

import "unsafe"

// ToDevice makes the stores to memory before it visible to the NIC before those
// after it: entries before the doorbell record that counts them.
func ToDevice()

// FromDevice keeps the loads from memory after it behind those before it: the
// rest of a completion behind its owner bit, and the message behind that.
func FromDevice()

// Record publishes earlier stores to memory by storing be to a doorbell record,
// in that order. It is the whole doorbell of a receive queue.
//
//go:noescape
func Record(record *uint32, be uint32)

// Release hands the entries of a ring that were read back to the NIC, by storing
// be to a doorbell record after the loads from memory before it.
//
//go:noescape
func Release(record *uint32, be uint32)

// Ring publishes earlier stores to memory by storing be to a doorbell record,
// then stores doorbell to the device register reg as one 64-bit store, and
// flushes it, so that a lock released afterwards hands the register on in order.
// It posts to a send queue, and arms a completion queue.
//
//go:noescape
func Ring(record *uint32, be uint32, reg *uint64, doorbell uint64)

// BeginBlueFlame is Ring up to the store to the register: Copy64 calls follow it,
// and then Flush.
//
//go:noescape
func BeginBlueFlame(record *uint32, be uint32)

// Copy64 copies 64 bytes from src to the device register dst in 8-byte stores of
// ascending addresses. Both are multiples of 8.
//
//go:noescape
func Copy64(dst, src unsafe.Pointer)

// Flush ends a sequence of stores to a register: it makes write-combining buffers
// drain, and keeps later stores behind.
func Flush()
