package cq

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/ring"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/verbs"
)

// fake is a completion queue over memory into which the test writes, as the NIC
// would.
type fake struct {
	*Queue
	t        testing.TB
	dev      *device.Device
	ci       []byte
	producer ring.Completion
	pair     *ledger.Pair
}

const (
	fakeQPN = 0x1a3
	fakeKey = 7
)

func newFake(t testing.TB, n uint32, version uint8) *fake {
	t.Helper()
	mem, err := hostmem.Alloc(int(n) * prm.CQESize)
	require.NoError(t, err)
	record, err := hostmem.Alloc(64)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, mem.Free())
		require.NoError(t, record.Free())
	})
	f := &fake{t: t, dev: device.Fake(version), ci: record.Bytes(), producer: ring.NewCompletion(n)}
	f.pair = &ledger.Pair{QPN: fakeQPN, Sends: ledger.NewSends(16, 16), Receives: ledger.NewReceives(4, 4)}
	key := device.Key(fakeKey)
	if version == 0 {
		key = fakeQPN
	}
	f.dev.SetPair(key, f.pair)
	f.Queue = &Queue{dev: f.dev, mem: mem, ring: ring.NewCompletion(n),
		record: &device.Record{Words: [2]*uint32{hostmem.Word32(record.Bytes()), hostmem.Word32(record.Bytes()[4:])}}}
	f.open()
	return f
}

// send opens an entry of the pair; it is handed over at once.
func (f *fake) send(id uint64, op Op, blocks uint32) (counter uint16) {
	counter = uint16(f.pair.Sends.Block())
	f.pair.Sends.Open(ledger.Entry{ID: id, Op: uint8(op)}, blocks)
	f.pair.Sends.HandOver()
	return counter
}

// complete writes an entry, as the NIC does: its last word last.
func (f *fake) complete(c prm.Completion) {
	f.completeWith(c, func([]byte) {})
}

func (f *fake) completeWith(c prm.Completion, change func(e []byte)) {
	e := f.at(&f.producer)
	c.Owner = f.producer.Owner()
	prm.PutCQE(e, c)
	atomic.StoreUint32(hostmem.Word32(e[prm.CQELastWord:]), prm.LastWord(c))
	change(e)
	f.producer.Advance()
}

func (f *fake) poll() []Completion {
	f.t.Helper()
	var c [32]Completion
	n, err := f.Poll(c[:])
	require.NoError(f.t, err)
	return append([]Completion(nil), c[:n]...)
}

// Every kind of completion, in both versions of entries.
func TestKinds(t *testing.T) {
	for version := range uint8(2) {
		f := newFake(t, 4, version)
		base := prm.Completion{QPN: fakeQPN, UserIndex: fakeKey}
		if version == 0 {
			base.UserIndex = 0 // a shared receive queue's number, of which there is none
		}
		for lap := range uint64(9) {
			for op := Send; op <= FetchAdd; op++ {
				c := base
				c.Opcode, c.WQECounter, c.ByteCount = prm.CQERequester, f.send(lap, op, 1), 99
				f.complete(c)
				want := Completion{ID: lap, QPN: fakeQPN, Op: op}
				switch op { // of others the field says nothing
				case Read:
					want.Bytes = 99
				case CompareSwap, FetchAdd:
					want.Bytes = 8
				}
				require.Equal(t, []Completion{want}, f.poll())
			}
			for opcode, want := range map[prm.CQEOpcode]Completion{
				prm.CQEReceive:    {Op: Receive},
				prm.CQEReceiveImm: {Op: Receive, Imm: 0x01020304, HasImm: true},
				prm.CQEWriteImm:   {Op: ReceiveWrite, Imm: 0x01020304, HasImm: true},
			} {
				c := base
				c.Opcode, c.WQECounter, c.ByteCount, c.Imm, c.Solicited = opcode, uint16(f.pair.Receives.Index()), 4096, 0x01020304, lap%2 == 0
				f.pair.Receives.Open(lap)
				f.complete(c)
				want.ID, want.QPN, want.Ring, want.Bytes, want.Solicited = lap, fakeQPN, Receives, 4096, lap%2 == 0
				require.Equal(t, []Completion{want}, f.poll())
			}
		}
	}
}

