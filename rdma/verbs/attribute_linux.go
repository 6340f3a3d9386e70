package verbs

import (
	"os"

	"golang.org/x/sys/unix"
)

// readAttribute returns the contents of a file of sysfs. A GID table has hundreds of
// them, and os.ReadFile needs twice the system calls and a page of memory for each.
func readAttribute(path string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var text [256]byte
	n, err := retry(func() (int, error) { return unix.Read(fd, text[:]) })
	switch {
	case err != nil:
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	case n == len(text):
		return os.ReadFile(path)
	}
	return append([]byte(nil), text[:n]...), nil
}

// retry calls f until no signal interrupts it.
func retry(f func() (int, error)) (n int, err error) {
	for {
		if n, err = f(); err != unix.EINTR {
			return n, err
		}
	}
}
