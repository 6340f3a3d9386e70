package interpose

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func newNIC(t *testing.T, cfg softnic.Config) *softnic.NIC {
	t.Helper()
	cfg.Link = softnic.LinkMemory
	if cfg.Network == nil {
		cfg.Network = softnic.NewNetwork()
	}
	n, err := softnic.New(&cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// The tree is read as the kernel's is.
func TestSysfs(t *testing.T) {
	network := softnic.NewNetwork()
	roce := newNIC(t, softnic.Config{Name: "mlx5_0", Network: network})
	ib := newNIC(t, softnic.Config{Name: "mlx5_1", Network: network, LinkLayer: verbs.LinkInfiniBand})
	dir, err := makeSysfs([]*softnic.NIC{roce, ib})
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.Rename(dir, filepath.Join(root, "sys")))
	devices, err := verbs.Devices(root)
	require.NoError(t, err)
	require.Len(t, devices, 2)
	for i, d := range devices {
		require.Equal(t, verbs.DriverMLX5, d.Driver)
		require.Equal(t, uint32(231), d.Major)
		require.Equal(t, uint32(192+i), d.Minor)
		require.Equal(t, 1, d.ABI)
		require.Len(t, d.Ports, 1)
		require.Equal(t, verbs.PortActive, d.Ports[0].State)
	}
	require.Equal(t, "mlx5_0", devices[0].Name)
	require.Equal(t, "uverbs1", devices[1].UverbsName)
	require.Equal(t, verbs.LinkEthernet, devices[0].Ports[0].LinkLayer)
	require.Equal(t, roce.GIDs(), devices[0].Ports[0].GIDs)
	require.Equal(t, ib.LID(), devices[1].Ports[0].LID)
	require.Equal(t, ib.GIDs(), devices[1].Ports[0].GIDs)
	empty, err := os.ReadFile(filepath.Join(root, "sys/class/infiniband/mlx5_1/ports/1/gids/7"))
	require.NoError(t, err, "a table has files for its empty slots too")
	require.Equal(t, "0000:0000:0000:0000:0000:0000:0000:0000\n", string(empty))
}

func TestSysfsErrors(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("TMP", os.Getenv("TMPDIR"))
	_, err := makeSysfs(nil)
	require.Error(t, err)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, writeFile(file, "class/x", 1))
}