// An error is told by ring and counter; the operation that the entry names beside
// its syndrome says nothing.
func TestErrorKinds(t *testing.T) {
	for syndrome, want := range map[prm.Syndrome]verbs.Status{
		prm.SyndromeLocalLength: verbs.LocalLength, prm.SyndromeLocalQPOperation: verbs.LocalQPOperation,
		prm.SyndromeLocalProtection: verbs.LocalProtection, prm.SyndromeFlushed: verbs.Flushed,
		prm.SyndromeMemoryWindowBind: verbs.MWBind, prm.SyndromeBadResponse: verbs.BadResponse,
		prm.SyndromeLocalAccess: verbs.LocalAccess, prm.SyndromeRemoteInvalidRequest: verbs.RemoteInvalid,
		prm.SyndromeRemoteAccess: verbs.RemoteAccess, prm.SyndromeRemoteOperation: verbs.RemoteOperation,
		prm.SyndromeRetryExceeded: verbs.RetryExceeded, prm.SyndromeRNRRetryExceeded: verbs.RNRRetryExceeded,
		prm.SyndromeRemoteAborted: verbs.RemoteAborted, 0x77: verbs.GeneralError,
	} {
		f := newFake(t, 4, 1)
		f.send(1, Write, 2)
		counter := f.send(2, Read, 1)
		f.pair.Receives.Open(3)
		e := prm.Completion{Opcode: prm.CQERequesterError, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: counter,
			SendOpcode: prm.OpSend, Syndrome: syndrome, VendorSyndrome: 0x88, Solicited: true}
		f.complete(e)
		e.Opcode, e.WQECounter = prm.CQEResponderError, 0
		f.completeWith(e, func(e []byte) { e[63] |= 3 << 2 }) // reserved bits
		failure := Completion{ID: 2, QPN: fakeQPN, Op: Read, Status: want, Syndrome: uint8(syndrome), Vendor: 0x88}
		received := failure
		received.ID, received.Ring, received.Op = 3, Receives, Receive
		got := f.poll()
		require.Equal(t, []Completion{failure, received}, got)
		require.EqualError(t, got[0].Err(),
			(&verbs.StatusError{Status: want, Syndrome: uint8(syndrome), Vendor: 0x88, Opcode: "read", QPN: fakeQPN}).Error())
		require.EqualValues(t, 16, f.pair.Sends.Room(), "the failure retires those before it too")
	}
}

// Entries this library did not ask for are reported as that and free no slot; the
// good one behind them is delivered.
func TestUnexpected(t *testing.T) {
	for name, write := range map[string]func(f *fake, good prm.Completion){
		"unknown opcode":      func(f *fake, c prm.Completion) { c.Opcode = 9; f.complete(c) },
		"resize":              func(f *fake, c prm.Completion) { c.Opcode = prm.CQEResize; f.complete(c) },
		"invalidate":          func(f *fake, c prm.Completion) { c.Opcode = prm.CQEReceiveInv; c.WQECounter = 0; f.complete(c) },
		"unknown queue pair":  func(f *fake, c prm.Completion) { c.UserIndex++; f.complete(c) },
		"inline data":         func(f *fake, c prm.Completion) { f.completeWith(c, func(e []byte) { e[63] |= 1 << 2 }) },
		"compressed":          func(f *fake, c prm.Completion) { f.completeWith(c, func(e []byte) { e[63] |= 3 << 2 }) },
		"not outstanding":     func(f *fake, c prm.Completion) { c.WQECounter += 5; f.complete(c) },
		"middle of an entry":  func(f *fake, c prm.Completion) { c.WQECounter++; f.complete(c) },
		"receive not next":    func(f *fake, c prm.Completion) { c.Opcode = prm.CQEReceive; c.WQECounter = 1; f.complete(c) },
		"error of no receive": func(f *fake, c prm.Completion) { c.Opcode = prm.CQEResponderError; c.WQECounter = 2; f.complete(c) },
		"error of no entry":   func(f *fake, c prm.Completion) { c.Opcode = prm.CQERequesterError; c.WQECounter = 99; f.complete(c) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 8, 1)
			f.pair.Receives.Open(70)
			f.pair.Receives.Open(71)
			good := prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: f.send(5, Send, 2)}
			write(f, good)
			f.complete(good)
			bad := Completion{QPN: fakeQPN, Unexpected: true, Status: verbs.GeneralError}
			var c [1]Completion
			n, err := f.Poll(c[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, bad, c[0])
			require.ErrorIs(t, c[0].Err(), ErrUnexpected)
			require.ErrorContains(t, c[0].Err(), "queue pair 419")
			require.EqualValues(t, 15, f.pair.Sends.Room())
			require.EqualValues(t, 2, f.pair.Receives.Room())
			require.Equal(t, []Completion{{ID: 5, QPN: fakeQPN, Op: Send}}, f.poll())
		})
	}
}

func TestUnexpectedReceiveWithoutARing(t *testing.T) {
	f := newFake(t, 8, 1)
	f.pair.Receives = ledger.NewReceives(1, 0)
	f.complete(prm.Completion{Opcode: prm.CQEReceive, QPN: fakeQPN, UserIndex: fakeKey})
	require.True(t, f.poll()[0].Unexpected)
}

