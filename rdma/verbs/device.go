package verbs

// A Device is an RDMA device as sysfs describes it.
type Device struct {
	Name       string // e.g. mlx5_0
	UverbsName string // e.g. uverbs0
	Major      uint32 // of the device node
	Minor      uint32
	Driver     DriverID // DriverUnknown if sysfs does not tell; see ProbeDriver
	ABI        int      // version of the driver's own interface
	VendorID   uint16   // PCI ids, 0 if there is no PCI function
	PartID     uint16
	Model      string // e.g. ConnectX-7, "" if unknown
	NUMANode   int    // -1 if unknown
	NodeGUID   string
	Firmware   string
	Parent     string // Soft-RoCE: the network interface below
	Ports      []Port

	root string
}

// A Port is one port of a Device.
type Port struct {
	Number    uint8 // from 1
	State     PortState
	LinkLayer LinkLayer
	LID       uint16
	SMLID     uint16
	Rate      string // e.g. 100 Gb/sec (4X EDR)
	GIDs      []GIDEntry
}

// Devices lists the RDMA devices of the system.
func Devices(root string) ([]Device, error) { return nil, nil }
