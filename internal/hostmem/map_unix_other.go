//go:build unix && !linux

package hostmem

// keepFromChildren does nothing: only Linux has devices that pin this memory.
func keepFromChildren([]byte) error { return nil }
