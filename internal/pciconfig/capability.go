package pciconfig

import "fmt"

// Capabilities (linux/pci_regs.h, PCI_CAP_ID_*).
const (
	capExpress = 0x10
	capMSIX    = 0x11
)

// The capability of a PCI Express endpoint (PCIe base specification, 7.5.3), of
// version 2.
const (
	expressSize    = 0x3c
	expressFlags   = 2 // version 2, endpoint
	offDeviceCaps  = 0x04
	deviceCaps     = 1<<15 | 1 // role-based errors; payloads up to 256 bytes
	offDeviceCtl   = 0x08
	offLinkCaps    = 0x0c
	offLinkCtl     = 0x10
	offLinkStatus  = 0x12
	linkSpeed8     = 3       // 8 GT/s
	linkWidth      = 16 << 4 // lanes
	deviceCtlBits  = 0x7fff  // all but the start of a function-level reset, which there is not
	linkCtlBits    = 1<<6 | 3
	offDeviceCtl2  = 0x28
	deviceCtl2Bits = 0x1f
)

// The MSI-X capability (PCIe base specification, 7.7.2).
const (
	msixSize      = 12
	msixVectorMax = 2048
	msixMask      = 1 << 14
	msixEnable    = 1 << 15
	msixBAR       = 7
	offMSIXFlags  = 2
	offMSIXTable  = 4
	offMSIXPBA    = 8
)

// putCapabilities chains the capabilities.
func (s *Space) putCapabilities(f Function) error {
	next, link := offFirst, offPointer
	begin := func(id byte, size int) (at int) {
		at = next
		s.initial[link], s.initial[at] = byte(at), id
		link, next = at+1, (at+size+3)&^3
		return at
	}
	s.putExpress(begin(capExpress, expressSize))
	if f.MSIX.Vectors == 0 {
		return nil
	}
	if err := f.MSIX.check(&f.BARs); err != nil {
		return err
	}
	s.putMSIX(begin(capMSIX, msixSize), f.MSIX)
	return nil
}

func (s *Space) putExpress(at int) {
	b, w := s.initial[at:], s.writable[at:]
	le.PutUint16(b[2:], expressFlags)
	le.PutUint32(b[offDeviceCaps:], deviceCaps)
	le.PutUint16(w[offDeviceCtl:], deviceCtlBits)
	le.PutUint32(b[offLinkCaps:], linkWidth|linkSpeed8)
	le.PutUint16(w[offLinkCtl:], linkCtlBits)
	le.PutUint16(b[offLinkStatus:], linkWidth|linkSpeed8)
	le.PutUint16(w[offDeviceCtl2:], deviceCtl2Bits)
}

func (s *Space) putMSIX(at int, m MSIX) {
	b, w := s.initial[at:], s.writable[at:]
	le.PutUint16(b[offMSIXFlags:], uint16(m.Vectors-1))
	le.PutUint16(w[offMSIXFlags:], msixMask|msixEnable)
	le.PutUint32(b[offMSIXTable:], m.Table|uint32(m.BAR))
	le.PutUint32(b[offMSIXPBA:], m.Pending|uint32(m.BAR))
}

// check judges whether table and pending bits lie in the BAR and beside each other.
func (m *MSIX) check(bars *[NumBARs]BAR) error {
	if m.Vectors < 0 || m.Vectors > msixVectorMax || m.BAR < 0 || m.BAR >= NumBARs {
		return fmt.Errorf("%d MSI-X vectors in BAR %d", m.Vectors, m.BAR)
	}
	size := bars[m.BAR].Size
	table, pending := uint64(m.Table), uint64(m.Pending)
	tableEnd, pendingEnd := table+16*uint64(m.Vectors), pending+8*uint64((m.Vectors+63)/64)
	overlap := table < pendingEnd && pending < tableEnd
	if m.Table&msixBAR != 0 || m.Pending&msixBAR != 0 || tableEnd > size || pendingEnd > size || overlap {
		return fmt.Errorf("MSI-X table at %#x and pending bits at %#x of BAR %d, %d bytes", table, pending, m.BAR, size)
	}
	return nil
}
