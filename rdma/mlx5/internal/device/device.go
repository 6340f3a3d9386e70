package device

import (
	"errors"
	"sync"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Device is one context of a NIC. Its methods are safe for concurrent use.
type Device struct {
	*nic.Device
	caps prm.AllocContextResponse

	pages   pages
	records records
	rings   hostmem.Arena
	pairs   Table
	users   users

	numbering sync.Mutex // see numbers
}

// Open makes a context of file, which must be an mlx5 device's. It takes file
// over: on an error file is closed.
func Open(file verbs.File) (*Device, error) {
	d := &Device{}
	request := contextRequest()
	var domain prm.AllocPDResponse
	base, err := nic.Open(file, nic.Driver{
		ID:      verbs.DriverMLX5,
		Request: prm.Bytes(&request), Response: prm.Bytes(&d.caps), Domain: prm.Bytes(&domain),
		Map:   func(ctx *verbs.Context) error { return d.pages.open(ctx, &d.caps) },
		Unmap: d.pages.unmap, Free: func() error { return errors.Join(d.records.close(), d.rings.Close()) },
	})
	if err != nil {
		return nil, err
	}
	d.Device = base
	return d, nil
}

// contextRequest asks for doorbell pages of our own choice. A kernel that does
// not know them gives 16 static registers, of which the last 4 are for one queue
// pair each.
func contextRequest() prm.AllocContextRequest {
	return prm.AllocContextRequest{
		TotalRegisters:      staticRegisters,
		LowLatencyRegisters: lowLatencyRegisters,
		MaxCQEVersion:       1,
		LibCaps:             prm.LibCap4KUAR | prm.LibCapDynUAR,
	}
}

// Caps is what the mlx5 driver reports about the context.
func (d *Device) Caps() *prm.AllocContextResponse { return &d.caps }

// NewRecord is a zeroed doorbell record. FreeRecord takes it back once no object
// of the kernel uses it.
func (d *Device) NewRecord() (*Record, error) { return d.records.get() }

// FreeRecord ends NewRecord.
func (d *Device) FreeRecord(r *Record) { d.records.put(r) }

// AllocRing is memory for a ring of n bytes, zeroed and in pages of its own. It is freed once
// no object of the kernel uses it.
func (d *Device) AllocRing(n int) (*hostmem.Memory, error) { return d.rings.Alloc(n) }
