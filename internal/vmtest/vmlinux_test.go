package vmtest

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKernelPayload(t *testing.T) {
	t.Parallel()
	image := make([]byte, 4096)
	copy(image[0x202:], "HdrS")
	image[0x1f1] = 1 // one sector of set-up, after the boot sector
	binary.LittleEndian.PutUint32(image[0x248:], 100)
	binary.LittleEndian.PutUint32(image[0x24c:], 3+4)
	copy(image[1024+100:], "abcSIZE")
	payload, err := kernelPayload(image)
	require.NoError(t, err)
	require.Equal(t, "abc", string(payload))

	image[0x1f1] = 0 // means four
	copy(image[2560+100:], "xyz")
	payload, err = kernelPayload(image)
	require.NoError(t, err)
	require.Equal(t, "xyz", string(payload))

	for name, spoil := range map[string]func([]byte) []byte{
		"short":     func(b []byte) []byte { return b[:100] },
		"no header": func(b []byte) []byte { b[0x202] = 0; return b },
		"too long":  func(b []byte) []byte { b[0x24e] = 1; return b },
		"far off":   func(b []byte) []byte { b[0x24a] = 1; return b },
		"no size":   func(b []byte) []byte { b[0x24c] = 3; return b },
	} {
		_, err := kernelPayload(spoil(bytes.Clone(image)))
		require.Error(t, err, name)
	}
}

func TestDecompress(t *testing.T) {
	t.Parallel()
	want := []byte("\x7fELF and so on")
	got, err := decompress(want)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, program := range []string{"gzip", "xz", "zstd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Log("no", program)
			continue
		}
		cmd := exec.Command(program, "-c")
		cmd.Stdin = bytes.NewReader(want)
		compressed, err := cmd.Output()
		require.NoError(t, err)
		got, err := decompress(compressed)
		require.NoError(t, err, program)
		require.Equal(t, want, got)
		_, err = decompress(compressed[:len(compressed)-5])
		require.ErrorContains(t, err, program)
	}
	_, err = decompress([]byte("what is this?"))
	require.Error(t, err)
}
