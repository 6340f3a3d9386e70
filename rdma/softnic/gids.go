package softnic

import "github.com/farwire/farwire/rdma/verbs"

// GIDs is the GID table of the port, as sysfs would show it where the kernel has no
// command for it.
func (n *NIC) GIDs() []verbs.GIDEntry {
	if n.cfg.Unaddressed {
		n.lock()
		defer n.unlock()
	}
	var table []verbs.GIDEntry
	for i, g := range n.gids {
		if !g.gid.IsZero() {
			table = append(table, verbs.GIDEntry{Index: i, GID: g.gid, Type: verbs.GIDType(g.kind)})
		}
	}
	return table
}
