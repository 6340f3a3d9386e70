// Package pciconfig is the configuration space of a PCI Express endpoint: its header,
// base address registers that can be sized, and the capabilities for PCI Express and
// MSI-X (PCI Express Base Specification, chapter 7; linux/pci_regs.h has the offsets).
//
// A [Space] is bytes with a mask of those bits that software may change. It does
// nothing by itself: whoever maps the regions and raises the interrupts does that.
package pciconfig
