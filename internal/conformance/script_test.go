package conformance

import (
	"fmt"
	"strings"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/verbs"
)

// step is calls after which both sides are compared. Each call is a line for
// testdata/calls.c. A step that rings ends only when everything has completed, and
// every step that stores to a doorbell ends with a command, since the NIC looks for the
// doorbells of another process before it executes one.
type step struct {
	name  string
	calls []string
}

// The numbers of libibverbs' operations, flags and access rights that calls have.
const (
	opWrite, opWriteImm, opSend, opSendImm, opRead, opCompareSwap, opFetchAdd = 0, 1, 2, 3, 4, 5, 6

	fence, signaled, solicited, inline = 1, 2, 4, 8

	regionLocal, regionWrite, regionReadWrite = 1, 1<<20 | 3, 15
	peerNothing, peerWrite, peerReadWrite     = 0, 2, 14
)

// The objects of the script. Queue pairs a and b are connected to each other, the
// others to themselves.
const (
	memory, writable, private = 0, 1, 2 // regions
	sends, receives           = 0, 1    // completion queues
	a, b, plain, odd, wide    = 0, 1, 2, 3, 4

	memorySize = 1 << 16
	inlineMost = 220 // of b, as its request rounds up
)

// script is every call that both drivers have, in all the shapes that reach the NIC
// differently.
func script(nic *mlx5.NIC) (all []step) {
	add := func(name string, calls ...string) { all = append(all, step{name, append(calls, "port")}) }
	addCalls := func(name string, calls []string) { add(name, calls...) }

	add("register", call("mr", memory, memorySize, regionReadWrite), call("mr", writable, 5000, regionWrite), call("mr", private, 4096, regionLocal))
	add("completion queues", call("cq", sends, 100), call("cq", receives, 64))
	add("queue pairs", call("qp", a, sends, receives, 32, 8, 2, 1, 28, 1), call("qp", b, sends, receives, 8, 16, 12, 4, 188, 1))
	add("queue pair that does not name its operations", call("qp", plain, sends, receives, 4, 4, 2, 2, 28, 0))
	add("queue pair whose sizes are rounded", call("qp", odd, sends, receives, 3, 5, 1, 3, 20, 1))
	add("queue pair of many segments", call("qp", wide, sends, receives, 4, 4, 30, 2, 0, 1))
	add("connect", connect(nic, a, b, peerReadWrite), connect(nic, b, a, peerReadWrite),
		connect(nic, plain, plain, peerWrite),
		connect(nic, odd, odd, peerNothing), connect(nic, wide, wide, peerReadWrite))
	add("query", call("query", a))

	into := func(pair int, segments ...segment) string { return call("recv", pair, 1) + list(segments) }
	done := func(pair, n int) []string { return []string{call("ring", pair), call("poll", sends, n)} }
	one := func(pair int, p post) []string { return append([]string{p.call()}, done(pair, 1)...) }
	received := func(n int) string { return call("poll", receives, n) }

	// No two entries are alike but for their first words: what lies behind a doorbell
	// register tells whether it was copied there.
	moved := 0
	half := func() segment { moved++; return segment{memory, moved, 1000} }
	place := func() segment { moved++; return segment{memory, moved, 64} }
	addCalls("send", append(append([]string{into(b, segment{memory, 16384, 4096})},
		one(a, post{op: opSend, flags: signaled, segments: []segment{half()}})...), received(1)))
	addCalls("send with immediate", append(append([]string{into(a, segment{memory, 16384, 4096})},
		one(b, post{op: opSendImm, flags: signaled, imm: 0x11223344, segments: []segment{half()}})...), received(1)))
	addCalls("send of no bytes", append(append([]string{into(b)},
		one(a, post{op: opSend, flags: signaled})...), received(1)))
	addCalls("small send", append(append([]string{into(b, segment{memory, 16384, 4096})},
		one(a, post{op: opSend, flags: signaled, segments: []segment{{memory, 5, 20}}})...), received(1)))
	addCalls("write", one(a, post{op: opWrite, flags: signaled, remote: memory, at: 20000, segments: []segment{{private, 0, 300}}}))
	addCalls("write with immediate", append(append([]string{into(b)},
		one(a, post{op: opWriteImm, flags: signaled, imm: 7, remote: writable, at: 100, segments: []segment{half()}})...), received(1)))
	addCalls("read", one(b, post{op: opRead, flags: signaled, remote: memory, at: 100, segments: []segment{{private, 64, 700}}}))
	addCalls("compare and swap", one(a, post{op: opCompareSwap, flags: signaled, remote: memory, at: 4096,
		compareAdd: 0x0102030405060708, swap: 0x1112131415161718, segments: []segment{{private, 8, 8}}}))
	addCalls("fetch and add", one(b, post{op: opFetchAdd, flags: signaled, remote: memory, at: 4096,
		compareAdd: 0x21, segments: []segment{{private, 16, 8}}}))
	addCalls("fence", one(a, post{op: opWrite, flags: signaled | fence, remote: memory, at: 20000, segments: []segment{place()}}))
	addCalls("several segments", one(b, post{op: opWrite, flags: signaled, remote: memory, at: 24000,
		segments: []segment{{memory, 0, 1}, {private, 0, 0}, {memory, 7, 99}, {writable, 4000, 1000}, {memory, 3, 3}, {memory, 64, 64}}}))
	addCalls("receives of several segments", append(append([]string{
		into(b, segment{memory, 32768, 10}, segment{memory, 40000, 0}, segment{memory, 33000, 100}),
		into(b, segment{memory, 34000, 1}, segment{memory, 34001, 1}, segment{memory, 34002, 1}, segment{memory, 34003, 61}),
		post{op: opSend, segments: []segment{place()}}.call(),
		post{op: opSend, flags: signaled, segments: []segment{place()}}.call(),
	}, done(a, 1)...), received(2)))
	addCalls("receives at once", append(append([]string{call("recv", b, 3) + list([]segment{{memory, 16384, 40}, {memory, 32768, 500}})},
		times(3, func() []string {
			return one(a, post{op: opSend, flags: signaled, segments: []segment{place()}})
		})...), received(3)))
	addCalls("entry that just fits half a register", one(wide, post{op: opWrite, flags: signaled, remote: memory, at: 20000, segments: scattered(14)}))
	addCalls("entry that does not", one(wide, post{op: opWrite, flags: signaled, remote: memory, at: 20000, segments: scattered(15)}))
	addCalls("entry of most segments", one(wide, post{op: opRead, flags: signaled, remote: memory, at: 20000, segments: scattered(30)}))
	addCalls("chain", chain(b, 7, done))
	addCalls("chain of 32", chain(a, 32, done))
	addCalls("every size inline", everySize(one))
	addCalls("ring of one block an entry, many times", times(70, func() []string {
		return one(a, post{op: opWrite, flags: signaled, remote: memory, at: 20000, segments: []segment{place()}})
	}))
	addCalls("atomic where an entry lay", one(b, post{op: opFetchAdd, flags: signaled, remote: memory, at: 4096,
		compareAdd: 1, segments: []segment{{private, 16, 8}}}))
	addCalls("receive ring many times", times(40, func() []string {
		return append(append([]string{into(b, segment{memory, 16384, 4096})},
			one(a, post{op: opSend, flags: signaled, segments: []segment{half()}})...), received(1))
	}))
	addCalls("plain ring", one(plain, post{op: opWrite, flags: signaled, remote: writable, at: 0, segments: []segment{{private, 0, 60}}}))
	addCalls("plain ring inline", one(plain, post{op: opWrite, flags: signaled | inline, remote: writable, at: 0, segments: []segment{{private, 0, 28}}}))

	add("arm", call("arm", receives, 0))
	addCalls("event", append(append([]string{into(b, segment{memory, 16384, 4096})},
		one(a, post{op: opSend, flags: signaled, segments: []segment{half()}})...), call("event", receives), received(1)))
	for i := range 5 { // past the two bits of the sequence number
		add(fmt.Sprintf("arm again %d", i), call("arm", receives, 1))
		addCalls(fmt.Sprintf("solicited event %d", i), append(append([]string{into(b, segment{memory, 16384, 4096})},
			one(a, post{op: opSend, flags: signaled | solicited, segments: []segment{half()}})...), call("event", receives), received(1)))
	}
	add("arm sends", call("arm", sends, 0))
	addCalls("event of sends", append([]string{post{op: opWrite, flags: signaled, remote: memory, at: 20000, segments: []segment{place()}}.call(),
		call("ring", a), call("event", sends)}, call("poll", sends, 1)))

	addCalls("fail", []string{into(b, place()), into(b), call("fail", b), received(2),
		post{op: opSend, segments: []segment{place()}}.call(), call("ring", b), call("poll", sends, 1)})
	add("destroy queue pairs", call("destroyqp", a), call("destroyqp", b), call("destroyqp", plain), call("destroyqp", odd), call("destroyqp", wide))
	add("destroy completion queues", call("destroycq", sends), call("destroycq", receives))
	add("deregister", call("deregmr", memory), call("deregmr", writable), call("deregmr", private))
	return append(all, step{"close", []string{"close"}})
}

