// Command calls links every function of the package, for its test to disassemble.
package main

import "github.com/farwire/farwire/internal/mmio"

var (
	record   uint32
	register uint64
	block    [8]uint64
)

func main() {
	mmio.ToDevice()
	mmio.FromDevice()
	mmio.Record(&record, 1)
	mmio.Release(&record, 1)
	mmio.Ring(&record, 2, &register, 3)
	mmio.BlueFlame(&record, 4, &block, &block, 1)
}
