//go:build !linux

package shm

import (
	"errors"
	"net/netip"
)

// Only Linux tells who is at the other end of a socket and has memory that can be sealed.

// Listener is nothing here.
type Listener struct{}

// Listen is not supported.
func Listen(netip.Addr, func(netip.Addr) bool, func(*Channel, netip.Addr)) (*Listener, error) {
	return nil, errors.ErrUnsupported
}

// Close does nothing.
func (*Listener) Close() error { return nil }

// Dial is not supported.
func Dial(_, _ netip.Addr) (*Channel, error) { return nil, errors.ErrUnsupported }

func sendWake(uintptr) bool { return true }
