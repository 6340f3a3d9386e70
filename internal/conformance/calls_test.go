package conformance

import (
	"fmt"
	"strings"

	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/verbs"
)

// A call is a line for testdata/calls.c: a word and numbers. Functions that return calls
// return several, of which some have one.

// The numbers of libibverbs' operations, flags and access rights that calls have.
const (
	opWrite, opWriteImm, opSend, opSendImm, opRead, opCompareSwap, opFetchAdd = 0, 1, 2, 3, 4, 5, 6

	fence, signaled, solicited, inline = 1, 2, 4, 8

	regionLocal, regionWrite, regionReadWrite = 1, 1<<20 | 3, 15
	peerNothing, peerWrite, peerReadWrite     = 0, 2, 14
)

func call(word string, numbers ...int) []string { return []string{word + spaced(numbers...)} }

func spaced(numbers ...int) string {
	var b strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&b, " %d", n)
	}
	return b.String()
}

// connect has the attributes that our driver gives a queue pair.
func connect(nic *mlx5.NIC, pair, peer, access int) []string {
	address, _ := nic.Address() // asked before: it cannot fail
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

// anywhere is where messages that nobody looks at arrive.
var anywhere = segment{memory, 16384, 4096}

// scattered is n segments of 1 to n bytes.
func scattered(n int) (all []segment) {
	for i := range n {
		all = append(all, segment{memory, 200 * i, i + 1})
	}
	return all
}

func list(segments []segment) string {
	s := spaced(len(segments))
	for _, v := range segments {
		s += spaced(v.region, v.offset, v.length)
	}
	return s
}

func receive(pair int, into ...segment) []string { return receiveAtOnce(pair, 1, into...) }

// receiveAtOnce posts n receives into the same memory.
func receiveAtOnce(pair, n int, into ...segment) []string {
	return []string{"recv" + spaced(pair, n) + list(into)}
}

// receiveShared posts n receives to the shared receive queue.
func receiveShared(n int, into ...segment) []string {
	return []string{"recvsrq" + spaced(shared, n) + list(into)}
}

// arrived polls for n receives.
func arrived(n int) []string { return call("poll", receives, n) }

// post is an entry of a send queue.
type post struct {
	op, flags        int
	imm              int
	remote, at       int
	compareAdd, swap int
	segments         []segment
}

// sent posts entries with one doorbell, and polls for the completion of the last.
func sent(pair int, entries ...post) (calls []string) {
	for _, p := range entries {
		calls = append(calls, "send"+spaced(p.op, p.flags, p.imm, p.remote, p.at, p.compareAdd, p.swap)+list(p.segments))
	}
	return append(append(calls, call("ring", pair)...), call("poll", sends, 1)...)
}

// message makes entries of 1000 bytes, no two from the same place: no two entries are
// alike but for their first words, so that what lies behind a doorbell register tells
// whether an entry was copied there.
type message struct{ made int }

func (m *message) of(p post) post {
	m.made++
	p.segments = []segment{{memory, m.made, 1000}}
	return p
}

func (m *message) send(pair int) []string {
	return sent(pair, m.of(post{op: opSend, flags: signaled}))
}

func (m *message) write(pair int) []string {
	return sent(pair, m.of(post{op: opWrite, flags: signaled, remote: memory, at: 20000}))
}

func times(n int, calls func() []string) (all []string) {
	for range n {
		all = append(all, calls()...)
	}
	return all
}

// chain is n entries with one doorbell, of which the last alone completes.
func chain(pair, n int) []string {
	var entries []post
	for i := range n {
		entries = append(entries, post{op: opWrite, remote: memory, at: 40000 + 64*i, segments: []segment{{memory, 64 * i, 64}}})
	}
	entries[n-1].flags = signaled
	return sent(pair, entries...)
}

// everySize writes every number of bytes that fits inline, which go around the end of
// the ring at every place. No bytes are an entry of no segment.
func everySize() (calls []string) {
	for n := range inlineMost + 1 {
		calls = append(calls, sent(b, post{op: opWrite, flags: signaled | inline, remote: memory, at: 20000,
			segments: []segment{{memory, 3, n}}})...)
	}
	return calls
}
