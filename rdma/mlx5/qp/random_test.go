package qp_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// seed is random, or that of the environment variable TEST_SEED.
func seed(t *testing.T) uint64 {
	s, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64)
	if err != nil {
		s = rand.Uint64()
	}
	t.Logf("TEST_SEED=%d", s)
	return s
}

// model is what both regions must hold, and what must complete, if every entry
// runs at once and in order.
type model struct {
	t        *testing.T
	l        *line
	r        *rand.Rand
	a, b     []byte
	sends    []cq.Completion // of entries posted and not completed, signaled or not
	receives []posted        // not completed
	landed   int             // of them taken by an entry
	arrivals []cq.Completion
	next     uint64 // identifier
}

// posted is a receive: two pieces of b.
type posted struct {
	id    uint64
	at, n [2]int
}

// Random operations, of every kind and size, in batches of random length through
// rings that wrap all the time, leave memory and completions as the model says.
func TestRandomOperations(t *testing.T) {
	s := seed(t)
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		rounds := 150
		if testing.Short() || c.Faults.Loss > 0 {
			rounds = 30
		}
		m := &model{t: t, l: newLine(t, c), r: rand.New(rand.NewPCG(s, 0))}
		m.a, m.b = m.l.a.MR.Bytes(), m.l.b.MR.Bytes()
		for i := range m.a {
			m.a[i], m.b[i] = byte(m.r.Uint32()), byte(m.r.Uint32())
		}
		m.a, m.b = bytes.Clone(m.a), bytes.Clone(m.b)
		for range rounds {
			m.receive()
			m.batch()
			m.settle()
		}
	})
}

func (m *model) span() (off, n int) {
	n = m.r.IntN(1 << m.r.IntN(16))
	return m.r.IntN(len(m.a) - n), n
}

// receive posts receives until there are some, each of two pieces.
func (m *model) receive() {
	for range m.r.IntN(m.l.pb.Room(qp.Receives) + 1) {
		p := posted{id: m.next}
		m.next++
		// Pieces in halves of the region, so that they do not overlap.
		for i := range 2 {
			off, n := m.span()
			p.at[i], p.n[i] = off/2+i*len(m.b)/2, n/2
		}
		require.NoError(m.t, m.l.pb.Receive(p.id, m.l.b.MR.Local(p.at[0], p.n[0]), m.l.b.MR.Local(p.at[1], p.n[1])))
		m.receives = append(m.receives, p)
	}
}

// batch posts entries that do not depend on each other's order of landing, and
// rings once. Only the last must be signaled for the ring to become free.
func (m *model) batch() {
	n := 1 + m.r.IntN(m.l.pa.Room(qp.Sends))
	for i := range n {
		e := m.entry()
		e.Signaled = i == n-1 || m.r.IntN(3) == 0
		e.Fence = true // reads and atomics land before what follows runs
		require.NoError(m.t, m.l.pa.Post(e))
	}
	require.Equal(m.t, 16-len(m.sends), m.l.pa.Room(qp.Sends))
	m.l.pa.Ring()
}

func (m *model) entry() qp.Entry {
	e := qp.Entry{Op: qp.Send + cq.Op(m.r.IntN(7)), ID: m.next, Imm: m.r.Uint32()}
	m.next++
	if len(m.receives) == m.landed && (e.Op == qp.Send || e.Op == qp.SendImm || e.Op == qp.WriteImm) {
		e.Op = qp.Write
	}
	switch e.Op {
	case qp.Read:
		m.read(&e)
	case qp.CompareSwap, qp.FetchAdd:
		m.atomic(&e)
	case qp.Write, qp.WriteImm:
		off, data := m.payload(&e, 1<<20)
		e.Remote = m.l.b.Target(off)
		copy(m.b[off:], data)
		if e.Op == qp.WriteImm {
			m.arrive(cq.ReceiveWrite, len(data), e)
		}
	default:
		to := m.receives[m.landed]
		_, data := m.payload(&e, to.n[0]+to.n[1])
		k := copy(m.b[to.at[0]:][:to.n[0]], data)
		copy(m.b[to.at[1]:], data[k:])
		e.Solicited = m.r.IntN(2) == 0
		m.arrive(cq.Receive, len(data), e)
	}
	c := success(e.ID, m.l.pa, e.Op, 0)
	switch e.Op {
	case qp.Read:
		c.Bytes = e.Local.Length + e.Locals[0].Length
	case qp.CompareSwap, qp.FetchAdd:
		c.Bytes = 8
	}
	m.sends = append(m.sends, c)
	return e
}

