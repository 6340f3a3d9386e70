package verbs

import "golang.org/x/sys/unix"

func memlockLimit() (uint64, bool) {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r)
	return r.Cur, err == nil
}
