package softnic

import (
	"iter"

	"github.com/farwire/farwire/internal/prm"
)

const objectUAR = prm.ObjectUAR

// objects is the handle table of a file. As the kernel's it gives out the
// smallest free handle, for objects of all kinds together.
type objects struct {
	slots []object
	first int // no handle below is free
}

type object struct {
	kind uint16 // uapi.ObjectPD, ...
	v    any    // nil: free
}

func (o *objects) add(kind uint16, v any) uint32 {
	for o.first < len(o.slots) && o.slots[o.first].v != nil {
		o.first++
	}
	if o.first == len(o.slots) {
		o.slots = append(o.slots, object{})
	}
	o.slots[o.first] = object{kind, v}
	o.first++
	return uint32(o.first - 1)
}

// get is the object with a handle; ok is false if there is none, and v is nil if
// it is of another kind.
func (o *objects) get(kind uint16, handle uint64) (v any, ok bool) {
	if handle >= uint64(len(o.slots)) || o.slots[handle].v == nil {
		return nil, false
	}
	if s := o.slots[handle]; s.kind == kind {
		return s.v, true
	}
	return nil, true
}

func (o *objects) remove(handle uint32) (kind uint16, v any) {
	s := o.slots[handle]
	o.slots[handle] = object{}
	o.first = min(o.first, int(handle))
	return s.kind, s.v
}

// all walks the handles of the objects of a kind, which may be removed meanwhile.
func (o *objects) all(kind uint16) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for h, s := range o.slots {
			if s.v != nil && s.kind == kind && !yield(uint32(h)) {
				return
			}
		}
	}
}

// drop destroys the object with a handle, whoever uses it.
func (f *file) drop(handle uint32) {
	n := f.nic
	switch _, v := f.objects.remove(handle); o := v.(type) {
	case *pd:
		n.dropPD(o)
	case *mr:
		n.dropRegion(o)
		f.unpin(o.charge)
	case *cq:
		if o.channel != nil {
			o.channel.forget(o)
		}
		if o.async != nil {
			o.async.forget(o)
		}
		n.dropCQ(o)
		f.unpin(o.charge + o.fixed)
	case *qp:
		if o.async != nil {
			o.async.forget(o)
		}
		n.dropQP(o)
		f.returnRegister(o)
		f.unpin(o.charge)
	case *srq:
		if o.async != nil {
			o.async.forget(o)
		}
		n.dropSRQ(o)
		f.unpin(o.charge)
	case *ah:
		o.pd.users--
		n.count.AHs--
	case *uar:
		delete(f.mapped, o.offset)
		delete(n.pages, o.index)
		o.put()
	}
}

// add gives a new object its handle.
func (c *call) add(kind uint16, v any) (handle uint32) {
	handle = c.file.objects.add(kind, v)
	c.trace.met(kind, handle, v, true)
	return handle
}

// lookup finds an object that a native method names: ENOENT if there is none,
// EINVAL if it is of another kind.
func lookup[T any](c *call, kind uint16, handle uint64) (T, error) {
	var none T
	v, ok := c.file.objects.get(kind, handle)
	switch {
	case !ok:
		return none, refuse(enoent, "no object with handle %d", handle)
	case v == nil:
		return none, refuse(einval, "handle %d is of another kind", handle)
	}
	c.trace.met(kind, uint32(handle), v, false)
	return v.(T), nil
}

// lookupLegacy is lookup for a command that travels in INVOKE_WRITE, where older
// kernels know EINVAL only.
func lookupLegacy[T any](c *call, kind uint16, handle uint32) (T, error) {
	v, err := lookup[T](c, kind, uint64(handle))
	if err != nil && c.nic.cfg.OldKernel {
		return v, refuse(einval, "no such object: handle %d", handle)
	}
	return v, err
}

// pin charges and checks [addr, addr+n), as pinning does: whole pages count,
// against the limit of the file.
func (f *file) pin(mem memory, addr, n uint64, write bool) (charge int64, err error) {
	if charge, err = f.charge(addr, n); err != nil {
		return 0, err
	}
	if !mem.Pin(addr, n, write) {
		f.unpin(charge)
		return 0, refuse(efault, "memory at %#x, %d bytes, is not accessible", addr, n)
	}
	return charge, nil
}

func (f *file) charge(addr, n uint64) (int64, error) {
	page := uint64(pageSize())
	pages := ((addr+n-1)/page - addr/page) + 1
	bytes := int64(pages * page)
	if limit := f.nic.lim.PinnedBytes; limit > 0 && f.pinned+bytes > limit {
		return 0, refuse(enomem, "%d bytes pinned, %d more, limit %d", f.pinned, bytes, limit)
	}
	f.pinned += bytes
	f.nic.count.PinnedBytes += bytes
	return bytes, nil
}

func (f *file) unpin(charge int64) {
	f.pinned -= charge
	f.nic.count.PinnedBytes -= charge
}
