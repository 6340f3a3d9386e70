package pcap

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who may read a capture is what the process's umask says.
func TestMode(t *testing.T) {
	for umask, want := range map[int]os.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664} {
		name := filepath.Join(t.TempDir(), "c.pcap")
		old := syscall.Umask(umask)
		w, err := Open(name, Ethernet)
		syscall.Umask(old)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), "%#o", umask)
	}
}
