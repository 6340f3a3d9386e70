package verbs

import "golang.org/x/sys/unix"

func memlockLimit() (uint64, bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
		return 0, false
	}
	return r.Cur, true
}
