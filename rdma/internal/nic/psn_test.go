package nic

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// First sequence numbers are spread evenly over all 24 bits: chi-square for each byte, and
// for what two that follow each other have in common, whose limit chance exceeds less
// than once in 10^15 runs.
func TestSequenceNumbersAreEven(t *testing.T) {
	const n, values = 1 << 17, 256
	var counts [6][values]int
	var last uint32
	for range n {
		psn := Address{}.Endpoint(5).PSN
		require.LessOrEqual(t, psn, uint32(verbs.MaxPSN))
		for i := range 3 {
			counts[i][byte(psn>>(8*i))]++
			counts[3+i][byte((psn-last)>>(8*i))]++
		}
		last = psn
	}
	for i, count := range counts {
		chi := 0.0
		for _, c := range count {
			d := float64(c) - n/values
			chi += d * d / (n / values)
		}
		require.Less(t, chi, 255+10*22.6, "of %d: 255 are expected, with a deviation of 22.6", i) // 255 degrees of freedom
	}
}

// They are drawn from the cryptographic source, and from nothing else.
func TestSequenceNumbersAreSecret(t *testing.T) {
	source := rand.Reader
	defer func() { rand.Reader = source }()
	rand.Reader = bytes.NewReader([]byte{1, 2, 3, 0xff, 4, 5, 6, 0xff})
	require.Equal(t, uint32(0x030201), Address{}.Endpoint(5).PSN)
	require.Equal(t, uint32(0x060504), Address{}.Endpoint(5).PSN)
}
