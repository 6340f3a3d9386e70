package device

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/verbs"
)

// memory is n bytes outside the Go heap, for as long as the test runs.
func memory(t testing.TB, n int) []byte {
	t.Helper()
	mem, err := hostmem.Alloc(n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mem.Free()) })
	return mem.Bytes()
}

// staticPages are pages as an old kernel gives them: size is the register's,
// perPage the doorbell pages in one of the host's.
func staticPages(t *testing.T, size, perPage int) *pages {
	p := &pages{size: size, perPage: perPage, static: true, reserved: 16 - 4,
		byIndex: map[int]*Bell{}, byPage: map[int]*verbs.Page{}}
	for i := range 8 / perPage {
		p.byPage[i] = verbs.NewPage(memory(t, prm.PageSize*perPage), nil, nil)
	}
	return p
}

// The registers of 16, of which the last 4 are for one queue pair each, numbered
// 4 to a page of which 2 are used: rdma-core's providers/mlx5 (verbs.c,
// setup_bfregs and qp_get_bf) is the model.
func TestStaticRegisters(t *testing.T) {
	for _, size := range []int{0, 512} {
		for _, perPage := range []int{1, 4} {
			p := staticPages(t, size, perPage)
			for n := range 16 {
				index := n/2*4 + n%2
				b, err := p.assigned(index)
				require.NoError(t, err)
				again, err := p.assigned(index)
				require.NoError(t, err)
				require.Same(t, b, again, "one alternation for all that share it")

				page, base := n/2/perPage, n/2%perPage*4096
				require.Equal(t, base+0x800+n%2*size, b.halves[0].offset)
				require.Same(t, hostmem.Word64(p.byPage[page].Mem[b.halves[0].offset:]), &b.halves[0].blocks[0][0])
				if n == 0 || size == 0 {
					require.Equal(t, b.halves[0].offset, b.halves[1].offset, "no halves")
					require.Zero(t, b.Copies())
				} else {
					require.Equal(t, b.halves[0].offset+size/2, b.halves[1].offset)
					require.EqualValues(t, size/2, b.Copies())
				}
				require.Equal(t, n > 0 && n < 12, b.mu != nil, "register %d takes turns", n)
			}
		}
	}
	p := staticPages(t, 512, 1)
	p.byPage[3] = verbs.NewPage(memory(t, 4096)[:1024], nil, nil)
	_, err := p.assigned(3 * 4)
	require.ErrorContains(t, err, "beyond its page")
}

// A ring stores the record first and then the register, and tells the software
// NIC where; halves alternate.
func TestBellRing(t *testing.T) {
	mem, record := memory(t, prm.PageSize), memory(t, 64)
	var woken []string
	page := verbs.NewPage(mem, func(at int) {
		woken = append(woken, fmt.Sprintf("%#x %x %x", at, record[:4], mem[at:at+8]))
	}, nil)
	b := NewBell(page, 0, 1, 512)
	for i := range uint32(3) {
		b.Ring(hostmem.Word32(record), prm.BE32(i+1), uint64(prm.BE64(uint64(0x1122334455667700)+uint64(i))))
	}
	require.Equal(t, []string{
		"0xa00 00000001 1122334455667700", "0xb00 00000002 1122334455667701", "0xa00 00000003 1122334455667702",
	}, woken)
}

func TestBellCopy(t *testing.T) {
	mem, record, ring := memory(t, prm.PageSize), memory(t, 64), memory(t, 256)
	for i := range ring {
		ring[i] = byte(i)
	}
	blocks := hostmem.Split[[8]uint64](ring)
	b := NewBell(verbs.NewPage(mem, nil, nil), 0, 0, 512)
	b.Copy(hostmem.Word32(record), prm.BE32(7), &blocks[1], 2)
	require.Equal(t, ring[64:192], mem[0x800:0x880])
	require.Equal(t, make([]byte, 128), mem[0x880:0x900], "whole blocks and no more")
	require.EqualValues(t, 7, binary.BigEndian.Uint32(record))
	b.Copy(hostmem.Word32(record), prm.BE32(8), &blocks[0], 1)
	require.Equal(t, ring[:64], mem[0x900:0x940])
	require.Panics(t, func() { b.Copy(hostmem.Word32(record), prm.BE32(9), &blocks[0], 1000) })
}

