package conn

import (
	"math"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged has the kernel give a TCP connection up if what was sent is not acknowledged
// for d; 0 is its default. It sends no keep-alive probes meanwhile, and repeats what was sent
// for a quarter of an hour (tcp(7), tcp_retries2). The last message of the exchange, whose
// acknowledgement the other side delays, may be lost on the way like any other.
func boundUnacknowledged(tcp *net.TCPConn, d time.Duration) error {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	ms := int(min((d+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
	})
	if err != nil {
		return err
	}
	return set
}
