package link

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/roce"
)

// queued is a sender with packets of these sizes to bob.
func queued(payloads ...int) *sender {
	s := &sender{segment: true}
	for i, n := range payloads {
		p := numbered(bob, uint32(i), n)
		p.stamp(alice)
		s.queue[s.n] = p
		s.n++
	}
	return s
}

// A message is packets of one size, and one that is shorter at its end.
func TestArrange(t *testing.T) {
	split := func(s *sender) (sizes []int) {
		n := s.arrange()
		for i := range n {
			sizes = append(sizes, s.at[i+1]-s.at[i])
		}
		return sizes
	}
	require.Equal(t, []int{4}, split(queued(4096, 4096, 4096, 100)))
	require.Equal(t, []int{3, 1}, split(queued(4096, 4096, 100, 100)))
	require.Equal(t, []int{2, 2, 1}, split(queued(4096, 100, 4096, 4096, 4100)), "one that is longer begins anew")
	require.Equal(t, []int{15, 5}, split(queued(full(20)...)), "64 KiB")
	require.Equal(t, []int{60}, split(queued(make([]int, 60)...)))

	s := queued(4, 4, 4, 4, 4, 4)
	s.queue[2].TClass, s.queue[3].TClass = 2, 2
	s.queue[4].Dst = netip.MustParseAddr("10.7.0.3")
	require.Equal(t, []int{2, 2, 1, 1}, split(s), "others' packets, and of another class")

	s = queued(4, 4, 4)
	s.queue[1].seal()
	require.Equal(t, []int{1, 2}, split(s), "a sealed one has the identification of the first")

	s = queued(4, 4)
	s.segment = false
	require.Equal(t, []int{1, 1}, split(s))

	s = queued(full(3)...)
	s.arrange()
	for i, p := range s.queue[:3] {
		path := p.path()
		require.Equal(t, uint16(i), path.ID)
		require.True(t, roce.CheckICRC(&path, p.Buf))
	}
}

func full(n int) (payloads []int) {
	for range n {
		payloads = append(payloads, roce.MaxMTU)
	}
	return payloads
}

// Many packets in one call arrive as they were sent.
func TestUDPBatches(t *testing.T) {
	a, b, _, atB := two(t)
	total := uint32(0)
	for round := range 20 {
		for i := range sendQueue + 10*round {
			n := roce.MaxMTU
			if i%7 == 3 {
				n = i
			}
			p := numbered(b.Addr(), total, n)
			p.TClass = uint8(i / 30 * 4)
			a.Send(p)
			total++
		}
		a.Flush()
		require.Equal(t, numbers(0, total), atB.wait(int(total)))
	}
	require.Equal(t, [NumDrops]uint64{}, b.Counters().Dropped)
	require.Equal(t, uint64(total), a.Counters().Sent)
}

// Where the kernel does not cut messages, packets leave one by one.
func TestUDPBatchRefused(t *testing.T) {
	a, b, _, atB := two(t)
	u := a.(*udp)
	// The kernel computes checksums of what it cuts (udp(7)).
	require.NoError(t, unix.SetsockoptInt(u.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	for i := range uint32(10) {
		a.Send(numbered(b.Addr(), i, roce.MaxMTU))
	}
	a.Flush()
	require.Equal(t, numbers(0, 10), atB.wait(10))
	require.False(t, u.out.segment)
	require.Equal(t, uint64(10), a.Counters().Sent)
	for i := range uint32(10) {
		a.Send(numbered(b.Addr(), 10+i, roce.MaxMTU))
	}
	a.Flush()
	require.Equal(t, numbers(0, 20), atB.wait(20))
}

// Packets stay whole for as long as they are kept, though they arrived together.
func TestUDPKeepsPackets(t *testing.T) {
	kept := make(chan *Packet, 200)
	b, err := LoopbackUDP(func(p *Packet) { kept <- p })
	require.NoError(t, err)
	defer b.Close()
	a, _ := loopback(t)
	for round := range uint32(5) {
		for i := range uint32(40) {
			a.Send(numbered(b.Addr(), 40*round+i, roce.MaxMTU))
		}
		a.Flush()
	}
	var all []*Packet
	for range 200 {
		all = append(all, <-kept)
	}
	in := newInbox(t)
	for _, p := range all {
		in.receive(p)
	}
	require.Equal(t, numbers(0, 200), in.got())
}

// A burst is announced around the packets it has.
func TestUDPAround(t *testing.T) {
	a, b, _, atB := two(t)
	bursts := make(chan int, 100)
	b.(Bursty).Around(func(burst func()) {
		before := len(atB.got())
		burst()
		bursts <- len(atB.got()) - before
	})
	for i := range uint32(15) {
		a.Send(numbered(b.Addr(), i, roce.MaxMTU))
	}
	a.Flush()
	require.Equal(t, numbers(0, 15), atB.wait(15))
	require.Equal(t, 15, <-bursts)
}

// Full batches allocate nothing, neither where they leave nor where they arrive.
func TestUDPBatchDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	const packets = 40
	arrived, all := 0, make(chan struct{})
	b, err := LoopbackUDP(func(p *Packet) {
		p.Release()
		if arrived++; arrived%packets == 0 {
			all <- struct{}{}
		}
	})
	require.NoError(t, err)
	defer b.Close()
	a, _ := loopback(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for range packets {
			p := a.Get(roce.MaxMTU)
			p.Dst = b.Addr()
			a.Send(p)
		}
		a.Flush()
		<-all
	}))
}
