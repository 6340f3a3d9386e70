//go:build amd64 || arm64

package interpose

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childSocket is the descriptor by which a child talks to its parent.
const childSocket = 3

// Child makes this process the program that Start wants it to be, if it was
// started by Start. It must be called first thing in the main function of every
// program that calls Start, and then returns at once.
func Child() {
	path, ok := isChild()
	if !ok {
		return
	}
	err := become(path)
	_, _ = unix.Write(childSocket, []byte(err.Error()))
	os.Exit(126)
}

// become puts the process under the filter and executes the program. It returns
// only if that fails.
func become(path string) error {
	runtime.LockOSThread()
	unix.CloseOnExec(childSocket)
	// Pdeathsig is the first thread's, and this may be another, whose setting the
	// program gets. If the parent has died meanwhile, Sendmsg fails.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent death signal: %w", err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, childVar+"=") })
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	prog := filter(rules())
	l, err := installFilter(prog)
	if err != nil {
		return fmt.Errorf("install seccomp filter: %w", err)
	}
	unix.CloseOnExec(int(l))
	if err := unix.Sendmsg(childSocket, []byte{0}, unix.UnixRights(int(l)), nil, 0); err != nil {
		return fmt.Errorf("hand over the notification descriptor: %w", err)
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, os.Args, env))
}