// payload is up to most bytes of a, inline or in up to three segments, and a
// place in b for as many.
func (m *model) payload(e *qp.Entry, most int) (off int, data []byte) {
	from, n := m.span()
	off, _ = m.span()
	n = min(n, most, len(m.b)-off)
	data = m.a[from:][:n]
	if n <= m.l.pa.Limits().Inline && m.r.IntN(2) == 0 {
		e.Inline = bytes.Clone(data)
		return off, data
	}
	i := m.r.IntN(n + 1)
	j := i + m.r.IntN(n-i+1)
	e.Local = m.l.a.MR.Local(from, i)
	e.Locals = []region.Segment{m.l.a.MR.Local(from+i, j-i), m.l.a.MR.Local(from+j, n-j)}
	return off, data
}

func (m *model) read(e *qp.Entry) {
	to, n := m.span()
	from, _ := m.span()
	n = min(n, len(m.b)-from)
	i := m.r.IntN(n + 1)
	e.Remote = m.l.b.Target(from)
	e.Local, e.Locals = m.l.a.MR.Local(to, i), []region.Segment{m.l.a.MR.Local(to+i, n-i)}
	copy(m.a[to:], m.b[from:][:n])
}

func (m *model) atomic(e *qp.Entry) {
	to, at := m.r.IntN(len(m.a)-8), m.r.IntN(len(m.b)/8)*8
	e.Local, e.Remote = m.l.a.MR.Local(to, 8), m.l.b.Target(at)
	old := binary.NativeEndian.Uint64(m.b[at:])
	binary.NativeEndian.PutUint64(m.a[to:], old)
	e.Add, e.Swap, e.Compare = m.r.Uint64(), m.r.Uint64(), old+uint64(m.r.IntN(2))
	if e.Op == qp.FetchAdd {
		binary.NativeEndian.PutUint64(m.b[at:], old+e.Add)
	} else if e.Compare == old {
		binary.NativeEndian.PutUint64(m.b[at:], e.Swap)
	}
}

// arrive notes that an entry takes the oldest receive.
func (m *model) arrive(op cq.Op, n int, e qp.Entry) {
	c := success(m.receives[m.landed].id, m.l.pb, op, uint32(n))
	c.Solicited = e.Solicited
	if e.Op != qp.Send {
		c.Imm, c.HasImm = e.Imm, true
	}
	m.landed++
	m.arrivals = append(m.arrivals, c)
}

// settle polls everything and compares it, and the memory, with the model.
func (m *model) settle() {
	for len(m.sends) > 0 {
		got := m.l.a.Poll(1)[0]
		for m.sends[0].ID != got.ID {
			m.sends = m.sends[1:]
			require.NotEmpty(m.t, m.sends, "%+v was not posted", got)
		}
		require.Equal(m.t, m.sends[0], got)
		m.sends = m.sends[1:]
		require.Equal(m.t, 16-len(m.sends), m.l.pa.Room(qp.Sends))
	}
	if len(m.arrivals) > 0 {
		require.Equal(m.t, m.arrivals, m.l.b.Poll(len(m.arrivals)))
	}
	m.receives, m.arrivals, m.landed = m.receives[m.landed:], nil, 0
	require.Equal(m.t, 16-len(m.receives), m.l.pb.Room(qp.Receives))
	m.l.a.Quiet()
	m.l.b.Quiet()
	require.True(m.t, bytes.Equal(m.a, m.l.a.MR.Bytes()), "a's memory")
	require.True(m.t, bytes.Equal(m.b, m.l.b.MR.Bytes()), "b's memory")
}
