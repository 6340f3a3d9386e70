// Package interpose runs programs on software NICs: unmodified ones, that use
// libibverbs and libmlx5 or any other user of the kernel's uverbs interface.
//
// A program runs under a seccomp filter that hands a few of its system calls to
// this process: opens and stats of the device nodes, the uverbs ioctl, shared
// mappings of files. All others go to the kernel as ever. No privilege is
// needed, no kernel module, and nothing is loaded into the program, which may
// be statically linked.
//
// What the program opens as /dev/infiniband/uverbsN is a file in memory, whose
// pages are the NIC's doorbell pages; a goroutine looks at them for as long as
// there are any, often while they are in use and seldom while they are not.
// The file's end, and with it that of the NIC's user context, comes when the
// last descriptor and the last mapping of it are gone, as for a device node:
// dup, fork, exec and exit need no handling of their own. The NIC reaches the
// program's memory through /proc/PID/mem, which is bound to the address space
// and not to the process: what the process executes later cannot be hit. Event
// descriptors are sockets that keep the bounds of records.
//
// The program finds the NICs in a copy of the kernel's sysfs tree, to which
// the environment variable SYSFS_PATH leads libibverbs.
package interpose
