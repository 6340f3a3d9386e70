package verbs

import (
	"errors"
	"fmt"
)

// MaxQPN and MaxPSN are the largest queue pair number and packet sequence
// number: both have 24 bits on the wire.
const (
	MaxQPN = 1<<24 - 1
	MaxPSN = 1<<24 - 1
)

// An Endpoint is what a peer must know to connect a queue pair. It is plain
// data: send it to the peer by any means.
type Endpoint struct {
	QPN       uint32
	PSN       uint32 // first packet sequence number this side sends
	LinkLayer LinkLayer
	LID       uint16 // InfiniBand only
	GID       GID    // required on Ethernet
	MTU       MTU    // largest path MTU of this side's port
}

// ErrInvalidEndpoint is matched by the errors of [Endpoint.Validate].
var ErrInvalidEndpoint = errors.New("invalid endpoint")

// Validate checks that a queue pair could be connected to e. An endpoint from a
// peer must pass it before use. The error matches ErrInvalidEndpoint.
func (e Endpoint) Validate() error {
	switch {
	case e.QPN < 2 || e.QPN >= MaxQPN: // 0 and 1 are for management, the last is multicast
		return fmt.Errorf("%w: queue pair number %#x", ErrInvalidEndpoint, e.QPN)
	case e.PSN > MaxPSN:
		return fmt.Errorf("%w: packet sequence number %#x", ErrInvalidEndpoint, e.PSN)
	case !e.MTU.Valid():
		return fmt.Errorf("%w: path MTU %d", ErrInvalidEndpoint, e.MTU)
	case e.GID.IsMulticast():
		return fmt.Errorf("%w: multicast GID %v", ErrInvalidEndpoint, e.GID)
	}
	switch e.LinkLayer {
	case LinkEthernet:
		if e.GID.Addr().IsUnspecified() { // in either IP version
			return fmt.Errorf("%w: no GID", ErrInvalidEndpoint)
		}
	case LinkInfiniBand:
		if e.LID == 0 || e.LID >= 0xc000 { // 0xc000 and up are multicast
			return fmt.Errorf("%w: LID %#x", ErrInvalidEndpoint, e.LID)
		}
	default:
		return fmt.Errorf("%w: link layer %d", ErrInvalidEndpoint, e.LinkLayer)
	}
	return nil
}

// String returns the endpoint on one line, for logs.
func (e Endpoint) String() string {
	if e.LinkLayer == LinkInfiniBand {
		return fmt.Sprintf("QPN %#x PSN %#x LID %#x GID %v MTU %v", e.QPN, e.PSN, e.LID, e.GID, e.MTU)
	}
	return fmt.Sprintf("QPN %#x PSN %#x GID %v MTU %v", e.QPN, e.PSN, e.GID, e.MTU)
}
