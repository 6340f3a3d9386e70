package device

import "github.com/farwire/farwire/rdma/verbs"

// MR is a memory region of the kernel's.
type MR = verbs.MR

// RegisterMemory registers length bytes of this process at addr, which the NIC
// knows by the same address.
func (d *Device) RegisterMemory(addr, length uint64, access verbs.Access) (MR, error) {
	return d.ctx.RegMR(verbs.RegMR{PD: d.pd, Addr: addr, Length: length, IOVA: addr, Access: d.grant(access)})
}

// RegisterDmabuf registers length bytes, from offset on, of a dma-buf, which the
// NIC knows by addr.
func (d *Device) RegisterDmabuf(fd int, offset, length, addr uint64, access verbs.Access) (MR, error) {
	return d.ctx.RegDmabufMR(verbs.RegDmabufMR{
		PD: d.pd, FD: fd, Offset: offset, Length: length, IOVA: addr, Access: d.grant(access),
	})
}

// grant is access without the rights that the device has no operations for: the
// kernel refuses them.
func (d *Device) grant(access verbs.Access) verbs.Access {
	if d.attr.AtomicCap == 0 {
		access &^= verbs.AccessRemoteAtomic
	}
	return access
}

// Deregister ends either. On a device that is gone it succeeds.
func (d *Device) Deregister(m MR) error { return d.ignoreGone(d.ctx.DeregMR(m.Handle)) }
