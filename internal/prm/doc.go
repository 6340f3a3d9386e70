// Package prm holds the byte layouts of ConnectX NICs (the mlx5 family): the
// driver data of the kernel's commands, work queue entries, completion queue
// entries, doorbell records and doorbell pages. The driver and the software NIC
// share it, so each layout is written once.
//
// Everything a queue or a doorbell holds is big endian; the structs of the
// kernel commands (abi.go) are in the host's order. Encoders write into memory
// the caller owns and do not allocate. Decoders take bytes somebody else wrote:
// they are strict, they never panic, and they say what is wrong.
//
// Sources: the kernel's uapi headers rdma/mlx5-abi.h and
// rdma/mlx5_user_ioctl_cmds.h for what they define; for work queue entries,
// completion queue entries and doorbells, which no uapi header defines, the
// names and values rdma-core's providers/mlx5 (mlx5dv.h) gives them.
package prm

// Sizes of send queue entries, in bytes: they consist of segments of one or more
// units, and start on blocks, in which the hardware counts the queue.
const (
	Unit       = 16
	Block      = 64
	BlockUnits = Block / Unit
)
