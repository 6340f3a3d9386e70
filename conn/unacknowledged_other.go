//go:build !linux

package conn

import (
	"net"
	"time"
)

// boundUnacknowledged does nothing: the system's own bound holds.
func boundUnacknowledged(*net.TCPConn, time.Duration) error { return nil }