// The ledger of the completion before is not taken for that of a queue pair that has
// come in its place.
func TestKeyOfAnother(t *testing.T) {
	for version := range uint8(2) {
		f := newFake(t, 4, version)
		key := device.Key(fakeKey)
		if version == 0 {
			key = fakeQPN
		}
		first := f.pair
		complete := func(counter uint16) []Completion {
			f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: counter})
			return f.poll()
		}
		require.Equal(t, []Completion{{ID: 1, QPN: fakeQPN, Op: Send}}, complete(f.send(1, Send, 1)))
		outstanding := f.send(2, Send, 1)

		f.pair = &ledger.Pair{QPN: 0x99, Sends: ledger.NewSends(16, 16), Receives: ledger.NewReceives(1, 0)}
		f.dev.SetPair(key, f.pair)
		require.Equal(t, []Completion{{ID: 3, QPN: 0x99, Op: Write}}, complete(f.send(3, Write, 1)))
		f.send(4, Write, 1)
		f.dev.SetPair(key, &ledger.Pair{Ghost: true})
		require.Empty(t, complete(outstanding))
		f.dev.SetPair(key, nil)
		require.Equal(t, []Completion{{QPN: fakeQPN, Unexpected: true, Status: verbs.GeneralError}}, complete(outstanding))
		require.EqualValues(t, 15, first.Sends.Room())
		require.EqualValues(t, 15, f.pair.Sends.Room())
	}
}

// An entry counts only in its own lap: stale ones of the lap before, and fresh
// ones, are the NIC's.
func TestOwnership(t *testing.T) {
	f := newFake(t, 2, 1)
	for lap := range 7 {
		require.Empty(t, f.poll(), "lap %d", lap)
		for range 2 {
			f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: f.send(1, Send, 1)})
		}
		require.Len(t, f.poll(), 2)
		require.Equal(t, []byte{0, 0, 0, byte(2*lap + 2)}, f.ci[:4], "the record counts what was consumed, big endian")
	}
}

// Purging takes out one queue pair's entries from every place of the queue, and
// leaves the others' order, owner bits and what the NIC writes next.
func TestPurge(t *testing.T) {
	const n = 8
	other := &ledger.Pair{QPN: 0x999, Sends: ledger.NewSends(1<<10, 1<<10)}
	for version := range uint8(2) {
		for start := range 2 * n {
			for mask := range 1 << (n - 1) {
				f := newFake(t, n, version)
				f.dev.SetPair(device.Key(0x999), other)
				for range start { // go round to where the test starts
					f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: f.send(1, Send, 1)})
					f.poll()
				}
				write := func(id uint64) {
					counter := uint16(other.Sends.Block())
					other.Sends.Open(ledger.Entry{ID: id, Op: uint8(Write)}, 1)
					other.Sends.HandOver()
					f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: 0x999, UserIndex: 0x999, WQECounter: counter})
				}
				var want []Completion
				for i := range n - 1 {
					if mask>>i&1 == 0 {
						f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: f.send(2, Send, 1)})
						continue
					}
					write(uint64(i))
					want = append(want, Completion{ID: uint64(i), QPN: 0x999, Op: Write})
				}
				key := device.Key(fakeKey)
				if version == 0 {
					key = fakeQPN
				}
				before := f.ci[3]
				f.purge(key)
				require.Equal(t, before+byte(n-1-len(want)), f.ci[3], "the NIC is told of the gap")
				write(77)
				want = append(want, Completion{ID: 77, QPN: 0x999, Op: Write})
				require.Equal(t, want, f.poll(), "start %d mask %b", start, mask)
				require.Empty(t, f.poll())
			}
		}
	}
}

// What the NIC gave up delivers what it had, and then says so.
func TestOverrun(t *testing.T) {
	f := newFake(t, 4, 1)
	called := 0
	f.Notify(func() { called++ })
	f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: f.send(1, Send, 1)})
	f.wake.Failed(true)
	require.Equal(t, 1, called)
	require.NoError(t, f.Wait(t.Context()))
	_, err := f.Poll(nil)
	require.NoError(t, err, "there is something to be delivered yet")
	require.Len(t, f.poll(), 1)
	_, err = f.Poll(make([]Completion, 1))
	require.ErrorIs(t, err, ErrOverrun)
	require.ErrorIs(t, f.Arm(false), ErrOverrun)
	require.ErrorIs(t, f.Wait(t.Context()), ErrOverrun)
}

// The dispatcher may have found a queue just before it was closed.
func TestNoNotifyAfterStop(t *testing.T) {
	f := newFake(t, 4, 1)
	f.Notify(func() { t.Error("called") })
	f.wake.Stop()
	f.wake.Completed()
	f.wake.Failed(false)
}

func TestStrings(t *testing.T) {
	require.Equal(t, "sends receives Ring(9)", Sends.String()+" "+Receives.String()+" "+Ring(9).String())
	seen := map[string]bool{}
	for op := range ReceiveWrite + 2 {
		seen[op.String()] = true
	}
	require.Len(t, seen, int(ReceiveWrite)+2)
	require.True(t, seen["Op(0)"] && seen["compare and swap"] && seen["Op(10)"])
	require.NoError(t, (&Completion{}).Err())
}

// BenchmarkPoll is the driver's part of a completion, 16 at a time.
func BenchmarkPoll(b *testing.B) {
	f := newFake(b, 64, 1)
	var c [16]Completion
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		f.complete(prm.Completion{Opcode: prm.CQERequester, QPN: fakeQPN, UserIndex: fakeKey, WQECounter: f.send(1, Write, 1)})
		if n++; n%16 == 0 {
			if got, err := f.Poll(c[:]); got != 16 || err != nil {
				b.Fatal(got, err)
			}
		}
	}
}
