package softnic

import "github.com/farwire/farwire/rdma/verbs"

// GIDs is the GID table of the port, as sysfs would show it where the kernel has no
// command for it.
func (n *NIC) GIDs() []verbs.GIDEntry {
	table := make([]verbs.GIDEntry, len(n.gids))
	for i, g := range n.gids {
		table[i] = verbs.GIDEntry{Index: i, GID: g.gid, Type: verbs.GIDType(g.kind)}
	}
	return table
}
