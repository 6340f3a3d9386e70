package interpose

import (
	"errors"
	"io"
	"os"
)

// ErrUnsupported is the error of running a program where the system cannot hand
// over its system calls: that needs Linux 5.9 or later with seccomp user
// notification, on amd64 or arm64.
var ErrUnsupported = errors.New("this system has no seccomp user notification (Linux 5.9 or later on amd64 or arm64, with CONFIG_SECCOMP_FILTER)")

// Command is a program to run. The zero values of all fields but Args mean the
// same as those of exec.Cmd.
type Command struct {
	Args   []string // the program and its arguments
	Env    []string // nil: this process's
	Dir    string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// childVar is set in the environment of a process that is to become a program.
// Its value is the program's path.
const childVar = "FARWIRE_INTERPOSE"

// isChild reports whether this process is to become a program, and which.
func isChild() (path string, ok bool) { return os.LookupEnv(childVar) }
