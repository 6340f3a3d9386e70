package softnic

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

const testQKey = 0x11111111

// createUD makes a datagram queue pair and takes it to RTS.
func (r *raw) createUD(blocks, recvs uint32, cq *rawCQ) *rawQP {
	q := r.createQPAs(blocks, recvs, cq, cq, func(core *uapi.CreateQP, u *prm.CreateQPRequest) {
		core.QPType = uapi.QPTypeUD
		u.Flags |= prm.QPScatterCQE // as libraries do: datagrams are never in completions
	})
	for _, m := range q.toDatagrams() {
		require.NoError(r.t, r.modify(m))
	}
	return q
}

// toDatagrams are the requests of the way to RTS.
func (q *rawQP) toDatagrams() []uapi.ModifyQP {
	return []uapi.ModifyQP{
		{QPHandle: q.handle, AttrMask: uapi.UDResetToInit, QPState: uapi.QPInit, PortNum: 1, Qkey: testQKey},
		{QPHandle: q.handle, AttrMask: uapi.UDInitToRTR, QPState: uapi.QPRTR},
		{QPHandle: q.handle, AttrMask: uapi.UDRTRToRTS, QPState: uapi.QPRTS, SqPsn: 5},
	}
}

// ahAttr is the path to the NIC, from a GID of the sender's.
func ahAttr(to *NIC, source uint8) uapi.AHAttr {
	a := uapi.AHAttr{PortNum: 1, Dlid: to.lid, Sl: 3}
	if to.lid == 0 {
		a.IsGlobal = 1
		a.Grh = uapi.GlobalRoute{Dgid: to.GID(), SgidIndex: source, TrafficClass: 0x28, HopLimit: 1}
	}
	return a
}

func (r *raw) createAH(a uapi.AHAttr) (handle uint32, mac [6]byte, err error) {
	reply, uhw, err := r.write(uapi.CmdCreateAH, enc(uapi.CreateAH{PDHandle: r.pd, Attr: a}), 4, nil, 16)
	if err != nil {
		return 0, mac, err
	}
	copy(mac[:], uhw[4:])
	return binary.NativeEndian.Uint32(reply), mac, nil
}

// addressOf is the address vector that a driver makes of an address handle.
func (r *raw) addressOf(t testing.TB, a uapi.AHAttr, peer *rawQP) prm.Address {
	_, mac, err := r.createAH(a)
	require.NoError(t, err)
	v := prm.Address{QKey: testQKey, QPN: peer.qpn, MAC: mac, ServiceLevel: a.Sl, LID: a.Dlid,
		TrafficClass: a.Grh.TrafficClass, HopLimit: a.Grh.HopLimit, SourceIndex: a.Grh.SgidIndex, GID: a.Grh.Dgid}
	if r.nic.cfg.LinkLayer == verbs.LinkEthernet {
		v.LID, v.ServiceLevel = 0xc123, a.Sl<<1
	} else {
		v.GRH = a.IsGlobal != 0
	}
	return v
}

// datagram makes an entry with one data segment, or none for n of 0.
func (q *rawQP) datagram(op prm.Opcode, a prm.Address, m rawMR, off, n int) []byte {
	units := 4
	if n > 0 {
		units++
	}
	w := make([]byte, units*prm.Unit)
	prm.PutCtrl(w, new(q.ctrl(op, units)))
	prm.PutAddress(w[prm.Unit:], &a)
	if n > 0 {
		prm.PutData(w[prm.Unit+prm.AddressSize:], m.segment(off, n))
	}
	return w
}

// datagramPair is a datagram queue pair at each of two NICs.
type datagramPair struct {
	na, nb *NIC
	a, b   *raw
	ca, cb *rawCQ
	qa, qb *rawQP
	ma, mb rawMR
	to     prm.Address // of qb, at a
}

func newDatagramPair(t testing.TB, cfg Config) *datagramPair {
	p := &datagramPair{na: newTestNIC(t, cfg), nb: newTestNIC(t, cfg)}
	p.a, p.b = newRaw(t, p.na), newRaw(t, p.nb)
	p.ca, p.cb = p.a.createCQ(64, true), p.b.createCQ(64, true)
	p.qa, p.qb = p.a.createUD(16, 16, p.ca), p.b.createUD(16, 16, p.cb)
	p.ma, p.mb = p.a.regMR(64<<10, allAccess), p.b.regMR(64<<10, allAccess)
	p.to = p.a.addressOf(t, ahAttr(p.nb, 3), p.qb)
	return p
}

// send posts a datagram and waits until it is sent.
func (p *datagramPair) send(a prm.Address, n int) {
	p.qa.post(p.qa.datagram(prm.OpSend, a, p.ma, 0, n))
	p.ca.wants(prm.CQERequester, 0, 0)
}
