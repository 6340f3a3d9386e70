package verbs

import (
	"fmt"
	"os"
	"testing"

	"github.com/farwire/farwire/internal/hostmem"
	"go.uber.org/goleak"
)

// TestMain fails the run if a test left memory mapped or a goroutine running.
func TestMain(m *testing.M) {
	code := m.Run()
	if n, bytes := hostmem.Live(); code == 0 && n != 0 {
		fmt.Fprintf(os.Stderr, "%d mappings of %d bytes left\n", n, bytes)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