func call(word string, numbers ...int) string {
	return strings.Join(append([]string{word}, strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]"))...), " ")
}

// connect has the attributes that our driver gives a queue pair.
func connect(nic *mlx5.NIC, pair, peer, access int) string {
	address, _ := nic.Address()
	timeout, peerReads := 14, 0
	if address.LinkLayer == verbs.LinkInfiniBand {
		timeout = 18
	}
	if access == peerReadWrite {
		peerReads = nic.Limits().PeerReads
	}
	return call("connect", pair, peer, access, peerReads, nic.Limits().Reads, timeout, address.GIDIndex)
}

// segment is a part of a region.
type segment struct{ region, offset, length int }

func list(segments []segment) string {
	s := fmt.Sprintf(" %d", len(segments))
	for _, v := range segments {
		s += fmt.Sprintf(" %d %d %d", v.region, v.offset, v.length)
	}
	return s
}

// scattered is n segments of 1 to n bytes.
func scattered(n int) (all []segment) {
	for i := range n {
		all = append(all, segment{memory, 200 * i, i + 1})
	}
	return all
}

// post is an entry of a send queue.
type post struct {
	op, flags        int
	imm              uint32
	remote, at       int
	compareAdd, swap int
	segments         []segment
}

func (p post) call() string {
	return call("send", p.op, p.flags, int(p.imm), p.remote, p.at, p.compareAdd, p.swap) + list(p.segments)
}

func times(n int, calls func() []string) (all []string) {
	for range n {
		all = append(all, calls()...)
	}
	return all
}

// chain is entries with one doorbell, of which the last alone completes.
func chain(pair, n int, done func(pair, n int) []string) (calls []string) {
	for i := range n {
		p := post{op: opWrite, remote: memory, at: 40000 + 64*i, segments: []segment{{memory, 64 * i, 64}}}
		if i == n-1 {
			p.flags = signaled
		}
		calls = append(calls, p.call())
	}
	return append(calls, done(pair, 1)...)
}

// everySize writes every number of bytes that fits inline, which go around the end of
// the ring at every place. No bytes are an entry of no segment.
func everySize(one func(pair int, p post) []string) (calls []string) {
	for n := range inlineMost + 1 {
		calls = append(calls, one(b, post{op: opWrite, flags: signaled | inline, remote: memory, at: 20000, segments: []segment{{memory, 3, n}}})...)
	}
	return calls
}
