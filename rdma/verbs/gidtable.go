package verbs

import (
	"errors"
	"syscall"

	"github.com/farwire/farwire/internal/uapi"
)

// The GID table is asked for with room for gidsFirst entries, then for up to
// gidsMost, the most that an attribute's 16-bit length can say.
const (
	gidsFirst = 256
	gidsMost  = 0xffff / 32
)

// GIDs returns the used slots of a port's GID table in the order the kernel
// gives them. It needs Linux 5.10 (errors.ErrUnsupported otherwise); [Devices]
// reads the same table from sysfs. A table larger than usual takes several ioctls.
func (c *Context) GIDs(port uint8) ([]GIDEntry, error) {
	room := gidsFirst
	for {
		table, err := c.gidTable(room)
		// EINVAL is also what a table with too little room gets.
		if errors.Is(err, syscall.EINVAL) && room < gidsMost {
			room = min(2*room, gidsMost)
			continue
		}
		if err != nil {
			return nil, err
		}
		return gidsOf(table, port), nil
	}
}

func (c *Context) gidTable(room int) ([]uapi.GIDEntry, error) {
	size := uapi.Size[uapi.GIDEntry]()
	raw := make([]byte, room*size)
	var n uint64
	err := c.invoke(op{name: "query GID table"}, uapi.ObjectDevice, uapi.MethodQueryGIDTable,
		AttrConst(uapi.AttrGIDTableEntrySize, uint64(size)),
		AttrOut(uapi.AttrGIDTableEntries, raw),
		outValue(uapi.AttrGIDTableNumEntries, &n))
	if err != nil {
		return nil, err
	}
	table := make([]uapi.GIDEntry, min(n, uint64(room)))
	for i := range table {
		copy(uapi.Bytes(&table[i]), raw[i*size:])
	}
	return table, nil
}

func gidsOf(table []uapi.GIDEntry, port uint8) []GIDEntry {
	var gids []GIDEntry
	for _, e := range table {
		if e.PortNum == uint32(port) && !GID(e.GID).IsZero() {
			gids = append(gids, GIDEntry{
				Index: int(e.GIDIndex), GID: e.GID, Type: GIDType(e.GIDType), IfIndex: int(e.NetdevIfindex),
			})
		}
	}
	return gids
}
