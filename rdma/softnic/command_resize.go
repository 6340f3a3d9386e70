package softnic

import (
	"math/bits"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// resizeCQ moves a completion queue to another ring. A ring of the same number of
// entries is not looked at.
func (c *call) resizeCQ(inv uapi.Invoke) error {
	req, err := core[uapi.ResizeCQ](c, inv.Core)
	if err != nil {
		return err
	}
	q, err := lookupLegacy[*cq](c, uapi.ObjectCQ, req.CQHandle)
	if err != nil {
		return err
	}
	if req.Cqe < 1 || req.Cqe >= uint32(c.nic.lim.CQEntries) {
		return refuse(einval, "%d entries, limit %d", req.Cqe, c.nic.lim.CQEntries-1)
	}
	if entries := uint32(1) << bits.Len32(req.Cqe); entries != q.entries {
		if err := c.replaceRing(q, entries); err != nil {
			return err
		}
	}
	return out(c, inv.Reply, uapi.ResizeCQResp{Cqe: q.entries - 1})
}

// replaceRing judges the driver's request and the state of the queue, and moves it.
func (c *call) replaceRing(q *cq, entries uint32) error {
	f := c.file
	if n := c.uhwIn.Len(); n < uapi.Size[prm.ResizeCQRequest]() {
		return refuse(efault, "driver request of %d bytes", n)
	}
	u, err := in[prm.ResizeCQRequest](c, c.uhwIn)
	switch {
	case err != nil:
		return err
	case u.Reserved0 != 0 || u.Reserved1 != 0:
		return refuse(einval, "reserved fields of the driver request are set")
	case uint32(u.EntrySize) != q.entrySize:
		return refuse(einval, "entries of %d bytes, queue has %d", u.EntrySize, q.entrySize)
	case q.failed || !q.readConsumed():
		return refuse(einval, "completion queue has failed")
	case q.unconsumed() >= q.entries:
		return refuse(einval, "no room for the last entry of the ring")
	case q.unconsumed() > entries:
		return refuse(einval, "%d completions are not consumed, new ring has %d", q.unconsumed(), entries)
	}
	charge, err := f.pin(c.mem, u.BufAddr, uint64(entries)*uint64(q.entrySize), true)
	if err != nil {
		return err
	}
	if !q.moveTo(u.BufAddr, entries) {
		f.unpin(charge)
		return refuse(efault, "completion queue memory is not mapped")
	}
	f.unpin(q.charge)
	q.charge = charge
	return nil
}

// moveTo ends the ring with an entry that says so, and goes on in another. The
// driver takes over what it has not consumed, each entry to the index after its own,
// for the last entry counts as one.
func (c *cq) moveTo(buf uint64, entries uint32) bool {
	e := prm.Completion{Opcode: prm.CQEResize, Owner: c.owner()}
	if !c.put(&e) {
		return false
	}
	quiet := c.announced == c.produced
	c.produced++
	if quiet {
		c.announced = c.produced // it is nothing to be announced
	}
	c.buf, c.entries = buf, entries
	return true
}

// Largest values of moderation: the bits of the queue's context for them.
const (
	maxModerationCount  = 1<<16 - 1
	maxModerationPeriod = 1<<12 - 1
)

// modifyCQ accepts moderation. It bounds how late events come, and this NIC's are
// never late.
func (c *call) modifyCQ(inv uapi.Invoke) error {
	req, err := core[uapi.ExModifyCQ](c, inv.Core)
	switch {
	case err != nil:
		return err
	case req.AttrMask == 0 || req.Reserved != 0:
		return refuse(einval, "attribute mask %#x, reserved %#x", req.AttrMask, req.Reserved)
	case req.AttrMask > uapi.CQModerate:
		return refuse(enotsup, "attribute mask %#x", req.AttrMask)
	}
	if _, err := lookupLegacy[*cq](c, uapi.ObjectCQ, req.CQHandle); err != nil {
		return err
	}
	if req.Attr.CqPeriod > maxModerationPeriod {
		return refuse(einval, "moderation period %d, limit %d", req.Attr.CqPeriod, maxModerationPeriod)
	}
	return nil
}
