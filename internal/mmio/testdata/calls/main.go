// Command calls links every function of the package, for its test to disassemble.
package main

import (
	"unsafe"

	"github.com/farwire/farwire/internal/mmio"
)

var (
	record   uint32
	register [8]uint64
	entry    [8]uint64
)

func main() {
	mmio.ToDevice()
	mmio.FromDevice()
	mmio.Record(&record, 1)
	mmio.Release(&record, 1)
	mmio.Ring(&record, 2, &register[0], 3)
	mmio.BeginBlueFlame(&record, 4)
	mmio.Copy64(unsafe.Pointer(&register), unsafe.Pointer(&entry))
	mmio.Flush()
}
