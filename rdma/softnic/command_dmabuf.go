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
	var offset, length, iova, access uint64
	var fd uint32
	for _, a := range []struct {
		id uint16
		v  *uint64
	}{
		{uapi.AttrRegDmabufOffset, &offset}, {uapi.AttrRegDmabufLength, &length},
		{uapi.AttrRegDmabufIOVA, &iova}, {uapi.AttrRegDmabufAccess, &access},
	} {
		var err error
		if *a.v, err = in[uint64](c, c.req.Find(a.id)); err != nil {
			return err
		}
	}
	fd, err := in[uint32](c, c.req.Find(uapi.AttrRegDmabufFD))
	if err != nil {
		return err
	}
	d, err := lookup[*pd](f, uapi.ObjectPD, c.req.Find(uapi.AttrRegDmabufPD).Data())
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
	addr, release, err := mapDescriptor(int(int32(fd)), offset, length, uint32(access)&uapi.AccessLocalWrite != 0)
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EOPNOTSUPP
		}
		return refuse(errno, "map descriptor %d: %v", int32(fd), err)
	}
	// The memory is the descriptor's; nothing of the caller's is pinned.
	m := &mr{pd: d, mem: ownMemory{}, start: addr, va: iova, length: length, access: uint32(access), release: release}
	n.addRegion(m)
	h := f.objects.add(uapi.ObjectMR, m)
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
