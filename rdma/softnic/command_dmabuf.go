package softnic

import (
	"errors"
	"syscall"

	"github.com/farwire/farwire/internal/uapi"
)

// registerDmabuf registers memory behind a descriptor. Hardware reads and writes
// it without the processor; this NIC maps it, which works for the buffers that
// the host can map: udmabuf, and memfd files in place of one.
func (c *call) registerDmabuf() error {
	f, n := c.file, c.nic
	offset, length := c.word(uapi.AttrRegDmabufOffset), c.word(uapi.AttrRegDmabufLength)
	iova, access := c.word(uapi.AttrRegDmabufIOVA), c.word(uapi.AttrRegDmabufAccess)
	fd := int32(c.word(uapi.AttrRegDmabufFD))
	d, err := lookup[*pd](c, uapi.ObjectPD, c.req.Find(uapi.AttrRegDmabufPD).Data())
	if err != nil {
		return err
	}
	if mask := uint64(pageSize() - 1); offset&mask != iova&mask {
		return refuse(einval, "offset %#x and address %#x differ within a page", offset, iova)
	}
	if access>>32 != 0 {
		return refuse(einval, "access %#x", access)
	}
	if err := c.checkRegion(offset, iova, length, uint32(access)); err != nil {
		return err
	}
	if c.caller != nil {
		return refuse(enotsup, "descriptor of another process")
	}
	addr, release, err := mapDescriptor(int(fd), offset, length, uint32(access)&uapi.AccessLocalWrite != 0)
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EOPNOTSUPP
		}
		return refuse(errno, "map descriptor %d: %v", fd, err)
	}
	// The memory is the descriptor's; nothing of the caller's is pinned.
	m := &mr{pd: d, mem: ownMemory{}, start: addr, va: iova, length: length, access: uint32(access), release: release}
	n.addRegion(m)
	h := c.add(uapi.ObjectMR, m)
	c.created(uapi.AttrRegDmabufHandle, uint64(h))
	err = output(c, uapi.AttrRegDmabufLKey, m.key)
	if err == nil {
		err = output(c, uapi.AttrRegDmabufRKey, m.key)
	}
	if err != nil {
		f.drop(h)
	}
	return err
}
