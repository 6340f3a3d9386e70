package qp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/internal/device"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// testSender is a send ring of its own, with no NIC to ring.
func testSender(t testing.TB, blocks, entries uint32, l Limits) *sender {
	t.Helper()
	mem, err := hostmem.Alloc(int(blocks) * 64)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mem.Free()) })
	return &sender{ledger: ledger.NewSends(blocks, entries), ctrl: bases(0x1a4), bounds: l.bounds(), ring: newSendRing(mem.Bytes())}
}

// postOne is Post.
func postOne(s *sender, e *Entry) error {
	_, err := s.post([]Entry{*e}, false)
	return err
}

var roomy = Limits{SendSegments: 8, ReadSegments: 4, Inline: 200, Message: 1 << 30, Atomics: true}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// The bytes of entries are those that rdma-core's libmlx5 44 wrote for the same
// operations, recorded from its ibv_rc_pingpong, ib_send_lat, ib_write_bw and
// ib_read_lat; those without a recording follow the layouts of internal/prm.
func TestEntryBytes(t *testing.T) {
	local := func(addr uint64, n uint32) region.Segment {
		return region.Segment{Addr: addr, Length: n, LKey: 0x180242}
	}
	for _, test := range []struct {
		name  string
		entry Entry
		want  string
	}{
		{"send (recorded)", Entry{Op: Send, Local: local(0x556d6a9e1000, 4096), Signaled: true},
			"0000000a0001a4020000000800000000" + "00001000001802420000556d6a9e1000"},
		{"inline send (recorded)", Entry{Op: Send, Inline: []byte{0x99, 0x4a}, Signaled: true},
			"0000000a0001a4020000000800000000" + "80000002994a00000000000000000000"},
		{"write (recorded)", Entry{Op: Write, Local: local(0x7f5109765000, 65536), Signaled: true,
			Remote: region.Target{Addr: 0x7f95ab7d0000, RKey: 0x180142}},
			"000000080001a4030000000800000000" + "00007f95ab7d00000018014200000000" + "00010000001802420000" + "7f5109765000"},
		{"read (recorded)", Entry{Op: Read, Local: region.Segment{Addr: 0x564dd71ac000, Length: 2, LKey: 0x180142}, Signaled: true,
			Remote: region.Target{Addr: 0x5555efd58000, RKey: 0x180242}},
			"000000100001a4030000000800000000" + "00005555efd580000018024200000000" + "00000002001801420000564dd71ac000"},
		{"send of nothing", Entry{Op: Send}, "0000000a0001a4010000000000000000"},
		{"inline of nothing", Entry{Op: Send, Inline: []byte{}}, "0000000a0001a4010000000000000000"},
		{"immediate only where it belongs", Entry{Op: Write, Imm: 7}, "000000080001a4020000000000000000" + "00000000000000000000000000000000"},
		{"send with immediate, all flags", Entry{Op: SendImm, Imm: 0x01020304, Signaled: true, Fence: true, Solicited: true},
			"0000000b0001a4010000008a01020304"},
		{"write with immediate", Entry{Op: WriteImm, Imm: 0xfffefdfc, Remote: region.Target{Addr: 0x1122334455667788, RKey: 0x99aabbcc}},
			"000000090001a40200000000fffefdfc" + "112233445566778899aabbcc00000000"},
		{"compare and swap", Entry{Op: CompareSwap, Local: local(0x1000, 8), Remote: region.Target{Addr: 0x2000, RKey: 5}, Compare: 3, Swap: 4, Add: 9},
			"000000110001a4040000000000000000" + "00000000000020000000000500000000" +
				"00000000000000040000000000000003" + "00000008001802420000000000001000"},
		{"fetch and add", Entry{Op: FetchAdd, Local: local(0x1000, 8), Remote: region.Target{Addr: 0x2008, RKey: 5}, Compare: 3, Swap: 4, Add: 9},
			"000000120001a4040000000000000000" + "00000000000020080000000500000000" +
				"00000000000000090000000000000000" + "00000008001802420000000000001000"},
		{"segments, the empty ones skipped", Entry{Op: Send, Local: local(0x1000, 0), Locals: []region.Segment{
			local(0x2000, 16), local(0x3000, 0), local(0x4000, 1)}},
			"0000000a0001a4030000000000000000" + "00000010001802420000000000002000" + "00000001001802420000000000004000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := testSender(t, 16, 8, roomy)
			require.NoError(t, postOne(s, &test.entry))
			want := unhex(t, test.want)
			require.Equal(t, want, s.ring.bytes[:len(want)])
			require.Equal(t, make([]byte, len(s.ring.bytes)-len(want)), s.ring.bytes[len(want):], "nothing else was written")
			require.EqualValues(t, (len(want)+63)/64, s.ledger.Block())
		})
	}
}

