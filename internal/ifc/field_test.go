package ifc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldIsBigEndian(t *testing.T) {
	b := make([]byte, 8)
	Field{4, 12}.Put(b, 0xabc)
	require.Equal(t, []byte{0x0a, 0xbc, 0, 0, 0, 0, 0, 0}, b)
	require.Equal(t, uint64(0xabc), Field{4, 12}.Get(b))
	require.True(t, Field{15, 1}.Get([]byte{0xff, 0xfe}) == 0)
	require.False(t, Field{15, 1}.Bool([]byte{0xff, 0xfe}))
	require.Panics(t, func() { Field{0, 3}.Put(b, 8) })
	require.Equal(t, uint64(7), Field{0, 3}.Max())
}

// A field keeps what is put into it and touches nothing else.
func TestFieldsRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, r := range rows {
		for range 4 {
			b := make([]byte, sizes[r.structure])
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			was := string(b)
			old, v := r.field.Get(b), random.Uint64()&r.field.Max()
			r.field.Put(b, v)
			require.Equal(t, v, r.field.Get(b), "%s.%s", r.structure, r.name)
			r.field.Put(b, old)
			require.Equal(t, was, string(b), "%s.%s", r.structure, r.name)
		}
	}
}
