package device

import (
	"math"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// CQ is a completion queue of the kernel's.
type CQ struct {
	Handle uint32
	Number uint32
	id     uint64
}

// CreateCQ makes a completion queue of n entries, a power of two, at buf, with
// the doorbell record at record. owner hears of it until DestroyCQ returns, and
// perhaps once more while it returns.
func (d *Device) CreateCQ(buf, record uint64, n uint32, owner nic.CQOwner) (CQ, error) {
	q := CQ{id: d.AddCQ(owner)}
	request := prm.CreateCQRequest{BufAddr: buf, RecordAddr: record, EntrySize: prm.CQESize}
	var response prm.CreateCQResponse
	create := d.createCQ
	if !d.pages.static {
		request.Flags = prm.CQUARPageIndex
		request.UARPage = uint16(d.pages.armID)
		if d.pages.armID > math.MaxUint16 {
			create = d.createWideCQ
		}
	}
	// The kernel rounds one more entry up to a power of two.
	if err := create(&q, n-1, &request, &response); err != nil {
		d.Remove(q.id)
		return CQ{}, err
	}
	q.Number = response.CQN & prm.MaxNumber
	return q, nil
}

func (d *Device) createCQ(q *CQ, entries uint32, request *prm.CreateCQRequest, response *prm.CreateCQResponse) error {
	made, err := d.Context().CreateCQ(verbs.CreateCQ{
		UserHandle: q.id,
		Entries:    entries,
		Channel:    d.Channel(),
		In:         prm.Bytes(request),
		Out:        prm.Bytes(response),
		Pinned:     uint64(entries+1) * prm.CQESize,
	})
	q.Handle = made.Handle
	return err
}

// createWideCQ is createCQ for a doorbell page whose number does not fit the
// request. Only the native command has another place for it.
func (d *Device) createWideCQ(q *CQ, entries uint32, request *prm.CreateCQRequest, response *prm.CreateCQResponse) error {
	request.Flags, request.UARPage = 0, 0
	var vector, granted uint32
	return d.Context().Invoke("create completion queue", uapi.ObjectCQ, uapi.MethodCQCreate,
		verbs.AttrNewObject(uapi.AttrCreateCQHandle, &q.Handle),
		verbs.AttrIn(uapi.AttrCreateCQCQE, prm.Bytes(&entries)),
		verbs.AttrIn(uapi.AttrCreateCQUserHandle, prm.Bytes(&q.id)),
		verbs.AttrObject(uapi.AttrCreateCQCompChannel, uint32(d.Channel().FD())),
		verbs.AttrIn(uapi.AttrCreateCQCompVector, prm.Bytes(&vector)),
		verbs.AttrOut(uapi.AttrCreateCQRespCQE, prm.Bytes(&granted)),
		verbs.AttrIn(uapi.AttrUHWIn, prm.Bytes(request)),
		verbs.AttrOut(uapi.AttrUHWOut, prm.Bytes(response)),
		verbs.AttrIn(prm.AttrCreateCQPage, prm.Bytes(&d.pages.armID)))
}

// DestroyCQ destroys a completion queue. On a device that is gone it succeeds.
func (d *Device) DestroyCQ(q CQ) error {
	_, _, err := d.Context().DestroyCQ(q.Handle)
	d.Remove(q.id)
	return d.IgnoreGone(err)
}

// Arm tells the NIC what a completion queue is armed with.
func (d *Device) Arm(r *Record, value, number uint32) { d.pages.armValue(r, value, number) }

// QPRequest is what a queue pair is made of.
type QPRequest struct {
	Buf       uint64 // the receive ring, and the send ring behind it
	Bytes     uint64 // of both
	Record    uint64
	Blocks    uint32 // of the send ring
	Receives  uint32
	Shift     uint32 // log2 of a receive's bytes; 0 without a receive ring
	SendCQ    uint32
	ReceiveCQ uint32
	SRQ       *SRQ // nil for none
	Cap       verbs.QPCap
	Ledger    *ledger.Pair // QPN is filled in
}

// QP is a queue pair of the kernel's.
type QP struct {
	Handle uint32
	Number uint32
	Bell   *Bell
	Key    Key
	id     uint64
}

// CreateQP makes a queue pair, whose completions then find its ledger.
func (d *Device) CreateQP(r QPRequest) (QP, error) {
	defer d.numbers()()
	q := QP{Bell: d.pages.choose(), Key: prm.NoUserIndex}
	var err error
	if d.caps.CQEVersion == 1 {
		if q.Key, err = d.users.get(); err != nil {
			d.pages.release(q.Bell)
			return QP{}, err
		}
	}
	q.id = d.AddQP()
	if err := d.createQP(&q, r); err != nil {
		d.Remove(q.id)
		d.release(q)
		return QP{}, err
	}
	if d.caps.CQEVersion == 0 {
		q.Key = Key(q.Number)
	}
	r.Ledger.QPN = q.Number
	d.NumberQP(q.id, q.Number)
	d.pairs.Set(uint32(q.Key), r.Ledger)
	return q, nil
}

func (d *Device) createQP(q *QP, r QPRequest) error {
	request := prm.CreateQPRequest{
		BufAddr: r.Buf, RecordAddr: r.Record,
		SendBlocks: r.Blocks, Receives: r.Receives, ReceiveShift: r.Shift,
		UserIndex: uint32(q.Key),
	}
	if q.Bell != nil {
		request.Flags, request.Register = prm.QPUARPageIndex, q.Bell.page
	}
	var response prm.CreateQPResponse
	var shared *uint32
	if r.SRQ != nil {
		shared = &r.SRQ.Handle
	}
	made, err := d.Context().CreateQP(verbs.CreateQP{
		UserHandle: q.id,
		PD:         d.Domain(),
		SendCQ:     r.SendCQ,
		RecvCQ:     r.ReceiveCQ,
		SRQ:        shared,
		Cap:        r.Cap,
		Type:       verbs.RC,
		In:         prm.Bytes(&request),
		Out:        prm.Bytes(&response),
		Pinned:     r.Bytes,
	})
	if err != nil {
		return err
	}
	q.Handle, q.Number = made.Handle, made.QPN
	if q.Bell == nil {
		if q.Bell, err = d.pages.assigned(int(response.Register)); err != nil {
			_, _ = d.Context().DestroyQP(q.Handle)
			return err
		}
	}
	return nil
}

// DestroyQP destroys a queue pair and then calls gone, before anything of the
// queue pair, such as its key, can be given to another one. If the kernel
// refuses, gone is not called, and what still completes finds a ghost.
func (d *Device) DestroyQP(q QP, gone func()) error {
	defer d.numbers()()
	_, err := d.Context().DestroyQP(q.Handle)
	d.Remove(q.id)
	if err = d.IgnoreGone(err); err != nil {
		d.pairs.Set(uint32(q.Key), &ledger.Pair{QPN: q.Number, Ghost: true})
		return err
	}
	gone()
	d.pairs.Set(uint32(q.Key), nil)
	d.release(q)
	return nil
}

func (d *Device) release(q QP) {
	d.pages.release(q.Bell)
	if d.caps.CQEVersion == 1 {
		d.users.put(q.Key)
	}
}

// numbers keeps creation and destruction of queue pairs apart where completions
// name them by number: the kernel may give a number to another one as soon as it
// is free.
func (d *Device) numbers() (unlock func()) {
	if d.caps.CQEVersion == 0 {
		d.numbering.Lock()
		return d.numbering.Unlock
	}
	return func() {}
}

// KeyOf is the key that a completion queue entry names.
func (d *Device) KeyOf(e prm.CQE) Key {
	if d.caps.CQEVersion == 0 {
		return Key(e.QPN())
	}
	return Key(e.UserIndex())
}

// KeyWord is the index of the 32-bit word of completion queue entries that has the key:
// entries with the same word are of the same queue pair.
func (d *Device) KeyWord() int {
	if d.caps.CQEVersion == 0 {
		return prm.CQENumberWord
	}
	return prm.CQEUserWord
}

// Pair is the ledger of the queue pair that e is of, or nil.
func (d *Device) Pair(e prm.CQE) *ledger.Pair { return d.pairs.Get(uint32(d.KeyOf(e))) }
