//go:build !linux || !(amd64 || arm64)

package interpose

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var programs map[string]func()

func TestUnsupported(t *testing.T) {
	require.ErrorIs(t, Check(), ErrUnsupported)
	_, err := New(nil, nil)
	require.ErrorIs(t, err, ErrUnsupported)
	var h Host
	_, err = h.Start(t.Context(), Command{})
	require.ErrorIs(t, err, ErrUnsupported)
	require.NoError(t, h.Close())
	var p Process
	require.Nil(t, p.Listening())
	require.ErrorIs(t, p.Wait(), ErrUnsupported)
}
