// Package ifc has the layouts of the command interface of ConnectX: the structures
// that the kernel's driver and the firmware exchange, as far as the software NIC
// uses them. All numbers are big endian.
//
// A structure is a variable with a [Field] for each of its numbers, which reads and
// writes it in the bytes of the structure. A row of the tables is written as the
// Programmer's Reference Manual draws it (chapter "Command Reference"): the offset of
// a 32-bit word and the bits of it. Its text is the field's name in the Linux
// kernel's include/linux/mlx5/mlx5_ifc.h, the structure's the name without mlx5_ifc_
// and _bits; a test compares every row with that header where it is there.
package ifc
