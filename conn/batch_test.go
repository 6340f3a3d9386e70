package conn

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// The messages of one Write start together.
func TestWriteStartsOnce(t *testing.T) {
	p := newPair(t, setup{size: 100})
	_, err := p.a.Write(make([]byte, 300))
	require.NoError(t, err)
	p.qa.set(func() { require.Equal(t, []bool{true, true, false}, p.qa.mores) })
	_, err = io.ReadFull(p.b, make([]byte, 300))
	require.NoError(t, err)
}
