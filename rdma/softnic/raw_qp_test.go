package softnic

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// rawQP is a queue pair.
type rawQP struct {
	r             *raw
	buf           []byte
	record        []byte
	blocks, recvs uint32
	shift         uint32
	handle, qpn   uint32
	posted        uint16 // blocks
	received      uint16
	page          int // of raw.pages
	base          int // offset of the register
	half          int
	noToggle      bool
	register      uint32
	send, recv    *rawCQ
}

const testStride = 6 // 64 bytes: four segments

func (r *raw) qpUdata(blocks, recvs uint32, buf, record uint64) prm.CreateQPRequest {
	u := prm.CreateQPRequest{BufAddr: buf, RecordAddr: record, SendBlocks: blocks, Receives: recvs, UserIndex: 0x77}
	if r.file.oldCQE {
		u.UserIndex = prm.NoUserIndex
	}
	if recvs > 0 {
		u.ReceiveShift = testStride
	}
	if r.file.dynamic() {
		u.Flags, u.Register = prm.QPUARPageIndex, r.page
	}
	return u
}

func (r *raw) qpCore(blocks, recvs uint32, send, recv *rawCQ) uapi.CreateQP {
	return uapi.CreateQP{UserHandle: 0xdd, PDHandle: r.pd, SendCQHandle: send.handle, RecvCQHandle: recv.handle,
		MaxSendWR: blocks, MaxRecvWR: recvs, MaxSendSGE: 2, MaxRecvSGE: 4, QPType: uapi.QPTypeRC}
}

func (r *raw) createQP(blocks, recvs uint32, send, recv *rawCQ) *rawQP {
	return r.createQPAs(blocks, recvs, send, recv, func(*uapi.CreateQP, *prm.CreateQPRequest) {})
}

// createQPAs is createQP of a request that change has its way with.
func (r *raw) createQPAs(blocks, recvs uint32, send, recv *rawCQ, change func(*uapi.CreateQP, *prm.CreateQPRequest)) *rawQP {
	q := &rawQP{r: r, blocks: blocks, recvs: recvs, shift: testStride, send: send, recv: recv}
	var buf, record uint64
	q.buf, buf = r.alloc(int(recvs<<testStride + blocks*prm.Block))
	q.record, record = r.alloc(prm.RecordSize)
	core, u := r.qpCore(blocks, recvs, send, recv), r.qpUdata(blocks, recvs, buf, record)
	change(&core, &u)
	reply, uhw, err := r.write(uapi.CmdCreateQP, enc(core), 32, prm.Bytes(&u), 40)
	require.NoError(r.t, err)
	q.handle, q.qpn = binary.NativeEndian.Uint32(reply), binary.NativeEndian.Uint32(reply[4:])
	q.register = binary.NativeEndian.Uint32(uhw)
	return q
}

// toInit, toRTR and toRTS are the requests of the way to RTS.
func (q *rawQP) toInit() uapi.ModifyQP {
	return uapi.ModifyQP{QPHandle: q.handle, AttrMask: uapi.RCResetToInit, QPState: uapi.QPInit, PortNum: 1,
		QPAccessFlags: uapi.AccessRemoteWrite | uapi.AccessRemoteRead | uapi.AccessRemoteAtomic}
}

func (q *rawQP) toRTR(peer *rawQP) uapi.ModifyQP {
	m := uapi.ModifyQP{QPHandle: q.handle, AttrMask: uapi.RCInitToRTR, QPState: uapi.QPRTR,
		PathMTU: uint8(verbs.MTU1024), RqPsn: 100, MinRnrTimer: 1, MaxDestRdAtomic: 4, DestQPNum: peer.qpn}
	m.Dest = uapi.QPDest{PortNum: 1}
	if n := peer.r.nic; n.lid != 0 {
		m.Dest.Dlid = n.lid
	} else {
		m.Dest.Dgid, m.Dest.SgidIndex, m.Dest.IsGlobal = n.GID(), 3, 1
	}
	return m
}

func (q *rawQP) toRTS() uapi.ModifyQP {
	return uapi.ModifyQP{QPHandle: q.handle, AttrMask: uapi.RCRTRToRTS, QPState: uapi.QPRTS,
		SqPsn: 100, Timeout: 10, RetryCnt: 2, RnrRetry: 7, MaxRdAtomic: 4}
}

func (q *rawQP) to(state uint8) uapi.ModifyQP {
	return uapi.ModifyQP{QPHandle: q.handle, AttrMask: uapi.QPAttrState, QPState: state}
}

func (r *raw) modify(m uapi.ModifyQP) error {
	_, _, err := r.write(uapi.CmdModifyQP, enc(m), 0, nil, 0)
	return err
}

