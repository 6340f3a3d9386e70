//go:build !linux

package rdma

import "errors"

// busy is for a test that only Linux has.
func busy() error { return errors.ErrUnsupported }
