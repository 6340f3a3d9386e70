//go:build !linux

package verbs

func memlockLimit() (uint64, bool) { return 0, false }
