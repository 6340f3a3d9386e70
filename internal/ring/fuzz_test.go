package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// start is the counters' start, near a wrap, which the first two bytes choose, and
// the steps that follow, a byte each.
func start(steps []byte) (uint32, []byte) {
	if len(steps) < 2 {
		return 0, nil
	}
	return starts[int(steps[0])%len(starts)] + uint32(steps[1]), steps[2:]
}

func seeds(f *testing.F) {
	for i := range byte(len(starts)) {
		steps := []byte{i, 0}
		for j := range byte(200) {
			steps = append(steps, j*j+j>>2)
		}
		f.Add(steps)
	}
}

// FuzzCompletion passes values through a ring of owner bytes: the consumer must
// see each once, in order, and nothing else.
func FuzzCompletion(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		const size = 4
		begin, steps := start(steps)
		producer := Completion{size: size, count: begin}
		consumer := producer
		// What the ring holds is from the pass before, or fresh on the first.
		ring := [size]struct {
			own   uint8
			value int
		}{}
		for i := range ring {
			old := Completion{size: size, count: begin - size + (uint32(i)-begin)&(size-1)}
			ring[i].own = 0x20 | old.Owner()
			if begin == 0 {
				ring[i].own = 0xf0
			}
		}
		written, read := 0, 0
		for _, step := range steps {
			if step&1 == 0 {
				if written-read == size {
					continue
				}
				ring[producer.Next()].own = 0x20 | producer.Owner()
				ring[producer.Next()].value = written
				producer.Advance()
				written++
				continue
			}
			entry := ring[consumer.Next()]
			require.Equal(t, read < written, consumer.Owned(entry.own))
			if read < written {
				require.Equal(t, read, entry.value)
				consumer.Advance()
				read++
			}
		}
	})
}
