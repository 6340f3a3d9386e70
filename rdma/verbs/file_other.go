//go:build !linux

package verbs

import (
	"errors"
	"fmt"
)

// Open returns an error that matches errors.ErrUnsupported: RDMA devices can be
// opened on Linux only.
func (d Device) Open() (File, error) {
	return nil, fmt.Errorf("open %s: %w", d.UverbsName, errors.ErrUnsupported)
}
