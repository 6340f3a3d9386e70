package interpose

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// programVar is set in the environment of a test binary that is to be a program
// of this name, from programs.
const programVar = "INTERPOSE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	Child()
	if name := os.Getenv(programVar); name != "" {
		programs[name]()
		return
	}
	goleak.VerifyTestMain(m)
}
