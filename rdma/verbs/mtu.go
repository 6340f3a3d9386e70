package verbs

import "fmt"

// MTU is a path MTU as the wire encodes it (InfiniBand specification, enum
// ib_mtu). It counts payload bytes of one packet, headers excluded. The zero
// value is invalid.
type MTU uint8

// The path MTUs there are.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// MTUFrom returns the largest path MTU of at most n bytes, or 0 if n < 256.
func MTUFrom(n int) MTU {
	for m := MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m
		}
	}
	return 0
}

// Valid reports whether m is one of the five MTUs.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the MTU in bytes, 0 if m is invalid.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// String returns the number of bytes.
func (m MTU) String() string {
	if !m.Valid() {
		return fmt.Sprintf("MTU %d", uint8(m))
	}
	return fmt.Sprint(m.Bytes())
}