// An entry that reaches the ring's end goes on at its start, segment by segment,
// and inline bytes in the middle of the payload.
func TestEntryAtTheRingsEnd(t *testing.T) {
	pattern := make([]byte, 150)
	for i := range pattern {
		pattern[i] = byte(i + 1)
	}
	inline := Entry{Op: Write, Inline: pattern, Remote: region.Target{Addr: 1 << 40, RKey: 2}}
	segments := Entry{Op: Send, ID: 9}
	for i := range 6 {
		segments.Locals = append(segments.Locals, region.Segment{Addr: uint64(i+1) << 20, Length: 100, LKey: 7})
	}
	for _, e := range []Entry{inline, segments} {
		flat := testSender(t, 16, 8, roomy)
		require.NoError(t, postOne(flat, &e))
		blocks := flat.ledger.Block()
		require.Greater(t, blocks, uint32(1))
		for short := uint32(1); short < blocks; short++ {
			s := testSender(t, 8, 8, roomy)
			nop := Entry{Op: Send}
			for range 8 - short {
				require.NoError(t, postOne(s, &nop))
			}
			s.ledger.HandOver()
			_, ok := s.ledger.Retire(uint16(8 - short - 1))
			require.True(t, ok)
			require.NoError(t, postOne(s, &e))
			got := append(append([]byte(nil), s.ring.bytes[(8-short)*64:]...), s.ring.bytes...)
			want := append([]byte(nil), flat.ring.bytes[:blocks*64]...)
			want[2] = byte(8 - short) // the index
			require.True(t, bytes.Equal(want[:s.units*16], got[:s.units*16]), "%d blocks before the end", short)
		}
	}
}

// The doorbell record and the index in the entry count blocks in 16 bits, however
// long the ring has been in use.
func TestCountersBeyond16Bits(t *testing.T) {
	s := testSender(t, 16, 8, roomy)
	mem, err := hostmem.Alloc(2 * prm.PageSize)
	require.NoError(t, err)
	defer func() { require.NoError(t, mem.Free()) }()
	record := mem.Bytes()[prm.PageSize:]
	s.record = hostmem.Word32(record)
	s.bell = device.NewBell(verbs.NewPage(mem.Bytes()[:prm.PageSize], nil, nil), 0, 0, 0)
	for i := range uint32(70_000) {
		require.NoError(t, postOne(s, &Entry{Op: Send}))
		index := binary.BigEndian.Uint32(s.ring.bytes[s.last%16*64:]) >> 8
		s.tell()
		if index != i&0xffff || binary.BigEndian.Uint32(record) != (i+1)&0xffff {
			t.Fatalf("entry %d has index %d, record %x", i, index, record[:4])
		}
		_, ok := s.ledger.Retire(uint16(i))
		require.True(t, ok)
	}
}

// An entry that is refused leaves the doorbell of those that wait as it was.
func TestRefusedWhileOthersWait(t *testing.T) {
	good := Entry{Op: Write, ID: 1}
	for _, first := range []Entry{good, {Op: Send, Inline: []byte{1}}} {
		s := testSender(t, 16, 8, roomy)
		require.NoError(t, postOne(s, &good))
		require.NoError(t, postOne(s, &first))
		last, units := s.last, s.units
		require.EqualValues(t, 1, last)
		for _, bad := range []Entry{{Op: 0}, {Op: Send, Inline: make([]byte, 201)}, {Op: Send, Local: region.Segment{Length: 1<<30 + 1}}} {
			n, err := s.post([]Entry{bad, good}, false)
			require.Error(t, err)
			require.Zero(t, n)
			require.Equal(t, []uint32{last, units, 2, 2}, []uint32{s.last, s.units, s.waiting, s.ledger.Block()})
		}
	}
}

// Reads may have fewer segments than other entries.
func TestReadSegments(t *testing.T) {
	s := testSender(t, 16, 8, Limits{SendSegments: 3, ReadSegments: 1, Message: 100})
	one := region.Segment{Length: 1}
	e := Entry{Op: Write, Local: one, Locals: []region.Segment{one, one}}
	require.NoError(t, postOne(s, &e))
	require.EqualValues(t, 5, s.units)
	e.Op = Read
	require.ErrorIs(t, postOne(s, &e), ErrSegments)
	e.Locals = nil
	require.NoError(t, postOne(s, &e))
	require.EqualValues(t, 3, s.units)
}

