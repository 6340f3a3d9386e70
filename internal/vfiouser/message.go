package vfiouser

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrProtocol is what the connection ends with when the client breaks the protocol.
var ErrProtocol = errors.New("vfio-user protocol violated")

// Commands (vfio-user.rst, "Commands").
const (
	cmdVersion     = 1
	cmdDMAMap      = 2
	cmdDMAUnmap    = 3
	cmdGetInfo     = 4
	cmdRegionInfo  = 5
	cmdIRQInfo     = 7
	cmdSetIRQs     = 8
	cmdRegionRead  = 9
	cmdRegionWrite = 10
	cmdReset       = 13
)

// The header (vfio-user.rst, "Header"): identifier, command, message size with the
// header, flags, errno; little endian on all hosts that have this protocol.
const (
	headerSize   = 16
	flagTypeMask = 0xf
	flagReply    = 1
	flagNoReply  = 1 << 4
	flagError    = 1 << 5
)

// header is the head of a message.
type header struct {
	id, command uint16
	size        uint32 // of the whole message
	flags       uint32
	errno       uint32
}

var le = binary.LittleEndian

// parseHeader judges the head of a command.
func parseHeader(b []byte) (header, error) {
	h := header{le.Uint16(b), le.Uint16(b[2:]), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
	switch {
	case h.size < headerSize || h.size > maxMessage:
		return h, fmt.Errorf("%w: message of %d bytes", ErrProtocol, h.size)
	case h.flags&flagTypeMask != 0:
		return h, fmt.Errorf("%w: message of type %d where a command belongs", ErrProtocol, h.flags&flagTypeMask)
	}
	return h, nil
}

func (h header) append(b []byte) []byte {
	b = le.AppendUint16(b, h.id)
	b = le.AppendUint16(b, h.command)
	b = le.AppendUint32(b, h.size)
	b = le.AppendUint32(b, h.flags)
	return le.AppendUint32(b, h.errno)
}

// What the server can take, and says so in its capabilities. A message holds the
// largest access and what goes in front of it.
const (
	maxTransfer    = 1 << 20
	maxMessage     = maxTransfer + 64
	maxDescriptors = 16
	maxMappings    = 1 << 12
	maxMapped      = 4 << 40 // bytes of address space that the guest's memory takes
)

// Sizes of what follows the header, before data of variable length.
const (
	versionSize    = 4
	dmaMapSize     = 32
	dmaUnmapSize   = 24
	deviceInfoSize = 16
	regionInfoSize = 32
	irqInfoSize    = 16
	setIRQsSize    = 20
	accessSize     = 16
)

// dmaMap is the body of DMA_MAP: the client shares memory with the device.
type dmaMap struct {
	flags                 uint32
	offset, address, size uint64
}

// Flags of dmaMap.
const (
	dmaRead  = 1 << 0
	dmaWrite = 1 << 1
)

func parseDMAMap(b []byte) dmaMap {
	return dmaMap{le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])}
}

// dmaUnmap is the body of DMA_UNMAP.
type dmaUnmap struct {
	flags         uint32
	address, size uint64
}

// unmapAll is the flag of dmaUnmap that takes all memory back.
const unmapAll = 1 << 1

func parseDMAUnmap(b []byte) dmaUnmap {
	return dmaUnmap{le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint64(b[16:])}
}

// Flags of the answer to DEVICE_GET_INFO.
const (
	deviceReset = 1 << 0
	devicePCI   = 1 << 1
)

// Flags of the answer to DEVICE_GET_REGION_INFO.
const (
	regionRead  = 1 << 0
	regionWrite = 1 << 1
)

// Flags of the answer to DEVICE_GET_IRQ_INFO.
const (
	irqEventfd  = 1 << 0
	irqNoResize = 1 << 3
)

// setIRQs is the body of DEVICE_SET_IRQS, before its data.
type setIRQs struct{ flags, index, start, count uint32 }

// Flags of setIRQs: one kind of data, one action.
const (
	irqDataNone      = 1 << 0
	irqDataBool      = 1 << 1
	irqDataEventfd   = 1 << 2
	irqDataMask      = irqDataNone | irqDataBool | irqDataEventfd
	irqActionTrigger = 1 << 5
	irqActionMask    = 1<<3 | 1<<4 | 1<<5
)

func parseSetIRQs(b []byte) setIRQs {
	return setIRQs{le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])}
}

// access is the head of REGION_READ and REGION_WRITE.
type access struct {
	offset        uint64
	region, count uint32
}

func parseAccess(b []byte) access {
	return access{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])}
}
