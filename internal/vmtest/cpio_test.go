package vmtest

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArchive has GNU cpio read what the kernel is to unpack.
func TestArchive(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("no cpio")
	}
	root := tree{}
	root.file("bin/deep/a", 0o755, []byte("12345"))
	root.link("bin/b", "deep/a")
	root.folder("empty")
	var archive bytes.Buffer
	require.NoError(t, root.write(&archive))
	require.Zero(t, archive.Len()%4)

	dir := t.TempDir()
	cmd := exec.Command("cpio", "-idmv", "--no-absolute-filenames")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(archive.Bytes())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "bin bin/b bin/deep bin/deep/a empty", strings.Join(strings.Fields(string(out))[:5], " "))
	content, err := exec.Command("cat", dir+"/bin/b").Output()
	require.NoError(t, err)
	require.Equal(t, "12345", string(content))
}
