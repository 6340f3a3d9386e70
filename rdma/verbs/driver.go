package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
)

// DriverID names a kernel driver (ib_user_ioctl_verbs.h, enum rdma_driver_id).
type DriverID uint32

// The drivers this module knows something of.
const (
	DriverUnknown DriverID = uapi.DriverUnknown
	DriverMLX5    DriverID = uapi.DriverMLX5
	DriverRXE     DriverID = uapi.DriverRXE
)

// String returns the driver's usual name.
func (d DriverID) String() string {
	switch d {
	case DriverUnknown:
		return "unknown"
	case DriverMLX5:
		return "mlx5"
	case DriverRXE:
		return "rxe"
	}
	return name(int(d), nil, "driver")
}

// ProbeDriver asks the kernel which of the candidates is the driver of f, for
// devices that sysfs does not tell. It works before and after the context is
// made and changes nothing. DriverUnknown means none of them.
func ProbeDriver(f File, candidates ...DriverID) (DriverID, error) {
	mem, err := alloc(hostmem.PageSize())
	if err != nil {
		return DriverUnknown, fmt.Errorf("probe driver: %w", err)
	}
	id, err := probeWith(f, mem, candidates)
	return id, errors.Join(err, mem.Free())
}

// probeWith sends a command that is too short on purpose. The driver id is checked
// before the length, so EINVAL means another driver and ENOSPC this one.
func probeWith(f File, mem *hostmem.Memory, candidates []DriverID) (DriverID, error) {
	for _, id := range candidates {
		var cmd uapi.Command
		cmd.Begin(mem.Bytes(), mem.Addr(), uapi.ObjectDevice, uapi.MethodInvokeWrite, uint32(id))
		cmd.Const(uapi.AttrWriteCmd, uapi.CmdQueryDevice)
		b, err := cmd.Bytes()
		if err != nil {
			return DriverUnknown, fmt.Errorf("probe driver: %w", err)
		}
		switch err := f.Ioctl(b); {
		case errors.Is(err, syscall.ENOSPC):
			return id, nil
		case errors.Is(err, syscall.EINVAL):
		case err == nil:
			return DriverUnknown, errors.New("probe driver: a command without input was accepted")
		default:
			return DriverUnknown, fileError(op{name: "probe driver"}, err)
		}
	}
	return DriverUnknown, nil
}

// vendorMellanox and mlx5Parts identify mlx5 devices by their PCI ids (Linux
// drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_core_pci_table).
const vendorMellanox = 0x15b3

var mlx5Parts = map[uint16]string{
	0x1011: "Connect-IB", 0x1012: "Connect-IB VF",
	0x1013: "ConnectX-4", 0x1014: "ConnectX-4 VF",
	0x1015: "ConnectX-4 Lx", 0x1016: "ConnectX-4 Lx VF",
	0x1017: "ConnectX-5", 0x1018: "ConnectX-5 VF",
	0x1019: "ConnectX-5 Ex", 0x101a: "ConnectX-5 Ex VF",
	0x101b: "ConnectX-6", 0x101c: "ConnectX-6 VF",
	0x101d: "ConnectX-6 Dx", 0x101e: "ConnectX VF",
	0x101f: "ConnectX-6 Lx", 0x1021: "ConnectX-7",
	0x1023: "ConnectX-8", 0x1025: "ConnectX-9",
	0x1027: "ConnectX-10", 0x2101: "ConnectX-10 C2C",
	0xa2d2: "BlueField", 0xa2d3: "BlueField VF",
	0xa2d6: "BlueField-2", 0xa2dc: "BlueField-3",
	0xa2df: "BlueField-4",
}
