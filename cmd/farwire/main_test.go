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
	goleak.VerifyTestMain(m)
}
