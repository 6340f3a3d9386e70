package vfiouser

import (
	"fmt"
)

// Regions of a PCI device (linux/vfio.h, VFIO_PCI_*_REGION_INDEX).
const (
	BAR0        = 0
	BAR2        = 2
	BAR4        = 4
	ROM         = 6
	ConfigSpace = 7
	VGA         = 8
	NumRegions  = 9
)

// Interrupts of a PCI device (linux/vfio.h, VFIO_PCI_*_IRQ_INDEX).
const (
	irqMSIX = 2
	numIRQs = 5
)

// Config is what a device has.
type Config struct {
	// Regions are the sizes of the regions, in bytes; 0 for one that it has not.
	// The configuration space must have its 256 or 4096.
	Regions [NumRegions]uint64

	// Vectors is the number of MSI-X vectors, up to MaxVectors.
	Vectors int
}

// MaxVectors is the largest number of vectors of an MSI-X capability.
const MaxVectors = 2048

func (c *Config) check() error {
	switch size := c.Regions[ConfigSpace]; {
	case size != 256 && size != 4096:
		return fmt.Errorf("configuration space of %d bytes", size)
	case c.Vectors < 0 || c.Vectors > MaxVectors:
		return fmt.Errorf("%d interrupt vectors", c.Vectors)
	}
	return nil
}

// Device is what the server calls. All calls come from the goroutine of
// [Server.Serve], one after the other, and the client waits for most of them.
type Device interface {
	// Read and Write access [offset, offset+len(p)) of a region, which lies inside
	// it. Read fills p, which is zero. p is not kept.
	Read(region int, offset uint64, p []byte)
	Write(region int, offset uint64, p []byte)

	// Reset returns the device to the state after power-on. The guest's memory
	// and the interrupts stay as they are.
	Reset()
}
