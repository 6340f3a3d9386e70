//go:build !linux

package verbs

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenUnsupported(t *testing.T) {
	_, err := Device{UverbsName: "uverbs0"}.Open()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "uverbs0")
}
