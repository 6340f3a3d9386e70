package roce

import "time"

// rnrTimers are the waits of the receiver-not-ready timer codes, in units of 10
// microseconds (section 9.7.5.2.8, table 45).
var rnrTimers = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

const rnrUnit = 10 * time.Microsecond

// RNRTimer returns how long a timer code asks to wait. Only the low five bits of
// the code count. Code 0 is the longest wait, 655.36 ms.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&31]) * rnrUnit
}

// RNRCode returns the code of the shortest wait that is at least d; 0, the
// longest, when d is longer than any.
func RNRCode(d time.Duration) uint8 {
	for code := uint8(1); code < 32; code++ {
		if RNRTimer(code) >= d {
			return code
		}
	}
	return 0
}
