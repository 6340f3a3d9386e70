package rdma

import (
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that are started while connections are busy take no file of theirs along, and no
// byte is lost or changed by it.
func TestExec(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("it starts a shell:", err)
	}
	files := func() []string {
		// The shell lists its own files: no other process, whose files would be more.
		out, err := exec.Command(sh, "-c", `for f in /proc/$$/fd/*; do readlink $f || true; done`).Output()
		require.NoError(t, err)
		require.NotEmpty(t, out)
		return strings.Fields(string(out))
	}
	before := files() // what any child has: not of this package's making
	eachLink(t, func(t *testing.T, l link) {
		a, b := l.pair(t)
		over := make(chan struct{})
		defer func() { <-over }()
		go func() {
			defer close(over)
			testStreams(t, a, b, int64(max(1<<20, times(16<<20))))
		}()
		started := 0
		for busy := true; busy || started < 5; started++ {
			select {
			case <-over:
				busy = false
			default:
			}
			for _, file := range files() {
				ours := strings.HasPrefix(file, "socket:") || strings.HasPrefix(file, "anon_inode:") ||
					strings.HasPrefix(file, "/memfd:") || strings.HasPrefix(file, "/dev/infiniband/")
				require.False(t, ours && !slices.Contains(before, file), "%s, which was not there before: %q", file, before)
			}
		}
		<-over
		_, err := a.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(b, make([]byte, 1))
		require.NoError(t, err)
		t.Log(started, "programs")
	})
}
