package softnic

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// rawSRQ is a shared receive queue. Its list goes over all entries in order, and
// on at the start.
type rawSRQ struct {
	r       *raw
	buf     []byte
	record  []byte
	entries uint32
	handle  uint32
	srqn    uint32
	head    uint16
	posted  uint32
}

const srqStride = 64 // a link and three segments

func (r *raw) srqCore(entries uint32) uapi.CreateSRQ {
	return uapi.CreateSRQ{UserHandle: 0x5a, PDHandle: r.pd, MaxWR: entries - 1, MaxSGE: 3}
}

func (r *raw) createSRQ(entries uint32) *rawSRQ {
	s := &rawSRQ{r: r, entries: entries}
	var u prm.CreateSRQRequest
	s.buf, u.BufAddr = r.alloc(int(entries) * srqStride)
	s.record, u.RecordAddr = r.alloc(prm.RecordSize)
	for i := range entries {
		prm.PutNext(s.entry(uint16(i)), uint16((i+1)%entries))
	}
	reply, uhw, err := r.write(uapi.CmdCreateSRQ, enc(r.srqCore(entries)), 16, prm.Bytes(&u), 8)
	require.NoError(r.t, err)
	require.Equal(r.t, entries-1, binary.NativeEndian.Uint32(reply[4:]))
	require.EqualValues(r.t, 3, binary.NativeEndian.Uint32(reply[8:]))
	s.handle, s.srqn = binary.NativeEndian.Uint32(reply), binary.NativeEndian.Uint32(uhw)
	return s
}

func (s *rawSRQ) entry(i uint16) []byte { return s.buf[uint32(i)*srqStride:][:srqStride] }

// receive posts a receive and returns its index.
func (s *rawSRQ) receive(segments ...prm.Segment) (index uint16) {
	index = s.head
	e := s.entry(index)
	s.head = binary.BigEndian.Uint16(e[2:])
	at := prm.Unit
	for _, d := range segments {
		prm.PutData(e[at:], d)
		at += prm.Unit
	}
	if at < len(e) {
		prm.PutTerminator(e[at:])
	}
	s.posted++
	s.store()
	return index
}

func (s *rawSRQ) store() {
	atomic.StoreUint32(hostmem.Word32(s.record), prm.BE32(s.posted))
}

func (s *rawSRQ) modify(mask, maxWR, limit uint32) error {
	_, _, err := s.r.write(uapi.CmdModifySRQ, enc(uapi.ModifySRQ{SRQHandle: s.handle, AttrMask: mask, MaxWR: maxWR, SRQLimit: limit}), 0, nil, 0)
	return err
}

func (s *rawSRQ) limit() uint32 {
	reply, _, err := s.r.write(uapi.CmdQuerySRQ, enc(uapi.QuerySRQ{SRQHandle: s.handle}), 16, nil, 0)
	require.NoError(s.r.t, err)
	require.Equal(s.r.t, s.entries-1, binary.NativeEndian.Uint32(reply))
	require.EqualValues(s.r.t, 3, binary.NativeEndian.Uint32(reply[4:]))
	return binary.NativeEndian.Uint32(reply[8:])
}

func (s *rawSRQ) destroy() (events uint32, err error) {
	reply, _, err := s.r.write(uapi.CmdDestroySRQ, enc(uapi.DestroySRQ{SRQHandle: s.handle}), 4, nil, 0)
	return binary.NativeEndian.Uint32(reply), err
}

// shared is a queue pair whose receives are of s.
func (s *rawSRQ) queuePair(blocks uint32, cq *rawCQ) *rawQP {
	return s.r.createQPAs(blocks, 0, cq, cq, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		core.IsSRQ, core.SRQHandle = 1, s.handle
		core.MaxRecvWR = 7 // not looked at
	})
}

func (q *rawQP) destroy() {
	q.r.t.Helper()
	_, _, err := q.r.write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: q.handle}), 4, nil, 0)
	require.NoError(q.r.t, err)
}
