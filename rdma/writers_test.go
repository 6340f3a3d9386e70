package rdma

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bytes of each Write stay together, and each writer's are in order, however many write
// at once on one connection, and however many messages a Write takes.
func TestConcurrentWriters(t *testing.T) {
	const writers, head = 64, 9 // the head: writer, number, length
	eachLink(t, func(t *testing.T, l link) {
		a, b := l.pair(t)
		each := max(2, times(50))
		done := make(chan error, writers)
		for w := range writers {
			go func() {
				sizes := rand.New(rand.NewPCG(uint64(w), 0))
				for i := range each {
					m := make([]byte, head+sizes.IntN(2048))
					if i%16 == w%16 { // more than a message
						m = make([]byte, head+sizes.IntN(40_000))
					}
					m[0] = byte(w)
					binary.BigEndian.PutUint32(m[1:], uint32(i))
					binary.BigEndian.PutUint32(m[5:], uint32(len(m)))
					for k := head; k < len(m); k++ {
						m[k] = byte(w + i)
					}
					write := func() error { _, err := a.Write(m); return err }
					if i%3 == 0 {
						write = func() error { _, err := a.WriteBuffers(net.Buffers{m[:4], m[4:head], m[head:]}); return err }
					}
					if err := write(); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		in := bufio.NewReader(b)
		var next [writers]uint32
		for range writers * each {
			var m [head]byte
			_, err := io.ReadFull(in, m[:])
			require.NoError(t, err)
			w, i := m[0], binary.BigEndian.Uint32(m[1:])
			require.Less(t, w, byte(writers))
			require.Equal(t, next[w], i)
			next[w]++
			rest := make([]byte, binary.BigEndian.Uint32(m[5:])-head)
			_, err = io.ReadFull(in, rest)
			require.NoError(t, err)
			for _, x := range rest {
				if x != w+byte(i) {
					t.Fatalf("writer %d, write %d: %d bytes of another", w, i, len(rest))
				}
			}
		}
		for range writers {
			require.NoError(t, <-done)
		}
	})
}
