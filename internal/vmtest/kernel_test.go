package vmtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindKernels(t *testing.T) {
	t.Parallel()
	all, err := FindKernels("all")
	require.NoError(t, err)
	require.Equal(t, Kernels, all)
	two, err := FindKernels("6.1,newest")
	require.NoError(t, err)
	require.Equal(t, []Kernel{Kernels[0], Kernels[len(Kernels)-1]}, two)
	_, err = FindKernels("6.1,2.4")
	require.ErrorContains(t, err, `"2.4"`)
}
