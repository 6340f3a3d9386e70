package rc

import (
	"fmt"
	"time"
)

// Params are fixed for the life of a queue pair.
type Params struct {
	// Depth is how many works the send queue holds before it has to grow.
	// 0 means 16.
	Depth int

	// Window is how many request packets may be unacknowledged, 1 to 65536.
	// 0 means 128.
	Window int

	// Unreliable makes it a queue pair of the unreliable connection. It does SEND,
	// WRITE, and each with immediate.
	Unreliable bool
}

// DefaultWindow is that of Params.
const DefaultWindow = 128

const (
	defaultDepth = 16
	maxWindow    = 1 << 16
)

// Receiving is what a queue pair learns on its way to ReadyToReceive.
type Receiving struct {
	PeerQPN  uint32 // 24 bits
	MTU      int    // bytes of payload in a packet: 256, 512, 1024, 2048 or 4096
	PSN      uint32 // first sequence number the peer sends, 24 bits
	Access   Access // what the peer may do at all
	Reads    int    // READs and atomics the peer may have outstanding; their answers are kept for duplicates. At most 128
	RNRTimer uint8  // how long the peer waits if there is no receive: code 0 to 31 of the AETH
}

const maxReads = 128

// Sending is what a queue pair learns on its way to ReadyToSend.
type Sending struct {
	PSN      uint32 // first sequence number sent, 24 bits
	Reads    int    // READs and atomics outstanding at most; what the peer allows. At most 128
	Timeout  uint8  // 4.096 us * 2^Timeout without progress is a loss; 0 means wait for ever, at most 31
	Retries  uint8  // attempts without progress after the first, 0 to 7
	RNRRetry uint8  // attempts after a receiver was not ready, 0 to 6; 7 means without end
}

const foreverRNR = 7

// timeout is the transport timer of the code (local ACK timeout), 0 if none.
func (s Sending) timeout() time.Duration {
	if s.Timeout == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << (s.Timeout & 31)
}

const mask24 = 1<<24 - 1

func (a Receiving) check() error {
	switch {
	case a.MTU < 256 || a.MTU > 4096 || a.MTU&(a.MTU-1) != 0:
		return invalid("MTU", a.MTU)
	case a.PeerQPN > mask24:
		return invalid("queue pair number of the peer", a.PeerQPN)
	case a.PSN > mask24:
		return invalid("sequence number", a.PSN)
	case a.Reads < 0 || a.Reads > maxReads:
		return invalid("number of READs to answer", a.Reads)
	case a.RNRTimer > 31:
		return invalid("RNR timer code", a.RNRTimer)
	}
	return nil
}

func (a Sending) check() error {
	switch {
	case a.PSN > mask24:
		return invalid("sequence number", a.PSN)
	case a.Reads < 0 || a.Reads > maxReads:
		return invalid("number of READs", a.Reads)
	case a.Timeout > 31:
		return invalid("timeout", a.Timeout)
	case a.Retries > 7:
		return invalid("retry count", a.Retries)
	case a.RNRRetry > foreverRNR:
		return invalid("RNR retry count", a.RNRRetry)
	}
	return nil
}

func invalid(what string, v any) error { return fmt.Errorf("%w: %s %v", ErrInvalid, what, v) }
