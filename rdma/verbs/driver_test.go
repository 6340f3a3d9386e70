package verbs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/stretchr/testify/require"
)

func TestProbeDriver(t *testing.T) {
	probe := func(driver string, err error) step {
		return step{want: "INVOKE_WRITE driver " + driver + "\n0x2 in 0100000000000000", err: err}
	}
	for name, c := range map[string]struct {
		steps []step
		want  DriverID
		err   string
	}{
		"first":        {[]step{probe("1", syscall.ENOSPC)}, DriverMLX5, ""},
		"second":       {[]step{probe("1", syscall.EINVAL), probe("14", syscall.ENOSPC)}, DriverRXE, ""},
		"neither":      {[]step{probe("1", syscall.EINVAL), probe("14", syscall.EINVAL)}, DriverUnknown, ""},
		"no ioctls":    {[]step{probe("1", syscall.ENOTTY)}, DriverUnknown, "probe driver: "},
		"removed":      {[]step{probe("1", syscall.EIO)}, DriverUnknown, "removed"},
		"lenient file": {[]step{probe("1", nil)}, DriverUnknown, "accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.expect(c.steps...)
			id, err := ProbeDriver(s, DriverMLX5, DriverRXE)
			require.Equal(t, c.want, id)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
	id, err := ProbeDriver(newScript(t))
	require.NoError(t, err)
	require.Equal(t, DriverUnknown, id)
	n, _ := hostmem.Live()
	require.Zero(t, n)

	s := newScript(t)
	s.expect(probe("1", syscall.ENOTTY))
	_, err = ProbeDriver(s, DriverMLX5)
	require.ErrorIs(t, err, errors.ErrUnsupported)

	small, err := hostmem.Alloc(24)
	require.NoError(t, err)
	_, err = probeWith(newScript(t), small, []DriverID{DriverMLX5})
	require.ErrorContains(t, err, "does not fit")
	require.NoError(t, small.Free())
}
