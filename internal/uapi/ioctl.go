package uapi

// RDMAVerbsIoctl is the request number of the one ioctl: read and write, 24
// bytes, magic 0x1b, number 1 (rdma_user_ioctl_cmds.h, RDMA_VERBS_IOCTL).
const RDMAVerbsIoctl = 0xC0181B01

// The header of a command (struct ib_uverbs_ioctl_hdr), 24 bytes.
const (
	HeaderSize = 24

	hdrLength    = 0  // u16: 24 + 16 for each attribute
	hdrObject    = 2  // u16
	hdrMethod    = 4  // u16
	hdrNumAttrs  = 6  // u16
	hdrReserved1 = 8  // u64, zero
	hdrDriver    = 16 // u32: the driver id of the device
	hdrReserved2 = 20 // u32, zero
)

// One attribute (struct ib_uverbs_attr), 16 bytes.
const (
	AttrSize = 16

	attrID       = 0 // u16
	attrLen      = 2 // u16
	attrFlags    = 4 // u16
	attrReserved = 6 // u16: zero (an element id for enumerations)
	attrData     = 8 // u64: address, handle, descriptor, constant or inline bytes
)

// Attribute flags (rdma_user_ioctl_cmds.h, UVERBS_ATTR_F_*).
const (
	FlagMandatory   = 1 << 0 // the kernel must know the attribute
	FlagValidOutput = 1 << 1 // set by the kernel: the output was written
)

// MaxCommand is the longest command in bytes. The kernel's limit is its page
// size; this is the smallest page size there is.
const MaxCommand = 4096

// InlineMax is the most bytes of input that travel inside an attribute. Longer
// input, and output of any length, is passed by address.
const InlineMax = 8

// Driver ids (ib_user_ioctl_verbs.h, enum rdma_driver_id).
const (
	DriverUnknown = 0
	DriverMLX5    = 1
	DriverMLX4    = 2
	DriverRXE     = 14
	DriverSIW     = 18
)

// ABIVersion is the core uverbs ABI version that sysfs reports
// (IB_USER_VERBS_ABI_VERSION).
const ABIVersion = 6
