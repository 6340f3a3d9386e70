package conformance

import (
	"fmt"
	"slices"

	"github.com/farwire/farwire/rdma/mlx5"
)

// step is calls after which both sides are compared. What rings is polled for until it
// has completed, and every step ends with a command, since the NIC looks for the
// doorbells of another process before it executes one.
type step struct {
	name  string
	calls []string
}

func do(name string, parts ...[]string) step {
	return step{name, append(slices.Concat(parts...), call("port")...)}
}

// The objects of the script. Queue pairs a and b are connected to each other, the
// others to themselves.
const (
	memory, writable, private = 0, 1, 2 // regions
	sends, receives, others   = 0, 1, 2 // completion queues
	a, b, plain, odd, wide    = 0, 1, 2, 3, 4
	shared                    = 0    // shared receive queue
	one, two                  = 5, 6 // queue pairs of it

	memorySize = 1 << 16
	inlineMost = 220 // of b, as its request rounds up
)

// script is every call that both drivers have, in all the shapes that reach the NIC
// differently.
func script(nic *mlx5.NIC) []step {
	var m message
	return slices.Concat(setUp(nic), everyOperation(&m), lists(&m), rings(&m), events(&m), sharing(nic, &m), tearDown(&m))
}

func setUp(nic *mlx5.NIC) []step {
	return []step{
		do("register", call("mr", memory, memorySize, regionReadWrite), call("mr", writable, 5000, regionWrite),
			call("mr", private, 4096, regionLocal)),
		do("completion queues", call("cq", sends, 100), call("cq", receives, 64)),
		// Pair, its queues, sends, receives, segments of each, inline bytes, and whether
		// the operations are named.
		do("queue pairs", call("qp", a, sends, receives, 32, 8, 2, 1, 28, 1), call("qp", b, sends, receives, 8, 16, 12, 4, 188, 1)),
		do("queue pair that does not name its operations", call("qp", plain, sends, receives, 4, 4, 2, 2, 28, 0)),
		do("queue pair whose sizes are rounded", call("qp", odd, sends, receives, 3, 5, 1, 3, 20, 1)),
		do("queue pair of many segments", call("qp", wide, sends, receives, 4, 4, 30, 2, 0, 1)),
		do("connect", connect(nic, a, b, peerReadWrite), connect(nic, b, a, peerReadWrite), connect(nic, plain, plain, peerWrite),
			connect(nic, odd, odd, peerNothing), connect(nic, wide, wide, peerReadWrite)),
		do("query", call("query", a)),
	}
}

// everyOperation is each operation and flag.
func everyOperation(m *message) []step {
	compareSwap := post{op: opCompareSwap, flags: signaled, remote: memory, at: 4096,
		compareAdd: 0x0102030405060708, swap: 0x1112131415161718, segments: []segment{{private, 8, 8}}}
	fetchAdd := post{op: opFetchAdd, flags: signaled, remote: memory, at: 4096, compareAdd: 0x21, segments: []segment{{private, 16, 8}}}
	return []step{
		do("send", receive(b, anywhere), m.send(a), arrived(1)),
		do("send with immediate", receive(a, anywhere), sent(b, m.of(post{op: opSendImm, flags: signaled, imm: 0x11223344})), arrived(1)),
		do("send of no bytes", receive(b), sent(a, post{op: opSend, flags: signaled}), arrived(1)),
		do("small send", receive(b, anywhere), sent(a, post{op: opSend, flags: signaled, segments: []segment{{memory, 5, 20}}}), arrived(1)),
		do("write", m.write(a)),
		do("write with immediate", receive(b),
			sent(a, m.of(post{op: opWriteImm, flags: signaled, imm: 7, remote: writable, at: 100})), arrived(1)),
		do("read", sent(b, post{op: opRead, flags: signaled, remote: memory, at: 100, segments: []segment{{private, 64, 700}}})),
		do("compare and swap", sent(a, compareSwap)),
		do("fetch and add", sent(b, fetchAdd)),
		do("fence", sent(a, m.of(post{op: opWrite, flags: signaled | fence, remote: memory, at: 20000}))),
	}
}

