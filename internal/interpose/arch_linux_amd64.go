package interpose

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// The calls of before openat, and stat by path alone.
const (
	sysOpen  = unix.SYS_OPEN
	sysStat  = unix.SYS_STAT
	sysLstat = unix.SYS_LSTAT
)

var archRules = []rule{
	{sysOpen, opens(1), notify},
	{sysStat, nil, notify},
	{sysLstat, nil, notify},
}
