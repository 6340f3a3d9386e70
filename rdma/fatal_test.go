package rdma

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// An event that a queue pair is beyond repair ends its connection, and only that, although
// the NIC flushes nothing by itself.
func TestFatalEventOfOneQueuePair(t *testing.T) {
	m := newMachine(t, softnic.Config{})
	l := link{Config{ports: m.ports}, Config{ports: m.ports}}
	hit, _ := l.pair(t)
	spared, other := l.pair(t)

	m.ports.mu.Lock()
	var p *port
	for _, p = range m.open {
	}
	m.ports.mu.Unlock()
	numbers := map[uint32]bool{}
	p.mu.Lock()
	for number := range p.pairs {
		numbers[number] = true
	}
	p.mu.Unlock()
	require.Len(t, numbers, 4)
	first := ^uint32(0) // the smallest: one end of the connection that was made first
	for number := range numbers {
		first = min(first, number)
	}

	p.heard(mlx5.Event{Type: verbs.EventCommEstablished, QPN: first})
	p.heard(mlx5.Event{Type: verbs.EventQPFatal, QPN: first + 1<<20}) // nobody's
	p.heard(mlx5.Event{Type: verbs.EventQPFatal, QPN: first})
	_, err := hit.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)

	_, err = spared.Write([]byte{7})
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = other.Read(b)
	require.NoError(t, err)
	require.Equal(t, byte(7), b[0])
}
