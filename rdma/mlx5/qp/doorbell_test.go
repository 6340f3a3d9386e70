package qp_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// A batch is rung once, with the first 8 bytes of its last entry.
func TestBatchRingsOnce(t *testing.T) {
	eachPages(t, func(t *testing.T, c softnic.Config) {
		l := newSelf(t, c)
		l.a.File.Record()
		for id := range uint64(3) {
			require.NoError(t, l.pa.Post(qp.Entry{Op: qp.Write, ID: id, Remote: l.b.Target(0), Signaled: id == 2,
				Inline: make([]byte, 20+35*id)})) // one, two and two blocks
		}
		require.Empty(t, l.a.File.Bells(), "posting rings nothing")
		require.Zero(t, l.a.Soft.Counters().Doorbells)
		l.pa.Ring()
		l.pa.Ring()
		bells := l.a.File.Bells()
		require.Len(t, bells, 1)
		ctrl := prm.ParseSendDoorbell(binary.NativeEndian.Uint64(bells[0].Bytes))
		require.Equal(t, prm.Ctrl{Opcode: prm.OpWrite, Index: 3, QPN: l.pa.Number(), DS: 2 + 6}, ctrl)
		require.Equal(t, make([]byte, 120), bells[0].Bytes[8:128], "no entry goes with it")
		require.Equal(t, success(2, l.pa, qp.Write, 0), l.a.Poll(1)[0], "one completion for all three")
		require.Equal(t, 16, l.pa.Room(qp.Sends))
	})
}

// A single entry that fits goes into the register itself, whole blocks of it and
// also where it wraps; successive doorbells alternate between the halves.
func TestBlueFlame(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(qp.Config{Sends: 4, Inline: 400}) // entries of up to 7 blocks, a ring of 32
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	for i := range 40 {
		n := []int{50, 180, 220, 221, 400}[i%5]
		message := h.Fill(1000, n, byte(i)) // Go's copy of what is posted
		h.File.Record()
		require.NoError(t, p.Post(qp.Entry{Op: qp.Write, Remote: h.Target(0), Inline: message, Signaled: true}))
		p.Ring()
		h.Poll(1)
		require.Equal(t, message, h.MR.Bytes()[:n])

		bell := h.File.Bells()[0]
		require.Equal(t, 0x800+i%2*0x100, bell.Offset, "doorbell %d, in the first register", i)
		inRegister := bell.Bytes[32+4:][:min(n, 220)]
		if n <= 220 { // 256 bytes of register less control, remote address and length
			require.Equal(t, message, inRegister, "entry %d went with its doorbell", i)
		} else {
			require.NotEqual(t, message[:220], inRegister, "entry %d is too long for it", i)
		}
	}
	require.EqualValues(t, 24, h.Soft.Counters().BlueFlames)
	require.Zero(t, h.Soft.Counters().BadDoorbells)
}

// Without write combining there is one register for everyone, and no halves.
func TestPlainDoorbell(t *testing.T) {
	for name, c := range map[string]softnic.Config{
		"dynamic": {NoBlueFlame: true}, "static": {NoBlueFlame: true, StaticUAR: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newSelf(t, c)
			offset := -1
			for range 4 {
				l.a.File.Record()
				l.post(qp.Entry{Op: qp.Write, Remote: l.b.Target(0), Inline: []byte("x"), Signaled: true})
				l.a.Poll(1)
				bell := l.a.File.Bells()[0]
				if offset < 0 {
					offset = bell.Offset
				}
				require.Equal(t, offset, bell.Offset)
				require.Equal(t, make([]byte, 100), bell.Bytes[8:108], "nothing but the doorbell")
			}
			require.Zero(t, l.a.Soft.Counters().BlueFlames)
		})
	}
}

// More queue pairs than registers share some; each still rings its own entries.
func TestManyQueuePairs(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		h := mlx5test.NewHost(t, c)
		var pairs []*qp.Pair
		for range 40 {
			p := h.Pair(qp.Config{Sends: 4})
			require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
			pairs = append(pairs, p)
		}
		for round := range 3 {
			for i, p := range pairs {
				require.NoError(t, p.Post(qp.Entry{Op: qp.Write, ID: uint64(i), Signaled: true,
					Inline: []byte{byte(i), byte(round)}, Remote: h.Target(8 * i)}))
			}
			for _, p := range pairs {
				p.Ring()
			}
			seen := map[uint64]bool{}
			for _, c := range h.Poll(len(pairs)) {
				require.NoError(t, c.Err())
				require.Equal(t, pairs[c.ID].Number(), c.QPN)
				seen[c.ID] = true
			}
			require.Len(t, seen, len(pairs))
			for i := range pairs {
				require.Equal(t, []byte{byte(i), byte(round)}, h.MR.Bytes()[8*i:][:2])
			}
		}
		if h.Soft != nil {
			require.Zero(t, h.Soft.Counters().BadDoorbells)
		}
	})
}

// A NIC that turns out to have no write combining still takes queue pairs.
func TestNoWriteCombiningAfterAll(t *testing.T) {
	mlx5test.NeedSoft(t) // the kernel's may have no write combining in the first place
	for _, errno := range []syscall.Errno{syscall.EOPNOTSUPP, syscall.ENOMEM} {
		h := mlx5test.NewHost(t, softnic.Config{})
		alloc := mlx5test.Command{Object: prm.ObjectUAR, Method: prm.MethodUARAlloc}
		h.File.Refuse(alloc, errno, 0)
		for range 3 {
			p := h.Pair(qp.Config{Sends: 4})
			require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
			require.NoError(t, p.Post(qp.Entry{Op: qp.Write, Inline: []byte("x"), Remote: h.Target(0), Signaled: true}))
			p.Ring()
			require.NoError(t, h.Poll(1)[0].Err())
		}
		require.Len(t, h.File.Issued(alloc), 2, "asked once more, and not again")
		require.Zero(t, h.Soft.Counters().BlueFlames)
	}
}

// Pages are bounded; a destroyed queue pair's register, user index and record serve
// the next one.
func TestRegistersAreReused(t *testing.T) {
	mlx5test.NeedSoft(t)
	h := mlx5test.NewHost(t, softnic.Config{})
	for range 100 {
		p, err := qp.New(h.Done, qp.Config{Sends: 1})
		require.NoError(t, err)
		require.NoError(t, p.Destroy())
	}
	require.Equal(t, 2, h.Soft.Counters().UARs)
	requests := h.File.Issued(mlx5test.Command{Write: uapi.CmdCreateQP})
	for _, r := range requests {
		require.Equal(t, requests[0].Driver[8:16], r.Driver[8:16], "record")
		require.Equal(t, []byte{0, 0, 0, 0}, r.Driver[32:36], "user index")
	}
	for range 40 {
		h.Pair(qp.Config{Sends: 1})
	}
	require.Equal(t, 17, h.Soft.Counters().UARs)
}

// A queue pair whose register cannot be mapped does not stay in the kernel.
func TestStaticRegisterThatCannotBeMapped(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{StaticUAR: true})
	h.File.RefuseMap(syscall.ENOMEM)
	made := 0
	for range 20 {
		p, err := qp.New(h.Done, qp.Config{Sends: 1})
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOMEM)
			continue
		}
		made++
		defer func() { require.NoError(t, p.Destroy()) }()
	}
	require.Less(t, made, 20)
	require.Equal(t, made, h.Soft.Counters().QPs)
	require.Equal(t, mlx5test.Completions-made, h.Done.Room())
}
