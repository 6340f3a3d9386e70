package rdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

const (
	messageBytes = 64 << 10
	messageDepth = 16               // messages under way
	messageSlots = 2 * messageDepth // of memory: what is sent is seen before it is written over
	messageCount = 128              // 8 MiB
	atomicCount  = 2048
	streamBytes  = messageCount * messageBytes
)

// content is that of a message, and no other's.
func content(message int) []byte {
	b := make([]byte, messageBytes)
	rand.NewChaCha8([32]byte{byte(message), byte(message >> 8)}).Read(b)
	return b
}

// rawEnd is a queue pair with memory that its peer may use.
type rawEnd struct {
	nic  *mlx5.NIC
	done *cq.Queue
	pair *qp.Pair
	mr   *region.Region
}

func newRawEnd(t *testing.T, soft *softnic.NIC) *rawEnd {
	file, err := soft.Open()
	require.NoError(t, err)
	e := &rawEnd{}
	e.nic, err = mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	e.done, err = cq.New(e.nic, 4*messageDepth)
	require.NoError(t, err)
	e.pair, err = qp.New(e.done, qp.Config{Sends: messageDepth, Receives: messageDepth * 2})
	require.NoError(t, err)
	e.mr, err = region.Alloc(e.nic, region.RemoteReadWrite, messageSlots*messageBytes)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.pair.Destroy())
		require.NoError(t, e.done.Close())
		require.NoError(t, e.mr.Close())
		require.NoError(t, e.nic.Close())
	})
	return e
}

// slot is the memory of a message.
func (e *rawEnd) slot(message int) (local region.Segment, bytes []byte) {
	at := message % messageSlots * messageBytes
	return e.mr.Local(at, messageBytes), e.mr.Bytes()[at : at+messageBytes]
}

func (e *rawEnd) target(t *testing.T, message int) region.Target {
	r, err := e.mr.Remote(message % messageSlots * messageBytes)
	require.NoError(t, err)
	return r
}

// receive posts the receive of a message; of one with no bytes for a WRITE.
func (e *rawEnd) receive(t *testing.T, message int, into ...region.Segment) {
	assert.NoError(t, e.pair.Receive(uint64(message), into...))
}

// complete hands n completions to f in their order, which must be that of their ids: step,
// 2 step and so on, less one.
func (e *rawEnd) complete(t *testing.T, n, step int, f func(message int, c *cq.Completion)) {
	var some [messageDepth]cq.Completion
	for next := step - 1; next < n; {
		k, err := e.done.Poll(some[:])
		if !assert.NoError(t, err) {
			return
		}
		for i := range k {
			c := &some[i]
			if !assert.NoError(t, c.Err()) || !assert.EqualValues(t, next, c.ID, "order") {
				return
			}
			f(next, c)
			next += step
		}
		if k == 0 && !assert.NoError(t, e.done.Wait(context.Background())) {
			return
		}
	}
}

// post keeps messageDepth entries under way until n have completed. Done is told of each that has.
func (e *rawEnd) post(t *testing.T, n int, entry func(message int) qp.Entry, done func(message int)) {
	next := 0
	more := func() {
		w := entry(next)
		w.ID, w.Signaled = uint64(next), true
		assert.NoError(t, e.pair.Post(w))
		e.pair.Ring()
		next++
	}
	for range messageDepth {
		more()
	}
	e.complete(t, n, 1, func(message int, _ *cq.Completion) {
		done(message)
		if next < n {
			more()
		}
	})
}

// messageLoad is a load between two connected queue pairs.
func messageLoad(run func(t *testing.T, a, b *rawEnd) (amount float64)) func(*testing.T, softnic.Config) (float64, softnic.Counters) {
	return func(t *testing.T, c softnic.Config) (float64, softnic.Counters) {
		a, b, near, far := rawEnds(t, c)
		amount := run(t, a, b)
		return amount, sumCounters(near.Counters(), far.Counters())
	}
}

// rawEnds are the two ends of a connection, each on a NIC of its own.
func rawEnds(t *testing.T, c softnic.Config) (a, b *rawEnd, near, far *softnic.NIC) {
	c.Network, c.Link, c.Addr = softnic.NewNetwork(), softnic.LinkMemory, addr("127.0.0.1")
	near = newSoft(t, c)
	c.Addr, c.Seed = addr("127.0.0.2"), c.Seed+100 // other fates than the packets of the other
	far = newSoft(t, c)
	a, b = newRawEnd(t, near), newRawEnd(t, far)
	require.NoError(t, a.pair.Connect(region.RemoteReadWrite, b.pair.Endpoint()))
	require.NoError(t, b.pair.Connect(region.RemoteReadWrite, a.pair.Endpoint()))
	return a, b, near, far
}

func newSoft(t *testing.T, c softnic.Config) *softnic.NIC {
	soft, err := softnic.New(&c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, soft.Close()) })
	return soft
}

const messageBits = 8 * messageCount * messageBytes

