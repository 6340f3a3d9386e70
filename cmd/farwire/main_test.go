package main

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/interpose"
)

// asTool is set in the environment of a test binary that is to be the tool.
const asTool = "FARWIRE_TOOL"

// The main goroutine keeps the first thread until a child has become its program: that
// must work on any thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	returned := make(chan struct{})
	go func() { interpose.Child(); close(returned) }()
	<-returned
	runtime.UnlockOSThread()
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
