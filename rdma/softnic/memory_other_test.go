//go:build !linux

package softnic

import "testing"

func readOnlyPage(t *testing.T) uint64 {
	t.Skip("read-only mappings are made on linux")
	return 0
}

func memfd(t *testing.T, content []byte) int {
	t.Skip("dma-bufs are of linux")
	return -1
}
