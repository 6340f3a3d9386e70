package vmtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	dir := filepath.Join(cache, "a", "b")
	failure := errors.New("no mirror")
	require.ErrorIs(t, once(dir, func(string) error { return failure }), failure)
	require.NoDirExists(t, dir)

	var filled atomic.Int32
	var all, started sync.WaitGroup
	started.Add(2)
	for range 2 { // at a time: both fill, one wins
		all.Go(func() {
			require.NoError(t, once(dir, func(d string) error {
				filled.Add(1)
				started.Done()
				started.Wait()
				return os.WriteFile(filepath.Join(d, "file"), nil, 0o644)
			}))
		})
	}
	all.Wait()
	require.EqualValues(t, 2, filled.Load())
	require.FileExists(t, filepath.Join(dir, "file"))
	require.NoError(t, once(dir, func(string) error { return failure }), "it is there")
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing half done")
}

func TestKeptFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"./lib/modules/6.1/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko", "./usr/lib/modules/7/kernel/net/8021q/8021q.ko.xz",
		"./lib/modules/6.1/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko"} {
		require.True(t, moduleFile.MatchString(name) && !notWanted.MatchString(name), name)
	}
	for _, name := range []string{"./lib/modules/6.1/kernel/drivers/net/wireless/ath/ath.ko", "./lib/modules/6.1/kernel/sound/core/snd.ko", "./lib/modules/6.1/modules.dep"} {
		require.False(t, moduleFile.MatchString(name) && !notWanted.MatchString(name), name)
	}
	for _, name := range []string{"./boot/vmlinuz-6.1.0-44-amd64", "./usr/lib/modules/7.3/vmlinuz"} {
		require.True(t, kernelFile.MatchString(name), name)
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv("FARWIRE_VM_CACHE", "/elsewhere")
	dir, err := CacheDir()
	require.NoError(t, err)
	require.Equal(t, "/elsewhere", dir)
	t.Setenv("FARWIRE_VM_CACHE", "")
	t.Setenv("HOME", "/home/me")
	t.Setenv("XDG_CACHE_HOME", "")
	dir, err = CacheDir()
	require.NoError(t, err)
	require.Contains(t, dir, "farwire")
}

func TestConfiguredMirror(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("no apt-get")
	}
	uri, err := configuredMirror(t.Context())
	if err != nil {
		t.Skip("not a Debian with a mirror:", err)
	}
	require.Contains(t, uri, "://")
}

func TestTail(t *testing.T) {
	t.Parallel()
	require.Equal(t, "b\nc", string(tail([]byte("a\nb\nc\n"), 2)))
	require.Equal(t, "a\nb", string(tail([]byte("a\nb"), 5)))
	require.Empty(t, tail(nil, 3))
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	err := Available("no-such-emulator")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "no-such-emulator")
}
