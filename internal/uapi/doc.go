// Package uapi is the kernel's uverbs interface as bytes: the RDMA_VERBS_IOCTL
// command, its attributes, the numbers of objects, methods and commands, and
// the core structures they carry.
//
// It has both directions. [Command] builds a command in memory that the caller
// owns, and [Parse] with [Table.Match] read one as strictly as the kernel does
// and answer with the errno the kernel would. Nothing here issues a system
// call, and nothing but the struct views in bytes.go touches memory by address.
//
// Everything is in the host's byte order except where a field says otherwise.
// The driver-private part of a command (UHW) is opaque here.
//
// Errors are the running system's own syscall.Errno values, so that
// errors.Is(err, syscall.EINVAL) holds on every system the module builds on.
// The numbers are Linux's on Linux only, and a number must never leave the
// process on another system.
//
// Sources: include/uapi/rdma/rdma_user_ioctl_cmds.h, ib_user_ioctl_cmds.h,
// ib_user_ioctl_verbs.h and ib_user_verbs.h of Linux. A test compares every
// offset, size and number here with those headers.
package uapi
