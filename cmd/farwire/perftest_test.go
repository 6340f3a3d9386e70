package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/perftest"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// The peers are perftest's programs, unmodified. They do not check what they get, so
// the test reads their memory.

// perfRounds is how many operations a test has, and perfSize the bytes of each, atomics
// aside: several packets, the last with a pad.
const (
	perfRounds = 24
	perfSize   = 20001

	// receiveOffset is where the programs receive: on the next cache line.
	receiveOffset = (perfSize+63)&^63 - perfSize
)

func TestOurDriverAgainstPerftest(t *testing.T) {
	w := onDevice(t)
	for program, play := range map[string]struct{ client, server func(*perfEnd) }{
		"ib_send_bw":    {(*perfEnd).sendAll, (*perfEnd).hearAll},
		"ib_write_bw":   {(*perfEnd).writeAll, (*perfEnd).beWritten},
		"ib_read_bw":    {(*perfEnd).readAll, (*perfEnd).beRead},
		"ib_atomic_bw":  {(*perfEnd).addAll, (*perfEnd).beAdded},
		"ib_send_lat":   {(*perfEnd).sendFirst, (*perfEnd).sendSecond},
		"ib_write_lat":  {(*perfEnd).writeSecond, (*perfEnd).writeFirst},
		"ib_read_lat":   {(*perfEnd).readAll, (*perfEnd).beRead},
		"ib_atomic_lat": {(*perfEnd).addAll, (*perfEnd).beAdded},
	} {
		t.Run(program+" serves", func(t *testing.T) { playPerftest(t, w, program, true, play.client) })
		t.Run(program+" dials", func(t *testing.T) { playPerftest(t, w, program, false, play.server) })
		if strings.HasSuffix(program, "_bw") && w.device == "" {
			t.Run(program+" serves on InfiniBand", func(t *testing.T) { playPerftest(t, onInfiniBand(t), program, true, play.client) })
			t.Run(program+" dials on InfiniBand", func(t *testing.T) { playPerftest(t, onInfiniBand(t), program, false, play.server) })
		}
	}
}

// perfEnd is our end of a test.
type perfEnd struct {
	*ours
	mine, peer perftest.Record
	exchange   *perftest.Exchange
	bandwidth  bool
	program    *os.File // the program's memory
	kept       []work.Completion
	receives   int // posted
}

// Our region is parts of whole pages: what the peer writes, reads and adds to; what we
// send, write, and read into; and what receives fill in turn.
const (
	reachable = iota
	outgoing
	received
	receiveParts = 4
	parts        = received + receiveParts

	partSize = (perfSize + 4095) &^ 4095
)

func playPerftest(t *testing.T, w where, program string, client bool, play func(*perfEnd)) {
	need(t, program)
	args := append([]string{program, "-F", "-n", fmt.Sprint(perfRounds)}, w.gidArgs(t, "-x")...)
	size := 8
	if !strings.Contains(program, "atomic") {
		size = perfSize
		args = append(args, "-s", fmt.Sprint(size))
	}
	c, port, said := meet(t, w, args, client)
	require.NoError(t, c.SetDeadline(time.Now().Add(bound)))
	e := &perfEnd{
		ours:      newOurs(t, w, work.RemoteReadWrite, parts*partSize, 4, receiveParts),
		exchange:  perftest.New(c, client, w.layer == verbs.LinkEthernet),
		bandwidth: strings.HasSuffix(program, "_bw"),
	}
	e.connect(w.layer)
	e.program = memoryOf(t, program, port)
	for range receiveParts {
		e.receive()
	}
	e.fill(0)
	if strings.Contains(program, "read") {
		copy(e.part(reachable), e.part(outgoing))
	}
	for range 3 { // after the second one some programs begin
		e.swap()
	}
	play(e)
	if e.bandwidth && program != "ib_send_bw" {
		r, err := e.exchange.Report(perftest.Report{Size: uint64(size), Iterations: perfRounds})
		require.NoError(t, err)
		if !client {
			require.EqualValues(t, size, r.Size)
			require.EqualValues(t, perfRounds, r.Iterations)
		}
	}
	if program != "ib_write_lat" {
		require.NoError(t, e.exchange.Finish(e.mine))
	}
	require.Contains(t, <-said, "remote address")
}

