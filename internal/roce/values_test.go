package roce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		diff int32
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, 0xffffff, 1},
		{0xffffff, 0, -1},
		{0x000250, 0xfffff8, 0x258},
		{PSNWindow - 1, 0, PSNWindow - 1},
		{PSNWindow, 0, -PSNWindow},
		{0, PSNWindow, -PSNWindow},
		{0xab000005, 0xcd000003, 2}, // high bits do not count
	} {
		require.Equal(t, c.diff, DiffPSN(c.a, c.b), "%#x - %#x", c.a, c.b)
		if c.diff >= 0 {
			require.Equal(t, c.a&mask24, AddPSN(c.b, uint32(c.diff)))
			require.Equal(t, c.b&mask24, SubPSN(c.a, uint32(c.diff)))
		}
	}
	require.Equal(t, uint32(0xffffff), SubPSN(0, 1))
	require.Equal(t, uint32(0), AddPSN(0xffffff, 1))
}

func TestPackets(t *testing.T) {
	for _, c := range []struct{ n, mtu, want uint32 }{
		{0, 256, 1}, {1, 256, 1}, {256, 256, 1}, {257, 256, 2}, {512, 256, 2}, {513, 256, 3},
		{MaxMessage, 256, 1 << 23}, {MaxMessage, 4096, 1 << 19}, {1<<32 - 1, 4096, 1 << 20},
	} {
		require.Equal(t, c.want, Packets(c.n, int(c.mtu)), "%d bytes, MTU %d", c.n, c.mtu)
	}
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s             Syndrome
		ack, rnr, nak bool
		text          string
	}{
		{Ack, true, false, false, "ACK"},
		{0x00, true, false, false, "ACK, 0 credits"},
		{0x0a, true, false, false, "ACK, 32 credits"},
		{0x2c, false, true, false, "RNR NAK, 640µs"},
		{NAKSequence, false, false, true, "NAK: PSN sequence error"},
		{NAKInvalidRequest, false, false, true, "NAK: invalid request"},
		{NAKRemoteAccess, false, false, true, "NAK: remote access error"},
		{NAKRemoteOperation, false, false, true, "NAK: remote operational error"},
		{0x64, false, false, true, "reserved syndrome 0x64"},
		{0x40, false, false, false, "reserved syndrome 0x40"},
		{0x9f, false, false, false, "reserved syndrome 0x9f"},
	} {
		require.Equal(t, c.ack, c.s.IsAck(), "%#x", uint8(c.s))
		require.Equal(t, c.rnr, c.s.IsRNR(), "%#x", uint8(c.s))
		require.Equal(t, c.nak, c.s.IsNAK(), "%#x", uint8(c.s))
		require.Equal(t, c.text, c.s.String())
	}
	require.Equal(t, Syndrome(0x2c), RNRNak(12))
	require.Equal(t, Syndrome(0x20), RNRNak(32))
	require.Equal(t, uint8(12), RNRNak(12).Value())
}

func TestCredits(t *testing.T) {
	want := []int{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	}
	for code, n := range want {
		got, limited := Credits(uint8(code))
		require.True(t, limited)
		require.Equal(t, n, got, "code %d", code)
		require.Equal(t, uint8(code), CreditCode(n))
		if code > 0 && n > want[code-1]+1 {
			require.Equal(t, uint8(code-1), CreditCode(n-1))
		}
		require.Equal(t, Syndrome(code), AckCredits(n))
	}
	for _, code := range []uint8{31, 32, 255} {
		_, limited := Credits(code)
		require.False(t, limited)
	}
	require.Equal(t, uint8(30), CreditCode(1<<30))
	require.Equal(t, Ack, AckCredits(-1))
}

func TestRNRTimer(t *testing.T) {
	ms := []float64{
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64,
		0.96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44,
		81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	}
	for code, want := range ms {
		d := RNRTimer(uint8(code))
		require.InDelta(t, want*1e6, float64(d), 1, "code %d", code)
		require.Equal(t, uint8(code), RNRCode(d))
		require.Equal(t, uint8(code), RNRCode(d-1))
		require.Equal(t, d, RNRTimer(uint8(code)+32))
	}
	require.Equal(t, uint8(1), RNRCode(0))
	require.Equal(t, uint8(0), RNRCode(492*time.Millisecond))
	require.Equal(t, uint8(0), RNRCode(time.Hour))
}
