package mlx5test

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// DeviceEnv names a device of the kernel's mlx5 driver, for tests to use it instead of
// software NICs: make vm-mlx5. Each host opens it for itself, and it talks to itself.
const DeviceEnv = "FARWIRE_MLX5"

// OnKernel says whether the tests use a device of the kernel's.
func OnKernel() bool { return os.Getenv(DeviceEnv) != "" }

// NeedSoft skips a test that looks at the software NIC, where there is a kernel's device
// instead.
func NeedSoft(t testing.TB) {
	t.Helper()
	if OnKernel() {
		t.Skip("the test looks at the software NIC, or has it do something")
	}
}

// openKernel opens the kernel's device, which has one form: a test that asks for another
// is skipped.
func openKernel(t testing.TB, c softnic.Config) *File {
	t.Helper()
	c.Network, c.Logger = nil, nil
	if !reflect.DeepEqual(c, softnic.Config{}) {
		t.Skip("the test asks for a NIC of a certain form")
	}
	name := os.Getenv(DeviceEnv)
	devices, err := verbs.Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		if d.Name == name {
			file, err := d.Open()
			require.NoError(t, err)
			return newFile(t, file)
		}
	}
	require.Fail(t, "no such device", name)
	return nil
}

// NeedKernel skips a test that needs a device of the kernel's, in a machine that may be
// changed.
func NeedKernel(t testing.TB) {
	t.Helper()
	if !OnKernel() {
		t.Skip(DeviceEnv + " names no device of the kernel's: make vm-mlx5")
	}
}
