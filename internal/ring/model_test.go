package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The fuzz targets run a ring and a plain list of what is in it side by side. An
// input byte is one step; the first two choose the counters' start, so that every
// wrap is near.

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

func FuzzSend(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		type entry struct {
			index  uint16
			blocks uint32
			rung   bool
		}
		const size = 16
		begin, steps := start(steps)
		s := Send{size: size, posted: begin, rung: begin, done: begin}
		var model []entry
		used := uint32(0)
		for _, step := range steps {
			argument := uint32(step >> 2)
			switch step & 3 {
			case 0, 1: // post
				blocks := argument % 6
				e := entry{index: s.Index(), blocks: blocks}
				require.Equal(t, blocks != 0 && used+blocks <= size, s.Post(blocks))
				if blocks != 0 && used+blocks <= size {
					model = append(model, e)
					used += blocks
				}
			case 2:
				s.Ring()
				for i := range model {
					model[i].rung = true
				}
			case 3: // complete any entry, known to the hardware or not
				if len(model) == 0 {
					require.False(t, s.Retire(uint16(argument), 1))
					break
				}
				n := int(argument) % len(model)
				require.Equal(t, model[n].rung, s.Retire(model[n].index, model[n].blocks))
				if model[n].rung {
					for _, e := range model[:n+1] {
						used -= e.blocks
					}
					model = model[n+1:]
				}
			}
			require.Equal(t, size-used, s.Room())
			require.Equal(t, len(model) > 0 && !model[len(model)-1].rung, s.Pending())
		}
	})
}

func FuzzReceive(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		const size = 8
		begin, steps := start(steps)
		r := Receive{size: size, posted: begin, done: begin}
		var model []uint32 // slots, oldest first
		counter := uint16(begin)
		for _, step := range steps {
			if step&1 == 0 {
				slot, room := r.Next(), len(model) < size
				require.Equal(t, room, r.Post())
				if room {
					require.NotContains(t, model, slot, "a slot in use")
					model = append(model, slot)
				}
			} else {
				ahead := uint16(step >> 6)
				slot, ok := r.Retire(counter + ahead)
				require.Equal(t, ahead == 0 && len(model) > 0, ok)
				if ok {
					require.Equal(t, model[0], slot)
					model = model[1:]
					counter++
				}
			}
			require.EqualValues(t, size-len(model), r.Room())
		}
	})
}

// FuzzCompletion passes values through a ring of owner bytes: the consumer must
// see each once, in order, and nothing else.
func FuzzCompletion(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		const size = 4
		begin, steps := start(steps)
		producer := Completion{size: size, shift: 2, count: begin}
		consumer := producer
		// What the ring holds is from the pass before, or fresh on the first.
		ring := [size]struct {
			own   uint8
			value int
		}{}
		for i := range ring {
			old := Completion{size: size, shift: 2, count: begin - size + (uint32(i)-begin)&(size-1)}
			ring[i].own = 0x20 | old.Owner()
			if begin == 0 {
				ring[i].own = 0xf0
			}
		}
		written, read := 0, 0
		for _, step := range steps {
			if step&1 == 0 {
				require.EqualValues(t, written-read, producer.Ahead(consumer.Record()))
				if producer.Ahead(consumer.Record()) == size {
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
