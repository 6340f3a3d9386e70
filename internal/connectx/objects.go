package connectx

import (
	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic"
)

// made answers with a new object's number, unless making it failed.
func (r *request) made(number uint32, err error) error {
	if err == nil {
		r.answer(number)
	}
	return err
}

func (d *Device) allocUAR(r *request) error   { return r.made(d.function.AllocPage()) }
func (d *Device) deallocUAR(r *request) error { return d.function.DeallocPage(r.object()) }
func (d *Device) allocPD(r *request) error    { return r.made(d.function.AllocPD()) }
func (d *Device) deallocPD(r *request) error  { return d.function.DeallocPD(r.object()) }

// kept is what is kept of an object: how many entries its page list has, for which it is
// charged, and the context that it was made with.
type kept struct {
	pages   int
	context [contextSize]byte
}

// contextSize is as much of an object's context as is kept.
const contextSize = 0x40

// hold keeps what there is to keep of an object, under its number.
func (d *Device) hold(table map[uint32]kept, number uint32, s *span, context []byte) {
	table[number] = kept{len(s.pages), [contextSize]byte(context)}
	d.budget -= int64(len(s.pages))
}

// release is what is held of an object that is gone.
func (d *Device) release(table map[uint32]kept, number uint32) {
	d.budget += int64(table[number].pages)
	delete(table, number)
}

// Access modes of memory keys (mlx5_ifc.h, MLX5_MKC_ACCESS_MODE_*).
const (
	modePhysical = 0
	modePages    = 1
)

func (d *Device) createMKey(r *request) error {
	m, c := &ifc.MemoryKey, r.in[ifc.Context:]
	region := softnic.RegionConfig{PD: uint32(m.PD.Get(c)), Address: m.Start.Get(c), Length: m.Length.Get(c),
		Access: regionAccess(c), Variant: uint8(m.Variant.Get(c))}
	mode := m.ModeHigh.Get(c)<<2 | m.Mode.Get(c)
	s := &span{guest: d.guest}
	switch {
	case m.Free.Bool(c):
		// A key that entries of work queues would give its memory: it has none yet.
		region.Memory, region.Address, region.Length, region.Access = s, 0, 0, 0
	case mode == modePhysical:
		region.Memory, region.Start = d.guest, region.Address
		if m.Length64.Bool(c) {
			region.Start, region.Address, region.Length = 0, 0, 1<<64-1
		}
	case mode == modePages:
		offset := region.Address & (1<<(m.LogPage.Get(c)) - 1)
		if m.LogPage.Get(c) < 12 {
			return refuse(ifc.BadParameter, "pages of 1<<%d bytes", m.LogPage.Get(c))
		}
		var err error
		if s, err = d.pages(r, m.LogPage.Get(c)-12, offset, region.Length); err != nil {
			return err
		}
		region.Memory, region.Start = s, offset
	default:
		return refuse(ifc.BadParameter, "memory key of access mode %d", mode)
	}
	key, err := d.function.CreateRegion(region)
	if err != nil {
		return err
	}
	d.hold(d.mkeys, key>>8, s, c)
	r.answer(key >> 8)
	return nil
}

// regionAccess is what a memory key allows.
func regionAccess(c []byte) (access uint32) {
	m := &ifc.MemoryKey
	for _, v := range []struct {
		field ifc.Field
		bit   uint32
	}{
		{m.LocalWrite, uapi.AccessLocalWrite}, {m.RemoteWrite, uapi.AccessRemoteWrite},
		{m.RemoteRead, uapi.AccessRemoteRead}, {m.Atomic, uapi.AccessRemoteAtomic},
	} {
		if v.field.Bool(c) {
			access |= v.bit
		}
	}
	return access
}

func (d *Device) destroyMKey(r *request) error {
	if err := d.function.DestroyRegion(r.object()); err != nil {
		return err
	}
	d.release(d.mkeys, r.object())
	return nil
}

// queueStart is where a queue begins in its first page: its context counts in parts
// of a page, 64 of them.
func queueStart(offset, logPage uint64) uint64 { return offset << (12 + logPage) >> 6 }

func (d *Device) createCQ(r *request) error {
	q, c := &ifc.CompletionQueue, r.in[ifc.Context:]
	cfg := softnic.CQConfig{Record: q.Record.Get(c) | recordBit, Entries: 1 << q.LogSize.Get(c), EntrySize: 64,
		IgnoreOverrun: q.IgnoreOverrun.Bool(c), Page: uint32(q.UAR.Get(c))}
	switch {
	case q.EntrySize.Get(c) == 1:
		cfg.EntrySize = 128
	case q.EntrySize.Get(c) != 0 || q.Collapsed.Bool(c) || q.Compress.Bool(c):
		return refuse(ifc.BadParameter, "completion queue of a kind the device does not have")
	}
	events := uint32(q.EventQueue.Get(c))
	if d.events.get(events) == nil {
		return refuse(ifc.BadResource, "no event queue %d", events)
	}
	cfg.Completed = func(cqn uint32) { d.events.complete(events, cqn) }
	start := queueStart(q.PageOffset.Get(c), q.LogPage.Get(c))
	s, err := d.pages(r, q.LogPage.Get(c), start, uint64(cfg.Entries)*uint64(cfg.EntrySize))
	if err != nil {
		return err
	}
	cfg.Memory, cfg.Buffer = s, start
	number, err := d.function.CreateCQ(cfg)
	if err == nil {
		d.hold(d.cqs, number, s, c)
	}
	return r.made(number, err)
}

func (d *Device) destroyCQ(r *request) error {
	if err := d.function.DestroyCQ(r.object()); err != nil {
		return err
	}
	d.release(d.cqs, r.object())
	return nil
}

// createRMP makes a receive memory pool: a shared receive queue.
func (d *Device) createRMP(r *request) error {
	q, c := &ifc.WorkQueue, r.in[ifc.RMPQueue:]
	if q.LogSize.Get(c) > 16 {
		return refuse(ifc.BadParameter, "shared receive queue of 1<<%d", q.LogSize.Get(c))
	}
	cfg := softnic.SRQConfig{PD: uint32(q.PD.Get(c)), Record: q.Record.Get(c) | recordBit,
		Entries: 1 << q.LogSize.Get(c), Stride: 1 << q.LogStride.Get(c)}
	start := queueStart(q.PageOffset.Get(c), q.LogPage.Get(c))
	s, err := d.pages(r, q.LogPage.Get(c), start, uint64(cfg.Entries)*uint64(cfg.Stride))
	if err != nil {
		return err
	}
	cfg.Memory, cfg.Buffer = s, start
	number, err := d.function.CreateSRQ(cfg)
	if err == nil {
		d.hold(d.srqs, number, s, c)
	}
	return r.made(number, err)
}

func (d *Device) destroyRMP(r *request) error {
	if err := d.function.DestroySRQ(r.object()); err != nil {
		return err
	}
	d.release(d.srqs, r.object())
	return nil
}