// Queue pairs that share a register take turns; the race detector watches the
// alternation.
func TestSharedBell(t *testing.T) {
	p := staticPages(t, 512, 1)
	b, err := p.assigned(1)
	require.NoError(t, err)
	ring := hostmem.Split[[8]uint64](memory(t, 64))
	var wg sync.WaitGroup
	for range 4 {
		record := memory(t, 64)
		wg.Go(func() {
			for range 1000 {
				b.Ring(hostmem.Word32(record), 1, 2)
				b.Copy(hostmem.Word32(record), 1, &ring[0], 1)
			}
		})
	}
	wg.Wait()
}

func TestRegisterSizesOutOfRange(t *testing.T) {
	for size, want := range map[uint32]int{0: 0, 64: 0, 128: 128, 256: 256, 512: 512, 1024: 0, 1 << 31: 0} {
		require.Equal(t, want, registerSize(size), "%d", size)
	}
}

func TestTable(t *testing.T) {
	var table Table
	require.Nil(t, table.Get(5))
	one, two := &ledger.Pair{}, &ledger.Pair{QPN: 2}
	table.Set(5, one)
	table.Set(1<<24-2, two)
	require.Same(t, one, table.Get(5))
	require.Same(t, two, table.Get(1<<24-2))
	require.Nil(t, table.Get(6))
	require.Nil(t, table.Get(5+1<<12))
	table.Set(5, nil)
	require.Nil(t, table.Get(5))
}

// Queue pairs are made by many goroutines at once, the first ones too.
func TestTableFilledConcurrently(t *testing.T) {
	const setters = 8
	for range 2000 {
		var table Table
		var wg sync.WaitGroup
		start := make(chan struct{})
		for key := range uint32(setters) {
			wg.Go(func() {
				<-start
				table.Set(key, &ledger.Pair{QPN: key})
			})
		}
		close(start)
		wg.Wait()
		for key := range uint32(setters) {
			require.NotNil(t, table.Get(key), "key %d", key)
		}
	}
}

func TestUserIndices(t *testing.T) {
	var u users
	for want := range Key(3) {
		k, err := u.get()
		require.NoError(t, err)
		require.Equal(t, want, k)
	}
	u.put(1)
	k, err := u.get()
	require.NoError(t, err)
	require.EqualValues(t, 1, k)
	u.next = prm.NoUserIndex - 1
	k, err = u.get()
	require.NoError(t, err)
	require.EqualValues(t, 0xfffffe, k, "the last of 24 bits")
	_, err = u.get()
	require.ErrorIs(t, err, errUsers)
}

// Records are a cache line each, zeroed, and reused without being unmapped.
func TestRecords(t *testing.T) {
	before, _ := hostmem.Live()
	var r records
	seen := map[uint64]bool{}
	n := hostmem.PageSize()/64 + 1
	var all []*Record
	for range n {
		rec, err := r.get()
		require.NoError(t, err)
		require.Zero(t, rec.Addr%64)
		require.Equal(t, rec.Addr, hostmem.AddrOf(rec.mem))
		require.False(t, seen[rec.Addr])
		seen[rec.Addr] = true
		*rec.Words[0], *rec.Words[1] = 1, 2
		require.EqualValues(t, 2, *hostmem.Word32(rec.mem[4:]))
		all = append(all, rec)
	}
	for _, rec := range all {
		r.put(rec)
	}
	rec, err := r.get()
	require.NoError(t, err)
	require.Zero(t, *rec.Words[0])
	require.Zero(t, *rec.Words[1])
	live, _ := hostmem.Live()
	require.Equal(t, before+2, live)
	require.NoError(t, r.close())
	live, _ = hostmem.Live()
	require.Equal(t, before, live)
}

// BenchmarkRing is a doorbell on memory that is not a device's.
func BenchmarkRing(b *testing.B) {
	bell := NewBell(verbs.NewPage(memory(b, prm.PageSize), nil, nil), 0, 0, 512)
	record, ring := hostmem.Word32(memory(b, 64)), hostmem.Split[[8]uint64](memory(b, 4096))
	b.Run("doorbell", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bell.Ring(record, 1, 2)
		}
	})
	b.Run("BlueFlame 64", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bell.Copy(record, 1, &ring[0], 1)
		}
	})
}
