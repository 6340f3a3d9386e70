package mlx5

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// tree is a sysfs with a port of mlx5_0 whose GID table has one address.
func tree(t *testing.T, version string, g verbs.GID) string {
	t.Helper()
	root := t.TempDir()
	device, port := "class/infiniband_verbs/uverbs0/", "class/infiniband/mlx5_0/ports/1/"
	for name, content := range map[string]string{
		"class/infiniband_verbs/abi_version": version,
		device + "ibdev":                     "mlx5_0",
		device + "dev":                       "231:192",
		port + "state":                       "4: ACTIVE",
		port + "link_layer":                  "Ethernet",
		port + "gids/3":                      sysfsGID(g),
		port + "gid_attrs/types/3":           "RoCE v2",
	} {
		path := filepath.Join(root, "sys", filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
	}
	return root
}

func sysfsGID(g verbs.GID) (s string) {
	const digits = "0123456789abcdef"
	for i, b := range g {
		if i > 0 && i%2 == 0 {
			s += ":"
		}
		s += string([]byte{digits[b>>4], digits[b&15]})
	}
	return s
}

func TestOpenByName(t *testing.T) {
	root := tree(t, "6", verbs.GID{15: 1})
	_, err := Config{root: root}.Open("mlx5_1")
	require.ErrorIs(t, err, ErrNoDevice)
	_, err = Config{root: root}.Open("mlx5_0")
	require.ErrorContains(t, err, "open mlx5_0: ")
	require.NotErrorIs(t, err, ErrNoDevice, "it is there, but has no node")
	_, err = Config{root: tree(t, "5", verbs.GID{15: 1})}.Open("mlx5_0")
	require.ErrorContains(t, err, "version 5")
}

// An old kernel tells the GIDs in sysfs alone.
func TestSysfsGIDs(t *testing.T) {
	soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory, OldKernel: true})
	require.NoError(t, err)
	file, err := soft.Open()
	require.NoError(t, err)
	c := Config{root: tree(t, "6", soft.GID())}
	card, err := OpenFile(file, c.withGIDs("mlx5_0"))
	require.NoError(t, err)
	a, err := card.Address()
	require.NoError(t, err)
	require.Equal(t, soft.GID(), a.GID)
	require.Equal(t, 3, a.GIDIndex)
	require.NoError(t, card.Close())

	file, err = soft.Open()
	require.NoError(t, err)
	_, err = OpenFile(file, c.withGIDs("mlx5_9"))
	require.ErrorIs(t, err, ErrNoDevice, "it left sysfs meanwhile")
	require.NoError(t, soft.Close())
	_, err = nic.SysfsGIDs(tree(t, "5", verbs.GID{}), "mlx5_0", 1, ErrNoDevice)
	require.ErrorContains(t, err, "version 5")
}

func TestPowerOfTwo(t *testing.T) {
	for n, want := range map[uint64]int{0: 0, 1: 1, 2: 2, 3: 2, 4096: 4096, 8191: 4096} {
		require.Equal(t, want, powerOfTwo(n))
	}
}