// sendMessages sends, every other message with immediate.
func sendMessages(t *testing.T, a, b *rawEnd) float64 {
	for i := range messageSlots {
		into, _ := b.slot(i)
		b.receive(t, i, into)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		b.complete(t, messageCount, 1, func(i int, c *cq.Completion) {
			into, got := b.slot(i)
			assert.True(t, bytes.Equal(content(i), got), "message %d", i)
			assert.EqualValues(t, messageBytes, c.Bytes)
			assert.Equal(t, i%2 == 1, c.HasImm)
			assert.EqualValues(t, i%2*i, c.Imm)
			b.receive(t, i+messageSlots, into)
		})
	})
	a.post(t, messageCount, func(i int) qp.Entry {
		from, sent := a.slot(i)
		copy(sent, content(i))
		if i%2 == 1 {
			return qp.Entry{Op: qp.SendImm, Local: from, Imm: uint32(i)}
		}
		return qp.Entry{Op: qp.Send, Local: from}
	}, func(int) {})
	wg.Wait()
	return messageBits
}

// writeMessages writes, and tells of every other message, and so of the one before it too,
// by an immediate.
func writeMessages(t *testing.T, a, b *rawEnd) float64 {
	for i := range messageDepth {
		b.receive(t, 2*i+1)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		b.complete(t, messageCount, 2, func(i int, c *cq.Completion) {
			for _, message := range []int{i - 1, i} {
				_, got := b.slot(message)
				assert.True(t, bytes.Equal(content(message), got), "message %d", message)
			}
			assert.EqualValues(t, i, c.Imm)
			b.receive(t, i+2*messageDepth)
		})
	})
	a.post(t, messageCount, func(i int) qp.Entry {
		from, sent := a.slot(i)
		copy(sent, content(i))
		w := qp.Entry{Op: qp.Write, Local: from, Remote: b.target(t, i)}
		if i%2 == 1 {
			w.Op, w.Imm = qp.WriteImm, uint32(i)
		}
		return w
	}, func(int) {})
	wg.Wait()
	return messageBits
}

func readMessages(t *testing.T, a, b *rawEnd) float64 {
	for i := range messageSlots {
		_, kept := b.slot(i)
		copy(kept, content(i))
	}
	a.post(t, messageCount, func(i int) qp.Entry {
		into, old := a.slot(i)
		clear(old)
		return qp.Entry{Op: qp.Read, Local: into, Remote: b.target(t, i)}
	}, func(i int) {
		_, got := a.slot(i)
		assert.True(t, bytes.Equal(content(i%messageSlots), got), "message %d", i)
	})
	return messageBits
}

// atomicMessages counts a word up, by additions and by swaps that need the value to be
// right: each must happen once and in its turn.
func atomicMessages(t *testing.T, a, b *rawEnd) float64 {
	a.post(t, atomicCount, func(i int) qp.Entry {
		into := a.mr.Local(i%messageSlots*8, 8)
		if i%4 == 3 {
			return qp.Entry{Op: qp.CompareSwap, Local: into, Remote: b.target(t, 0), Compare: uint64(i), Swap: uint64(i + 1)}
		}
		return qp.Entry{Op: qp.FetchAdd, Local: into, Remote: b.target(t, 0), Add: 1}
	}, func(i int) {
		assert.EqualValues(t, i, binary.NativeEndian.Uint64(a.mr.Bytes()[i%messageSlots*8:]), "the value before")
	})
	assert.EqualValues(t, atomicCount, binary.NativeEndian.Uint64(b.mr.Bytes()), "the value at the end")
	return atomicCount
}

// streamLoad is a connection's stream.
func streamLoad(t *testing.T, c softnic.Config) (float64, softnic.Counters) {
	l := inMemory(t, c)
	a, b := l.pairInBubble(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.Copy(struct{ io.Writer }{a}, unevenly([32]byte{7}, streamBytes))
		assert.NoError(t, err)
		assert.NoError(t, a.CloseWrite())
	})
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	want, _ := io.ReadAll(unevenly([32]byte{7}, streamBytes))
	require.True(t, bytes.Equal(want, got), "the stream is another one")
	wg.Wait()
	return 8 * streamBytes, sumCounters(l.near().counters(), l.far().counters())
}

// pairInBubble is pair with no socket of the system's, which testing/synctest knows
// nothing of.
func (l link) pairInBubble(t *testing.T) (client, server *conn.Conn) {
	near, far := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.listener.withDefaults()
		assert.NoError(t, err)
		server, err = c.accept(t.Context(), onLoopback{far}, nil)
		assert.NoError(t, err)
	})
	c, err := l.dialer.withDefaults()
	require.NoError(t, err)
	client, err = c.dial(t.Context(), onLoopback{near})
	require.NoError(t, err)
	wg.Wait()
	t.Cleanup(func() {
		assert.NoError(t, client.Close())
		assert.NoError(t, server.Close())
		<-client.Released()
		<-server.Released()
	})
	return client, server
}

// onLoopback is a pipe with the addresses of a TCP connection.
type onLoopback struct{ net.Conn }

func (onLoopback) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (onLoopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// sumCounters adds up those that impairments leave traces in.
func sumCounters(all ...softnic.Counters) (sum softnic.Counters) {
	for _, c := range all {
		sum.Retransmits += c.Retransmits
		sum.OutOfSequence += c.OutOfSequence
		sum.Duplicates += c.Duplicates
		sum.DropICRC += c.DropICRC
		sum.MarksReceived += c.MarksReceived
	}
	return sum
}
