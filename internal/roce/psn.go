package roce

// PSNWindow is the most packets that may be outstanding: half the sequence
// space, so that ahead and behind stay apart (section 9.7.2).
const PSNWindow = 1 << 23

// AddPSN returns a+n in the 24-bit sequence space.
func AddPSN(a, n uint32) uint32 { return (a + n) & mask24 }

// SubPSN returns a-n in the 24-bit sequence space.
func SubPSN(a, n uint32) uint32 { return (a - n) & mask24 }

// DiffPSN returns how far a is ahead of b, negative when it is behind: a value
// from -PSNWindow to PSNWindow-1. Bits above 24 are ignored.
func DiffPSN(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// Packets returns the sequence numbers a message of n bytes takes at this MTU:
// one at least. A READ takes as many as its response has packets.
func Packets(n uint32, mtu int) uint32 {
	if n == 0 {
		return 1
	}
	return (n-1)/uint32(mtu) + 1
}