// lists is entries and receives of several segments, and several of them at once.
func lists(m *message) []step {
	several := post{op: opWrite, flags: signaled, remote: memory, at: 24000, segments: []segment{
		{memory, 0, 1}, {private, 0, 0}, {memory, 7, 99}, {writable, 4000, 1000}, {memory, 3, 3}, {memory, 64, 64}}}
	of := func(op, segments int) post {
		return post{op: op, flags: signaled, remote: memory, at: 20000, segments: scattered(segments)}
	}
	return []step{
		do("several segments", sent(b, several)),
		do("entry that just fits half a register", sent(wide, of(opWrite, 14))),
		do("entry that does not", sent(wide, of(opWrite, 15))),
		do("entry of most segments", sent(wide, of(opRead, 30))),
		do("receives of several segments",
			receive(b, segment{memory, 32768, 10}, segment{memory, 40000, 0}, segment{memory, 33000, 100}),
			receive(b, segment{memory, 34000, 1}, segment{memory, 34001, 1}, segment{memory, 34002, 1}, segment{memory, 34003, 1000}),
			sent(a, post{op: opSend, segments: []segment{{memory, 77, 64}}}, m.of(post{op: opSend, flags: signaled})), arrived(2)),
		do("receives at once", receiveAtOnce(b, 3, segment{memory, 16384, 40}, segment{memory, 32768, 2000}),
			times(3, func() []string { return m.send(a) }), arrived(3)),
		do("chain", chain(b, 7)),
		do("chain of 32", chain(a, 32)),
	}
}

// rings goes around the ends of rings.
func rings(m *message) []step {
	small := func(flags, n int) []string {
		return sent(plain, post{op: opWrite, flags: signaled | flags, remote: writable, segments: []segment{{private, 0, n}}})
	}
	return []step{
		do("every size inline", everySize()),
		do("ring of one block an entry, many times", times(70, func() []string { return m.write(a) })),
		do("atomic where an entry lay", sent(b, post{op: opFetchAdd, flags: signaled, remote: memory, at: 4096,
			compareAdd: 1, segments: []segment{{private, 16, 8}}})),
		do("receive ring many times", times(40, func() []string {
			return slices.Concat(receive(b, anywhere), m.send(a), arrived(1))
		})),
		do("ring that has room for other operations", small(0, 60), small(inline, 28)),
	}
}

// events arms, and takes events.
func events(m *message) (all []step) {
	all = append(all, do("arm", call("arm", receives, 0)),
		do("event", receive(b, anywhere), m.send(a), call("event", receives), arrived(1)))
	for i := range 5 { // past the two bits of the sequence number
		all = append(all, do(fmt.Sprintf("arm for solicited %d", i), call("arm", receives, 1)),
			do(fmt.Sprintf("solicited event %d", i), receive(b, anywhere),
				sent(a, m.of(post{op: opSend, flags: signaled | solicited})), call("event", receives), arrived(1)))
	}
	return append(all, do("arm for sends", call("arm", sends, 0)), do("event of sends", m.write(a), call("event", sends)))
}

// sharing is two queue pairs with a shared receive queue, whose completions go to two
// queues, so that receives do not become free in the order they were taken in. Each is made
// when another one has gone: with as many more the drivers take doorbell pages differently.
func sharing(nic *mlx5.NIC, m *message) []step {
	across := func() []string {
		return slices.Concat(receiveShared(3, anywhere), m.send(one), m.send(two), m.send(one),
			call("poll", others, 1), arrived(2))
	}
	return []step{
		do("shared receive queue", call("srq", shared, 5, 2), call("cq", others, 64)),
		do("queue pairs of it, in the places of others", call("destroyqp", odd), call("sharingqp", one, sends, receives, shared, 8, 2, 28),
			call("destroyqp", plain), call("sharingqp", two, sends, others, shared, 4, 1, 28)),
		do("connect them", connect(nic, one, one, peerWrite), connect(nic, two, two, peerNothing)),
		do("limit", receiveShared(2, anywhere), call("limit", shared, 1), call("limit", shared, 0)),
		do("shared receives", m.send(two), m.send(one), call("poll", others, 1), arrived(1)),
		do("shared receives of several segments", receiveShared(2, segment{memory, 16384, 2}, anywhere),
			receiveShared(1, segment{memory, 16384, 2}, segment{private, 0, 9}, anywhere), receiveShared(1),
			m.send(one), m.send(two), m.send(one), sent(two, post{op: opSend, flags: signaled}), call("poll", others, 2), arrived(2)),
		do("shared receives, freed in another order", times(30, across)),
		do("queue pair with completions", receiveShared(4, anywhere), m.send(one), m.send(two), m.send(one), call("destroyqp", one)),
		do("the other one", m.send(two), call("poll", others, 2),
			times(9, func() []string {
				return slices.Concat(receiveShared(1, anywhere), m.send(two), call("poll", others, 1))
			})),
		do("destroy them", call("destroyqp", two), call("destroysrq", shared), call("destroycq", others)),
	}
}

func tearDown(m *message) []step {
	return []step{
		do("fail", receive(b, anywhere), receive(b), call("fail", b), arrived(2), sent(b, m.of(post{op: opSend}))),
		do("destroy queue pairs", call("destroyqp", a), call("destroyqp", b), call("destroyqp", wide)),
		do("destroy completion queues", call("destroycq", sends), call("destroycq", receives)),
		do("deregister", call("deregmr", memory), call("deregmr", writable), call("deregmr", private)),
		{"close", call("close")},
	}
}
