//go:build !linux

package link

import (
	"net"
	"syscall"
)

// Elsewhere than on Linux a plain socket serves: it may fragment, sends an
// unknown IPv4 identification, and neither sets nor shows the traffic class.

const oobSize = 0

func prepareSocket(_, _ string, _ syscall.RawConn) error { return nil }

func growBuffers(conn *net.UDPConn) { growBuffersPlainly(conn) }

func putTClass(*Packet) []byte { return nil }

func getTClass([]byte) uint8 { return 0 }
