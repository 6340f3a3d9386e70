package roce

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
)

// SolveICRC is CheckICRC for a receiver that was not told the IPv4
// identification and fragment bits, as with a UDP socket: path.ID and
// path.MayFragment are what it is likely to be, and become what it is when the packet
// is good. Over IPv6 it is CheckICRC.
//
// Any packet has one value of those 32 bits that makes its ICRC right; it is good
// if the bits that are not the identification or don't-fragment are zero. So of
// the 32 bits of the check 15 remain: one damaged packet in 32768 passes, unless
// the caller knows more about the identifications its peer uses.
func SolveICRC(path *Path, b []byte) bool {
	if len(b) < BTHSize+ICRCSize {
		return false
	}
	v4 := path.Src.Unmap().Is4() && path.Dst.Unmap().Is4()
	if !v4 {
		path.ID, path.MayFragment = 0, false
	}
	end := len(b) - ICRCSize
	diff := binary.LittleEndian.Uint32(b[end:]) ^ ICRC(path, b[:end:end])
	if diff == 0 || !v4 {
		return diff == 0
	}
	field := solve(diff, end) ^ path.fragmentField()
	id, flags := uint16(field>>16), uint16(field)
	if flags&^dontFragment != 0 {
		return false
	}
	path.ID, path.MayFragment = id, flags == 0
	return true
}

// solve returns the identification and fragment fields (as one big endian word)
// that change the ICRC of n bytes, BTH to pad, by diff.
//
// A CRC register is a polynomial over GF(2) modulo the generator, and a step of
// one bit multiplies it by x. Four bytes with m bits behind them add their
// polynomial times x^(32+m) to the result. x has an inverse, so multiplying by
// x^-(32+m) gives the four bytes back.
func solve(diff uint32, n int) uint32 {
	word := multiply(diff, rewind(n))
	return word<<24 | word<<8&0xff0000 | word>>8&0xff00 | word>>24
}

// rewinds keeps the factors of all lengths that a good packet can have, made when
// first needed; no factor is 0.
var rewinds [MaxPacket/4 + 1]atomic.Uint32

// rewind returns x^-(32+m) where m is the bits behind the IPv4 fragment field in
// a packet of n bytes, BTH to pad.
func rewind(n int) uint32 {
	if n%4 != 0 || n/4 >= len(rewinds) {
		return rewindFactor(n)
	}
	known := &rewinds[n/4]
	factor := known.Load()
	if factor == 0 {
		factor = rewindFactor(n)
		known.Store(factor)
	}
	return factor
}

func rewindFactor(n int) uint32 {
	const behind = ipv4Size - 8 + udpSize // bytes of IP and UDP header after the field
	// The generator is primitive: x^(2^32-1) = 1.
	return power(1<<32 - 1 - 8*(4+behind+uint64(n)))
}

// power returns x^n modulo the generator.
func power(n uint64) uint32 {
	result, square := uint32(1<<31), uint32(1<<30) // x^0, x^1: bits are reflected
	for ; n != 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(result, square)
		}
		square = multiply(square, square)
	}
	return result
}

// multiply returns a*b modulo the generator, bits reflected as in the register.
func multiply(a, b uint32) uint32 {
	product := uint32(0)
	for ; a != 0; a <<= 1 {
		product ^= b & uint32(int32(a)>>31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