func (q *rawQP) connect(peer *rawQP) {
	for _, m := range []uapi.ModifyQP{q.toInit(), q.toRTR(peer), q.toRTS()} {
		require.NoError(q.r.t, q.r.modify(m))
	}
}

func (q *rawQP) state() uint8 {
	reply, _, err := q.r.write(uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: q.handle}), uapi.Size[uapi.QueryQPResp](), nil, 0)
	require.NoError(q.r.t, err)
	return reply[108]
}

// ctrl is the control segment of the next entry.
func (q *rawQP) ctrl(op prm.Opcode, units int) prm.Ctrl {
	return prm.Ctrl{Opcode: op, Index: q.posted, QPN: q.qpn, DS: uint8(units), Flags: prm.CQEUpdate}
}

// put writes an entry, already encoded, and moves the record.
func (q *rawQP) put(wqe []byte) {
	ring := q.buf[q.recvs<<q.shift:]
	for i := range wqe {
		ring[(uint32(q.posted)*prm.Block+uint32(i))%(q.blocks*prm.Block)] = wqe[i]
	}
	q.posted += uint16((len(wqe) + prm.Block - 1) / prm.Block)
	q.storeRecord(prm.RecordSend, uint32(q.posted))
}

func (q *rawQP) storeRecord(word int, v uint32) {
	atomic.StoreUint32(hostmem.Word32(q.record[4*word:]), prm.BE32(v&0xffff))
}

// doorbell rings with the control segment of an entry.
func (q *rawQP) doorbell(wqe []byte) {
	offset := prm.SendRegister + q.base + q.half*halfSize
	if !q.noToggle {
		q.half ^= 1
	}
	q.r.ring(q.page, offset, prm.SendDoorbell(wqe))
}

func (q *rawQP) post(wqe []byte) {
	q.put(wqe)
	q.doorbell(wqe)
}

// entry makes an entry of an operation with one data segment.
func (q *rawQP) entry(op prm.Opcode, m rawMR, off, n int, remote uint64, rkey uint32) []byte {
	units := 2
	if op.HasRemote() {
		units++
	}
	if op.IsAtomic() {
		units++
	}
	wqe := make([]byte, units*prm.Unit)
	prm.PutCtrl(wqe, new(q.ctrl(op, units)))
	at := prm.Unit
	if op.HasRemote() {
		prm.PutRemote(wqe[at:], remote, rkey)
		at += prm.Unit
	}
	if op.IsAtomic() {
		prm.PutAtomic(wqe[at:], 5, 0)
		at += prm.Unit
	}
	prm.PutData(wqe[at:], prm.Segment{Addr: m.addr + uint64(off), LKey: m.key, Length: uint32(n)})
	return wqe
}

// receive posts a receive of the given segments.
func (q *rawQP) receive(segments ...prm.Segment) {
	at := q.buf[uint32(q.received)%q.recvs<<q.shift:][:1<<q.shift]
	clear(at)
	for i, s := range segments {
		prm.PutData(at[i*prm.Unit:], s)
	}
	if len(segments)*prm.Unit < len(at) {
		prm.PutTerminator(at[len(segments)*prm.Unit:])
	}
	q.received++
	q.storeRecord(prm.RecordReceive, uint32(q.received))
}

// rawPair is a connected pair of raw queue pairs on two NICs of one network.
type rawPair struct {
	a, b     *raw
	ca, cb   *rawCQ
	qa, qb   *rawQP
	ma, mb   rawMR
	na, nb   *NIC
	readOnly rawMR // at b: no local write
}

const allAccess = uapi.AccessLocalWrite | uapi.AccessRemoteWrite | uapi.AccessRemoteRead | uapi.AccessRemoteAtomic

func newRawPair(t testing.TB, cfg Config) *rawPair {
	p := connectRaw(t, newTestNIC(t, cfg), newTestNIC(t, cfg))
	p.readOnly = p.b.regMR(4096, 0)
	return p
}

// connectRaw is a connected pair on two NICs that reach each other.
func connectRaw(t testing.TB, na, nb *NIC) *rawPair {
	p := unconnectedRaw(t, na, nb)
	p.qa.connect(p.qb)
	p.qb.connect(p.qa)
	return p
}

func unconnectedRaw(t testing.TB, na, nb *NIC) *rawPair {
	p := &rawPair{na: na, nb: nb, a: newRaw(t, na), b: newRaw(t, nb)}
	p.ca, p.cb = p.a.createCQ(64, true), p.b.createCQ(64, true)
	p.qa, p.qb = p.a.createQP(16, 16, p.ca, p.ca), p.b.createQP(16, 16, p.cb, p.cb)
	p.ma, p.mb = p.a.regMR(64<<10, allAccess), p.b.regMR(64<<10, allAccess)
	return p
}
