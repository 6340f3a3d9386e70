package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/interpose"
)

// asTool is set in the environment of a test binary that is to be the tool.
const asTool = "FARWIRE_TOOL"

func TestMain(m *testing.M) {
	interpose.Child()
	if os.Getenv(asTool) != "" {
		os.Unsetenv(asTool)
		main()
		return
	}
	// The networks of these runs are none of the user's.
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_RUNTIME_DIR", dir)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
