package vmtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPackJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, perm os.FileMode) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), perm))
		return name
	}
	script := write("a/run.sh", "#!/bin/sh\n", 0o600)
	write("testdata/one", "1", 0o600)
	write("testdata/more/two", "2", 0o700)
	root := tree{}
	job, err := Job{Name: "x", Program: script, Args: []string{"-v"}, Env: []string{"A=1"}, Files: []string{filepath.Join(dir, "testdata")}}.pack(root, 3)
	require.NoError(t, err)
	require.Equal(t, "/jobs/3", job.Dir)
	require.Equal(t, []string{"/jobs/3/run.sh", "-v"}, job.Command)
	require.Equal(t, []string{"A=1"}, job.Env)
	require.Equal(t, 2*time.Minute, job.Timeout)
	require.EqualValues(t, 0o100711, root["jobs/3/run.sh"].mode, "a script can be run")
	require.EqualValues(t, 0o100600, root["jobs/3/testdata/one"].mode)
	require.Equal(t, "2", string(root["jobs/3/testdata/more/two"].data))
	require.EqualValues(t, 0o040755, root["jobs/3/testdata/more"].mode)

	_, err = Job{Name: "x", Program: script, Files: []string{write("b/run.sh", "", 0o600)}}.pack(tree{}, 0)
	require.ErrorContains(t, err, "two files are named run.sh")
	_, err = Job{Name: "x", Program: filepath.Join(dir, "none")}.pack(root, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
}
