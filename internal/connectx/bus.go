package connectx

import (
	"fmt"
	"syscall"

	"github.com/farwire/farwire/internal/pciconfig"
	"github.com/farwire/farwire/rdma/softnic"
)

// bus is the guest's memory as the device reaches it: for as long as the driver lets
// it be a master of the bus.
type bus struct {
	config *pciconfig.Space
	memory softnic.Memory
}

var _ softnic.Memory = (*bus)(nil)

func (b *bus) refuse() error {
	if b.config.MayMaster() {
		return nil
	}
	return fmt.Errorf("the device is no master of the bus: %w", syscall.EFAULT)
}

func (b *bus) Read(addr uint64, p []byte) error {
	if err := b.refuse(); err != nil {
		return err
	}
	return b.memory.Read(addr, p)
}

func (b *bus) Write(addr uint64, p []byte) error {
	if err := b.refuse(); err != nil {
		return err
	}
	return b.memory.Write(addr, p)
}

func (b *bus) Load32(addr uint64) (uint32, bool) {
	if !b.config.MayMaster() {
		return 0, false
	}
	return b.memory.Load32(addr)
}

func (b *bus) Store32(addr uint64, v uint32) bool {
	return b.config.MayMaster() && b.memory.Store32(addr, v)
}

func (b *bus) CompareSwap64(addr, compare, swap uint64) (uint64, bool) {
	if !b.config.MayMaster() {
		return 0, false
	}
	return b.memory.CompareSwap64(addr, compare, swap)
}

func (b *bus) Add64(addr, n uint64) (uint64, bool) {
	if !b.config.MayMaster() {
		return 0, false
	}
	return b.memory.Add64(addr, n)
}

func (b *bus) Pin(addr, n uint64, write bool) bool {
	return b.config.MayMaster() && b.memory.Pin(addr, n, write)
}