// connect meets the program and connects to its queue pair, with the smaller MTU.
func (e *perfEnd) connect(layer verbs.LinkLayer) {
	hello, err := e.exchange.Hello(perftest.Hello{Cycle: 4096, CacheLine: 64, MTU: uint8(verbs.MTU1024)})
	require.NoError(e.t, err)
	require.EqualValues(e.t, e.mtu, hello.MTU)
	here, err := e.memory.Remote(reachable * partSize)
	require.NoError(e.t, err)
	end := e.pair.Endpoint()
	e.mine = perftest.Record{LID: end.LID, Reads: 16, QPN: end.QPN, PSN: end.PSN, RKey: here.RKey, Addr: here.Addr, GID: end.GID}
	e.peer = e.swap()
	require.NoError(e.t, e.pair.Connect(work.RemoteReadWrite, verbs.Endpoint{
		LinkLayer: layer, MTU: verbs.MTU1024, QPN: e.peer.QPN, PSN: e.peer.PSN, LID: e.peer.LID, GID: e.peer.GID,
	}))
}

// swap exchanges records: the peer's never changes.
func (e *perfEnd) swap() perftest.Record {
	r, err := e.exchange.Swap(e.mine)
	require.NoError(e.t, err)
	require.True(e.t, e.peer == perftest.Record{} || e.peer == r, r)
	return r
}

// memoryOf is the memory of the program that was given a port, as a file.
func memoryOf(t *testing.T, program, port string) *os.File {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, c := range commands {
		b, _ := os.ReadFile(c) // its process may be gone
		args := strings.Split(string(b), "\x00")
		if args[0] == program && slices.Contains(args, port) {
			f, err := os.Open(filepath.Join(filepath.Dir(c), "mem"))
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			return f
		}
	}
	require.Fail(t, "program is not there", "%s at port %s", program, port)
	return nil
}

// theirs is n bytes of the program's memory, from an offset to what we may reach.
func (e *perfEnd) theirs(off, n int) []byte {
	b := make([]byte, n)
	_, err := e.program.ReadAt(b, int64(e.peer.Addr)+int64(off))
	require.NoError(e.t, err)
	return b
}

// near is what the program sends, writes and reads into: the half of its memory before
// the one that we may reach. Its bytes are random, or zeros in ib_write_lat.
func (e *perfEnd) near() []byte { return e.theirs(-perfSize, perfSize) }

func (e *perfEnd) part(i int) []byte { return e.memory.Bytes()[i*partSize:][:perfSize] }

// fill makes the next outgoing message, number i. It ends with i+1, as those of
// ib_write_lat must.
func (e *perfEnd) fill(i int) {
	b := e.part(outgoing)
	for at := range b {
		b[at] = byte(at*7 + at>>8 + i)
	}
	b[perfSize-1] = byte(i + 1)
}

// receive posts a receive into the next part.
func (e *perfEnd) receive() {
	part := received + e.receives%receiveParts
	clear(e.part(part))
	require.NoError(e.t, e.pair.Receive(uint64(part), e.memory.Local(part*partSize, perfSize)))
	e.receives++
}

// do has the NIC do an entry with the peer's memory and the first n bytes of the
// outgoing message.
func (e *perfEnd) do(entry work.Entry, n int) {
	entry.Local = e.memory.Local(outgoing*partSize, n)
	if entry.Op != work.Send {
		entry.Remote = work.Target{Addr: e.peer.Addr, RKey: e.peer.RKey}
	}
	entry.Signaled = true
	e.post(entry)
	e.await(work.Sends)
}

// await is the next completion of a ring.
func (e *perfEnd) await(r work.Ring) (c work.Completion) {
	of := func(c work.Completion) bool { return c.Ring == r }
	for !slices.ContainsFunc(e.kept, of) {
		e.kept = append(e.kept, e.next())
	}
	i := slices.IndexFunc(e.kept, of)
	c = e.kept[i]
	e.kept = slices.Delete(e.kept, i, i+1)
	return c
}

// eventually waits for memory to be as it must become.
func (e *perfEnd) eventually(is func() bool) {
	e.t.Helper()
	require.Eventually(e.t, is, bound, time.Millisecond)
}

