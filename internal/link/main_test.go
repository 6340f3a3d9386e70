package link

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/roce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	alice = netip.MustParseAddr("10.7.0.1")
	bob   = netip.MustParseAddr("10.7.0.2")
)

// numbered returns a packet to dst that carries a number and n bytes more.
func numbered(dst netip.Addr, number uint32, n int) *Packet {
	h := roce.Header{Opcode: roce.SendOnly, DestQP: 2, PSN: number}
	p := Get(roce.Size(h.Opcode, n))
	p.Dst = dst
	payload, _ := h.Put(p.Buf, n)
	for i := range payload {
		payload[i] = byte(int(number) + i)
	}
	return p
}

// inbox is a receiver that keeps the numbers of what it got.
type inbox struct {
	t       testing.TB
	mu      sync.Mutex
	numbers []uint32
	last    Packet
	arrived chan struct{} // has a token when something came
}

func newInbox(t testing.TB) *inbox { return &inbox{t: t, arrived: make(chan struct{}, 1)} }

func (b *inbox) receive(p *Packet) {
	b.mu.Lock()
	number := binary.BigEndian.Uint32(p.Buf[8:]) & 0xffffff
	b.numbers = append(b.numbers, number)
	b.last.Src, b.last.Dst, b.last.SrcPort, b.last.TClass = p.Src, p.Dst, p.SrcPort, p.TClass
	b.last.Buf = append(b.last.Buf[:0], p.Buf...)
	b.mu.Unlock()
	want := numbered(p.Dst, number, len(p.Buf)-roce.BTHSize-roce.BTH(p.Buf).Pad())
	if string(want.Buf) != string(p.Buf) {
		b.t.Errorf("packet %d arrived changed", number)
	}
	want.Release()
	p.Release()
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

func (b *inbox) got() []uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]uint32{}, b.numbers...)
}

// wait waits until n packets have come.
func (b *inbox) wait(n int) []uint32 {
	b.t.Helper()
	late := time.After(10 * time.Second)
	for {
		if got := b.got(); len(got) >= n {
			return got
		}
		select {
		case <-b.arrived:
		case <-late:
			b.t.Fatalf("%d packets arrived, not %d", len(b.got()), n)
		}
	}
}

func numbers(from, to uint32) (n []uint32) {
	for ; from < to; from++ {
		n = append(n, from)
	}
	return n
}

// pair is two links on a switch, with an inbox each.
func pair(t testing.TB) (a, b Link, atA, atB *inbox) {
	s := NewSwitch()
	atA, atB = newInbox(t), newInbox(t)
	a, err := s.Join(alice, atA.receive)
	require.NoError(t, err)
	b, err = s.Join(bob, atB.receive)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
	return a, b, atA, atB
}
