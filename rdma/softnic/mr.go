package softnic

import (
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/uapi"
)

// pd is a protection domain: queue pairs use the regions of their own only.
type pd struct {
	number uint32
	users  int // regions and queue pairs
}

// newPD makes a protection domain with a number that no other has.
func (n *NIC) newPD() (*pd, error) {
	if n.count.PDs >= n.lim.PDs {
		return nil, refuse(enomem, "%d protection domains", n.count.PDs)
	}
	for n.pds[n.nextPDN] {
		n.nextPDN = nextNumber(n.nextPDN)
	}
	d := &pd{number: n.nextPDN}
	n.nextPDN = nextNumber(n.nextPDN)
	n.pds[d.number] = true
	n.count.PDs++
	return d, nil
}

func (n *NIC) dropPD(d *pd) {
	delete(n.pds, d.number)
	n.count.PDs--
}

// mr is a memory region: the bytes [va, va+length) of its user's address space
// are those at start, as far as access allows. Its one key is both the local
// and the remote one.
type mr struct {
	key       uint32
	pd        *pd
	mem       memory
	start, va uint64
	length    uint64
	access    uint32
	charge    int64 // pinned bytes
	release   func()
}

// translate is where [va, va+n) lies in the region's memory, for one of need's
// accesses; detailNone if that is allowed.
func (m *mr) translate(va uint64, n uint32, need uint32) (addr uint64, d detail) {
	off := va - m.va
	switch {
	case m.access&need != need:
		return 0, detailRights
	case va < m.va || off > m.length || uint64(n) > m.length-off:
		return 0, detailBounds
	}
	return m.start + off, detailNone
}

// region finds the region of a key that queue pairs of d may use.
func (n *NIC) region(key uint32, d *pd) (*mr, detail) {
	m := n.mrs[key]
	switch {
	case m == nil:
		return nil, detailKey
	case m.pd != d:
		return nil, detailDomain
	}
	return m, detailNone
}

// Keys are an index of 24 bits and a variant of 8. An index is taken again only
// when all others have been, with another variant, so that a stale key stays
// useless for as long as can be.
const (
	firstKeyIndex = 0x100 // indices below are the device's own
	lastKeyIndex  = 1<<24 - 1
)

func (n *NIC) newKey() uint32 {
	variant := n.keyVariant
	return n.newIndex()<<8 | variant
}

// newIndex is a key's index that is free, and used from now on.
func (n *NIC) newIndex() uint32 {
	for {
		index := n.nextKey
		if n.nextKey++; n.nextKey > lastKeyIndex {
			n.nextKey = firstKeyIndex
			n.keyVariant = (n.keyVariant + 1) & 0xff
		}
		if !n.keyIndex[index] {
			n.keyIndex[index] = true
			return index
		}
	}
}

// addRegion gives a region that has no key one.
func (n *NIC) addRegion(m *mr) {
	if m.key == 0 {
		m.key = n.newKey()
	}
	n.mrs[m.key] = m
	m.pd.users++
	n.count.MRs++
}

func (n *NIC) dropRegion(m *mr) {
	delete(n.mrs, m.key)
	delete(n.keyIndex, m.key>>8)
	m.pd.users--
	n.count.MRs--
	if m.release != nil {
		m.release()
	}
}

// remoteNeed is the region access that a peer's access needs.
func remoteNeed(a rc.Access) (need uint32) {
	if a&rc.RemoteWrite != 0 {
		need |= uapi.AccessRemoteWrite
	}
	if a&rc.RemoteRead != 0 {
		need |= uapi.AccessRemoteRead
	}
	if a&rc.RemoteAtomic != 0 {
		need |= uapi.AccessRemoteAtomic
	}
	return need
}

// rcAccess is what the access flags of a queue pair let a peer do.
func rcAccess(flags uint32) (a rc.Access) {
	if flags&uapi.AccessRemoteWrite != 0 {
		a |= rc.RemoteWrite
	}
	if flags&uapi.AccessRemoteRead != 0 {
		a |= rc.RemoteRead
	}
	if flags&uapi.AccessRemoteAtomic != 0 {
		a |= rc.RemoteAtomic
	}
	return a
}
