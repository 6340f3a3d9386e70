package roce

import "fmt"

// Syndrome is the first byte of an AETH (section 9.7.5.1, table 46): two bits of
// kind above five of value.
//
//	000ccccc ACK, c credit code          010xxxxx reserved
//	001ttttt RNR NAK, t timer code       011ccccc NAK, c code
type Syndrome uint8

// Syndromes. An ACK that says nothing about credits is Ack.
const (
	Ack                Syndrome = 0x1f // no end-to-end flow control
	RNR                Syndrome = 0x20 // or'ed with a timer code
	NAKSequence        Syndrome = 0x60 // a packet is missing
	NAKInvalidRequest  Syndrome = 0x61
	NAKRemoteAccess    Syndrome = 0x62
	NAKRemoteOperation Syndrome = 0x63

	syndromeKind  Syndrome = 0xe0
	syndromeValue Syndrome = 0x1f
	kindAck       Syndrome = 0x00
	kindNAK       Syndrome = 0x60
)

// AckCredits returns the ACK that grants n receives (n < 0: no flow control).
func AckCredits(n int) Syndrome {
	if n < 0 {
		return Ack
	}
	return Syndrome(CreditCode(n))
}

// RNRNak returns the receiver-not-ready NAK with a timer code of 0 to 31.
func RNRNak(timer uint8) Syndrome { return RNR | Syndrome(timer)&syndromeValue }

// IsAck reports a positive acknowledgement.
func (s Syndrome) IsAck() bool { return s&syndromeKind == kindAck }

// IsRNR reports receiver not ready.
func (s Syndrome) IsRNR() bool { return s&syndromeKind == RNR }

// IsNAK reports a NAK that is not receiver not ready, of known code or not.
func (s Syndrome) IsNAK() bool { return s&syndromeKind == kindNAK }

// Value returns the low five bits: credit code, timer code or NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & syndromeValue) }

// String describes the syndrome.
func (s Syndrome) String() string {
	switch {
	case s == Ack:
		return "ACK"
	case s.IsAck():
		n, _ := Credits(s.Value())
		return fmt.Sprintf("ACK, %d credits", n)
	case s.IsRNR():
		return fmt.Sprintf("RNR NAK, %v", RNRTimer(s.Value()))
	case s == NAKSequence:
		return "NAK: PSN sequence error"
	case s == NAKInvalidRequest:
		return "NAK: invalid request"
	case s == NAKRemoteAccess:
		return "NAK: remote access error"
	case s == NAKRemoteOperation:
		return "NAK: remote operational error"
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}

// credits are the receives each credit code but the last stands for (table 47).
var credits = [31]int{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
	768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Credits returns the receives a credit code grants; limited is false for the
// code that says nothing (31 and above).
func Credits(code uint8) (n int, limited bool) {
	if int(code) >= len(credits) {
		return 0, false
	}
	return credits[code], true
}

// CreditCode returns the code of the most credits that are not more than n, which
// must not be negative.
func CreditCode(n int) uint8 {
	code := 0
	for code+1 < len(credits) && credits[code+1] <= n {
		code++
	}
	return uint8(code)
}
