package vmtest

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// ErrUnavailable is matched by the error of Available.
var ErrUnavailable = errors.New("no virtual machines on this system")

// Available says what is missing on this machine to fetch and run kernels, or
// nil. qemu is QEMU's program; empty is qemu-system-x86_64.
func Available(qemu string) error {
	if qemu == "" {
		qemu = defaultQEMU
	}
	var missing []string
	for _, p := range []string{qemu, "apt-get", "dpkg-deb", "xz", "zstd"} {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: missing %s", ErrUnavailable, strings.Join(missing, ", "))
	}
	return nil
}
