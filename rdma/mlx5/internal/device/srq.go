package device

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/verbs"
)

// SRQRequest is what a shared receive queue is made of.
type SRQRequest struct {
	Buf, Bytes uint64 // the ring
	Record     uint64
	Receives   uint32 // one less than the entries of the ring
	Segments   uint32
}

// SRQ is a shared receive queue of the kernel's.
type SRQ struct {
	Handle uint32
	Number uint32
	id     uint64
}

// CreateSRQ makes a shared receive queue. The user index in its request is of queues of
// another kind.
func (d *Device) CreateSRQ(r SRQRequest) (SRQ, error) {
	q := SRQ{id: d.AddSRQ()}
	request := prm.CreateSRQRequest{BufAddr: r.Buf, RecordAddr: r.Record}
	var response prm.CreateSRQResponse
	made, err := d.Context().CreateSRQ(verbs.CreateSRQ{
		UserHandle: q.id, PD: d.Domain(), MaxWR: r.Receives, MaxSGE: r.Segments,
		In: prm.Bytes(&request), Out: prm.Bytes(&response), Pinned: r.Bytes,
	})
	if err != nil {
		d.Remove(q.id)
		return SRQ{}, err
	}
	q.Handle, q.Number = made.Handle, response.SRQN&prm.MaxNumber
	d.NumberSRQ(q.id, q.Number)
	return q, nil
}

// LimitSRQ asks for one event once fewer than n receives are posted.
func (d *Device) LimitSRQ(q SRQ, n uint32) error { return d.Context().LimitSRQ(q.Handle, n) }

// DestroySRQ destroys a shared receive queue. On a device that is gone it succeeds.
func (d *Device) DestroySRQ(q SRQ) error {
	_, err := d.Context().DestroySRQ(q.Handle)
	d.Remove(q.id)
	return d.IgnoreGone(err)
}
