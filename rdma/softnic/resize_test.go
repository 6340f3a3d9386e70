package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// resize asks for a ring of so many entries at buf.
func (q *rawCQ) resizeTo(entries uint32, udata []byte) (cqe uint32, err error) {
	reply, _, err := q.r.write(uapi.CmdResizeCQ, enc(uapi.ResizeCQ{CQHandle: q.handle, Cqe: entries - 1}), 8, udata, 0)
	return binary.NativeEndian.Uint32(reply), err
}

// resize moves the queue as drivers do: what was not consumed is copied, each entry
// to the index after its own, up to the entry that ends the old ring.
func (q *rawCQ) resize(entries uint32) {
	q.r.t.Helper()
	next := *q
	next.entries = entries
	var addr uint64
	next.buf, addr = q.r.cqRing(q.size, entries)
	cqe, err := q.resizeTo(entries, prm.Bytes(&prm.ResizeCQRequest{BufAddr: addr, EntrySize: uint16(q.size)}))
	require.NoError(q.r.t, err)
	require.Equal(q.r.t, entries-1, cqe)
	for i := q.consumed; ; i++ {
		whole, e := q.at(i)
		require.EqualValues(q.r.t, i/q.entries&1, e.Owner())
		if e.Opcode() == prm.CQEResize {
			break
		}
		to, copied := next.at(i + 1)
		copy(to, whole)
		copied[prm.CQESize-1] = copied[prm.CQESize-1]&^1 | byte((i+1)/entries&1)
	}
	next.consumed++
	*q = next
}

func TestResize(t *testing.T) {
	for _, size := range []uint32{64, 128} {
		r := newRaw(t, newTestNIC(t, private()))
		cq := r.createCQOf(size, 8, true)
		q := r.createQP(64, 16, cq, cq)
		q.connect(q)
		posted, seen := 0, 0
		post := func(n int) {
			for range n {
				q.nop(prm.CQEUpdate)
				posted++
			}
		}
		drain := func(n int) {
			for range n {
				require.EqualValues(t, seen, cq.wants(prm.CQERequester, 0, 0).WQECounter())
				seen++
			}
		}
		pinned := r.nic.Counters().PinnedBytes
		for _, step := range []struct {
			post, drain int
			entries     uint32
		}{{3, 0, 32}, {20, 10, 16}, {1, 2, 64}, {0, 12, 4}, {3, 3, 2048}, {5, 0, 8}} {
			post(step.post)
			drain(step.drain)
			cq.resize(step.entries)
			if posted == seen {
				require.Nil(t, cq.next())
			}
		}
		drain(posted - seen)
		post(8)
		drain(8)
		require.Nil(t, cq.next())
		require.Equal(t, pinned, r.nic.Counters().PinnedBytes, "a page again")
	}
}

// The entry that ends a ring is nothing to wake anybody for.
func TestResizeArmed(t *testing.T) {
	_, cq, q := loopback(t, private(), 16, 16, 8)
	cq.arm(false, 0, 0)
	cq.resize(16)
	require.False(t, cq.fired())
	q.nop(prm.CQEUpdate)
	require.True(t, cq.fired())
	cq.resize(8)
	cq.arm(false, 1, 2)
	require.False(t, cq.fired(), "announced before")
	q.nop(prm.CQEUpdate)
	require.True(t, cq.fired())
}

func TestResizeErrors(t *testing.T) {
	cfg := private()
	cfg.Limits.CQEntries = 64
	r, cq, q := loopback(t, cfg, 64, 16, 16)
	_, addr := r.alloc(64 * 64)
	good := prm.ResizeCQRequest{BufAddr: addr, EntrySize: 64}
	for name, tt := range map[string]struct {
		entries uint32
		change  func(*prm.ResizeCQRequest)
		length  int
		want    syscall.Errno
	}{
		"no entries":      {1, func(*prm.ResizeCQRequest) {}, 16, syscall.EINVAL},
		"too many":        {65, func(*prm.ResizeCQRequest) {}, 16, syscall.EINVAL},
		"the same":        {16, func(u *prm.ResizeCQRequest) { u.BufAddr = 0 }, 16, 0},
		"entry size":      {32, func(u *prm.ResizeCQRequest) { u.EntrySize = 128 }, 16, syscall.EINVAL},
		"reserved 0":      {32, func(u *prm.ResizeCQRequest) { u.Reserved0 = 1 }, 16, syscall.EINVAL},
		"reserved 1":      {32, func(u *prm.ResizeCQRequest) { u.Reserved1 = 1 }, 16, syscall.EINVAL},
		"short request":   {32, func(*prm.ResizeCQRequest) {}, 8, syscall.EFAULT},
		"unmapped buffer": {32, func(u *prm.ResizeCQRequest) { u.BufAddr = 4096 }, 16, syscall.EFAULT},
	} {
		u := good
		tt.change(&u)
		_, err := cq.resizeTo(tt.entries, prm.Bytes(&u)[:tt.length])
		requireErrno(t, tt.want, err, name)
	}
	for range 9 {
		q.nop(prm.CQEUpdate)
	}
	_, err := cq.resizeTo(8, prm.Bytes(&good))
	requireErrno(t, syscall.EINVAL, err, "more than the new ring holds")
	for range 7 {
		q.nop(prm.CQEUpdate)
	}
	_, err = cq.resizeTo(32, prm.Bytes(&good))
	requireErrno(t, syscall.EINVAL, err, "the old ring is full")
	_, err = (&rawCQ{r: r, handle: 99}).resizeTo(32, prm.Bytes(&good))
	requireErrno(t, syscall.ENOENT, err)
	q.nop(prm.CQEUpdate)
	_, err = cq.resizeTo(32, prm.Bytes(&good))
	requireErrno(t, syscall.EINVAL, err, "overrun")
}

func TestModeration(t *testing.T) {
	r := newRaw(t, newTestNIC(t, private()))
	cq := r.createCQ(16, false)
	good := uapi.ExModifyCQ{CQHandle: cq.handle, AttrMask: uapi.CQModerate,
		Attr: uapi.CqModeration{CqCount: maxModerationCount, CqPeriod: maxModerationPeriod}}
	for name, tt := range map[string]struct {
		change func(*uapi.ExModifyCQ)
		want   syscall.Errno
	}{
		"good":     {func(*uapi.ExModifyCQ) {}, 0},
		"no mask":  {func(m *uapi.ExModifyCQ) { m.AttrMask = 0 }, syscall.EINVAL},
		"mask":     {func(m *uapi.ExModifyCQ) { m.AttrMask = 2 }, syscall.EOPNOTSUPP},
		"reserved": {func(m *uapi.ExModifyCQ) { m.Reserved = 1 }, syscall.EINVAL},
		"queue":    {func(m *uapi.ExModifyCQ) { m.CQHandle = 99 }, syscall.ENOENT},
		"period":   {func(m *uapi.ExModifyCQ) { m.Attr.CqPeriod++ }, syscall.EINVAL},
	} {
		m := good
		tt.change(&m)
		_, _, err := r.write(uapi.CmdExModifyCQ, enc(m), 0, nil, 0)
		requireErrno(t, tt.want, err, name)
	}
}
