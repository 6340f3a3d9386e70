package nic

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// stranger answers as another driver's device, or not at all.
type stranger struct {
	verbs.File
	errno  syscall.Errno
	closed bool
}

func (s *stranger) Ioctl([]byte) error { return s.errno }

func (s *stranger) Close() error {
	s.closed = true
	return nil
}

func TestTakeOnlyOurDriver(t *testing.T) {
	missing := errors.New("missing")
	for name, test := range map[string]struct {
		driver verbs.DriverID
		errno  syscall.Errno
		want   error
	}{
		"known to be another":   {verbs.DriverRXE, 0, missing},
		"probed to be another":  {verbs.DriverUnknown, syscall.EINVAL, missing},
		"removed while probing": {verbs.DriverUnknown, syscall.EIO, verbs.ErrDeviceRemoved},
	} {
		file := &stranger{errno: test.errno}
		_, err := take(test.driver, file, verbs.DriverMLX5, missing)
		require.ErrorIs(t, err, test.want, name)
		require.True(t, file.closed)
	}
}
