package rc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Sequence numbers compare across the wrap, up to 2^23 behind and less than that ahead.
func TestSeqNear(t *testing.T) {
	for _, c := range []struct {
		at, psn uint32
		diff    int
	}{
		{0, 0, 0}, {0, 1, 1}, {0, 0xffffff, -1}, {0xffffff, 0, 1}, {0xffffff, 0xfffffe, -1},
		{0, 0x7fffff, 1<<23 - 1}, {0, 0x800000, -1 << 23}, {0x800000, 0, -1 << 23}, {0x800001, 0, 1<<23 - 1},
	} {
		s := unfold(c.at)
		n := s.near(c.psn)
		require.Equal(t, c.psn, n.psn(), c)
		require.Equal(t, c.diff, int(n)-int(s), c)
		require.Equal(t, c.diff < 0, n < s, c)
	}
}