// same compares message i.
func (e *perfEnd) same(want, got []byte, i int) {
	e.t.Helper()
	require.Len(e.t, got, len(want))
	for at, v := range got {
		if v != want[at] {
			require.Failf(e.t, "another message", "byte %d of message %d is %#x, not %#x", at, i, v, want[at])
		}
	}
}

// send sends message i, and sees it arrive.
func (e *perfEnd) send(i int) {
	e.fill(i)
	e.do(work.Entry{Op: work.Send}, perfSize)
	e.same(e.part(outgoing), e.theirs(receiveOffset, perfSize), i)
}

// hear receives message i.
func (e *perfEnd) hear(i int) {
	c := e.await(work.Receives)
	require.EqualValues(e.t, perfSize, c.Bytes)
	e.same(e.near(), e.part(int(c.ID)), i)
	e.receive()
}

func (e *perfEnd) sendAll() {
	for i := range perfRounds {
		e.send(i)
	}
}

func (e *perfEnd) hearAll() {
	for i := range perfRounds {
		e.hear(i)
	}
}

func (e *perfEnd) sendFirst() {
	for i := range perfRounds {
		e.send(i)
		e.hear(i)
	}
}

func (e *perfEnd) sendSecond() {
	for i := range perfRounds {
		e.hear(i)
		e.send(i)
	}
}

// write writes message i into the peer's memory, and sees it there. With the last
// one ib_write_lat may be gone.
func (e *perfEnd) write(i int) {
	e.fill(i)
	e.do(work.Entry{Op: work.Write}, perfSize)
	if e.bandwidth || i < perfRounds-1 {
		e.same(e.part(outgoing), e.theirs(0, perfSize), i)
	}
}

// written waits for the write of ib_write_lat that is number i.
func (e *perfEnd) written(i int) {
	want := make([]byte, perfSize)
	want[perfSize-1] = byte(i + 1)
	e.eventually(func() bool { return bytes.Equal(want, e.part(reachable)) })
}

func (e *perfEnd) writeAll() {
	for i := range perfRounds {
		e.write(i)
	}
}

func (e *perfEnd) writeFirst() {
	for i := range perfRounds {
		e.write(i)
		e.written(i)
	}
}

func (e *perfEnd) writeSecond() {
	for i := range perfRounds {
		e.written(i)
		e.write(i)
	}
}

func (e *perfEnd) beWritten() {
	e.eventually(func() bool { return bytes.Equal(e.near(), e.part(reachable)) })
}

func (e *perfEnd) readAll() {
	want := e.theirs(0, perfSize)
	for i := range perfRounds {
		clear(e.part(outgoing))
		e.do(work.Entry{Op: work.Read}, perfSize)
		e.same(want, e.part(outgoing), i)
	}
}

func (e *perfEnd) beRead() {
	e.eventually(func() bool { return bytes.Equal(e.part(reachable), e.near()) })
}

// addAll adds to a number of the peer, and puts back what was there.
func (e *perfEnd) addAll() {
	number := func(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
	const step = 1<<40 + 3
	first := number(e.theirs(0, 8))
	now := first
	for i := range perfRounds {
		e.do(work.Entry{Op: work.FetchAdd, Add: step}, 8)
		require.Equal(e.t, now, number(e.part(outgoing)), i)
		now += step
		require.Equal(e.t, now, number(e.theirs(0, 8)), i)
	}
	for _, compare := range []uint64{now + 1, now} {
		e.do(work.Entry{Op: work.CompareSwap, Compare: compare, Swap: first}, 8)
		require.Equal(e.t, now, number(e.part(outgoing)))
	}
	require.Equal(e.t, first, number(e.theirs(0, 8)))
}

// beAdded has the peer add 1 each time: ib_atomic_lat to the same number, ib_atomic_bw to
// one in each cache line.
func (e *perfEnd) beAdded() {
	want := make([]byte, perfSize)
	for i := range perfRounds {
		if e.bandwidth {
			want[i*64] = 1
		} else {
			want[0]++
		}
	}
	e.eventually(func() bool { return bytes.Equal(want, e.part(reachable)) })
}
