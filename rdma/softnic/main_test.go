package softnic

import (
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/hostmem"
)

// TestMain checks that nothing outlives the tests: no goroutine, no mapping, no
// descriptor.
func TestMain(m *testing.M) {
	// The runtime's poller has descriptors of its own from the first socket on.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
	before := descriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before)
	}
	os.Exit(code)
}

func leaks(before int) int {
	if err := goleak.Find(); err != nil {
		fmt.Println(err)
		return 1
	}
	if n, bytes := hostmem.Live(); n != 0 {
		fmt.Printf("%d mappings of %d bytes are left\n", n, bytes)
		return 1
	}
	if now := descriptors(); now > before {
		fmt.Printf("%d descriptors, %d before the tests\n", now, before)
		return 1
	}
	return 0
}

// descriptors counts the process's open descriptors, where that can be known.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}
