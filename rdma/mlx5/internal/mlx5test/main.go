package mlx5test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/hostmem"
)

// Main runs the tests of a package and fails if one left a goroutine or memory
// behind.
func Main(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if mappings, bytes := hostmem.Live(); mappings != 0 {
		fmt.Fprintf(os.Stderr, "%d mappings of %d bytes left\n", mappings, bytes)
		code = 1
	}
	os.Exit(code)
}

// Logger writes what the software NIC has to say to the test's log.
func Logger(t testing.TB) *slog.Logger { return slog.New(&handler{t: t}) }

type handler struct{ t testing.TB }

func (h *handler) Enabled(context.Context, slog.Level) bool { return testing.Verbose() }
func (h *handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *handler) WithGroup(string) slog.Handler            { return h }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	fmt.Fprintln(os.Stderr, h.t.Name()+":", line)
	return nil
}