func TestReceiveBytes(t *testing.T) {
	seg := func(n uint32) region.Segment { return region.Segment{Addr: 0x55aef1c00000, Length: n, LKey: 0x180142} }
	const data, terminator = "00001000001801420000" + "55aef1c00000", "00000000000001000000000000000000"
	for _, test := range []struct {
		name string
		into []region.Segment
		want string
	}{
		{"full", []region.Segment{seg(4096), seg(4096)}, data + data},
		{"one of two", []region.Segment{seg(0), seg(4096)}, data + terminator},
		{"none", nil, terminator},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem, err := hostmem.Alloc(4 * 32)
			require.NoError(t, err)
			defer func() { require.NoError(t, mem.Free()) }()
			record := hostmem.Word32(mem.Bytes()[64:])
			for i := range mem.Bytes()[:64] {
				mem.Bytes()[i] = 0xee // stale bytes of an earlier lap
			}
			r := &receiver{ledger: ledger.NewReceives(2, 2), bounds: nic.Bounds{ReceiveSegments: 2, Message: 1 << 30},
				ring: hostmem.Split[[2]uint64](mem.Bytes()[:64]), stride: 2, record: record}
			n, err := r.post([]Buffer{{ID: 1}, {ID: 2, More: test.into}, {ID: 3}})
			require.ErrorIs(t, err, ErrRoom)
			require.Equal(t, 2, n)
			want := unhex(t, test.want)
			require.Equal(t, want, mem.Bytes()[32:][:len(want)])
			require.Equal(t, []byte{0, 0, 0, 2}, mem.Bytes()[64:68], "the record counts receives, big endian")
			n, err = r.post([]Buffer{{ID: 3}})
			require.ErrorIs(t, err, ErrRoom)
			require.Zero(t, n)
		})
	}
}

func TestPlanBounds(t *testing.T) {
	nic := mlx5.Limits{SendBlocks: 64, Receives: 64, Segments: 8, ReadSegments: 1, SendBytes: 192, ReceiveBytes: 64, Message: 1 << 20}
	_, l, err := Config{Sends: 4, Receives: 5, SendSegments: 7, ReceiveSegments: 3}.plan(nic)
	require.NoError(t, err)
	require.Equal(t, Limits{Sends: 4, Receives: 8, SendSegments: 8, ReadSegments: 1, ReceiveSegments: 4, Inline: 156, Message: 1 << 20}, l)
	for want, c := range map[string]Config{
		"128 bytes of a receive in the ring is more than 64": {Sends: 1, Receives: 1, ReceiveSegments: 5},
		"9 segments of a receive is more than 8":             {Sends: 1, Receives: 1, ReceiveSegments: 9},
		"9 segments of an entry is more than 8":              {Sends: 1, SendSegments: 9},
		"256 bytes of an entry in the ring is more than 192": {Sends: 1, Inline: 160},
		"128 basic blocks of the send ring is more than 64":  {Sends: 64, Inline: 60},
		"128 receives is more than 64":                       {Sends: 1, Receives: 65},
	} {
		_, _, err := c.plan(nic)
		require.EqualError(t, err, want)
	}
}

// BenchmarkPost is the driver's part of an entry: checked, written into the ring
// and its ledger, and retired with its batch.
func BenchmarkPost(b *testing.B) {
	local := region.Segment{Addr: 0x7f0000000000, Length: 4096, LKey: 7}
	for _, bench := range []struct {
		name  string
		entry Entry
	}{
		{"write", Entry{Op: Write, Local: local, Signaled: true}},
		{"inline 28", Entry{Op: Write, Inline: make([]byte, 28)}},
		{"4 segments", Entry{Op: Send, Local: local, Locals: []region.Segment{local, local, local}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := testSender(b, 256, 64, roomy)
			p := &Pair{send: sender{ledger: s.ledger, ctrl: s.ctrl, bounds: s.bounds, ring: s.ring}}
			b.ReportAllocs()
			for b.Loop() {
				last := p.send.ledger.Block()
				if err := p.Post(bench.entry); err != nil {
					b.Fatal(err)
				}
				if p.send.ledger.Room() == 0 {
					p.send.ledger.HandOver()
					p.send.ledger.Retire(uint16(last))
				}
			}
		})
	}
}
