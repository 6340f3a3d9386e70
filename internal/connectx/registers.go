package connectx

import (
	"encoding/binary"
	"time"
)

var be = binary.BigEndian

// The initialization segment (Linux include/linux/mlx5/device.h, struct
// mlx5_init_seg): registers of 32 bits, big endian.
const (
	regFirmware       = 0x00 // minor and major
	regInterface      = 0x04 // revision of the command interface, and subminor
	regQueueHigh      = 0x10
	regQueueLow       = 0x14 // with the number and size of slots
	regDoorbell       = 0x18 // a bit for each slot
	regHealthFirmware = 0x230
	regHealthSeverity = 0x238 // in the first byte
	regHealthSyndrome = 0x23c // in the second byte
	regTimerHigh      = 0x1000
	regTimerLow       = 0x1004
	regHealthCounter  = 0x1010
	regRealTimeHigh   = 0x1040
	regRealTimeLow    = 0x1044
	registersEnd      = 0x3000 // doorbell pages from here on
)

// What the device says of itself there.
const (
	firmwareMajor     = 16
	firmwareMinor     = 35
	interfaceRevision = 5
	interfaceSubminor = 4000
	logSlots          = 5
	logSlotSize       = 6
	healthFirmware    = 0x10230000 // version, packed
	healthPeriod      = 100 * time.Millisecond
)

// What the device says of its health once the NIC has failed: that this is for good,
// and why (Linux include/linux/mlx5/device.h, struct health_buffer and
// MLX5_RFR_BIT_OFFSET; mlx5_ifc.h, MLX5_INITIAL_SEG_HEALTH_SYNDROME_HW_FATAL_ERR). The
// driver looks every other second, and takes the device out of use then.
const (
	healthFatal         = 1 << 31
	healthHardwareError = 0x08 << 16
)

// readRegisters reads registers, or parts of some.
func (d *Device) readRegisters(offset uint64, p []byte) {
	for len(p) > 0 && offset < registersEnd {
		var b [4]byte
		be.PutUint32(b[:], d.register(offset&^3))
		n := copy(p, b[offset&3:])
		p, offset = p[n:], offset+uint64(n)
	}
}

// register is the value of one. The two halves of a number of 64 bits are read one
// after the other; the driver reads the high one again.
func (d *Device) register(offset uint64) uint32 {
	switch offset {
	case regFirmware:
		return firmwareMinor<<16 | firmwareMajor
	case regInterface:
		return interfaceRevision<<16 | interfaceSubminor
	case regQueueHigh:
		return uint32(d.commandQueue() >> 32)
	case regQueueLow:
		return uint32(d.commandQueue()) | logSlots<<4 | logSlotSize
	case regHealthFirmware:
		return healthFirmware
	case regHealthSeverity:
		return d.ifFailed(healthFatal)
	case regHealthSyndrome:
		return d.ifFailed(healthHardwareError)
	case regTimerHigh:
		return uint32(uint64(time.Since(d.epoch)) >> 32)
	case regTimerLow:
		return uint32(time.Since(d.epoch))
	case regHealthCounter:
		return uint32(time.Since(d.epoch) / healthPeriod)
	case regRealTimeHigh:
		return uint32(time.Now().Unix())
	case regRealTimeLow:
		return uint32(time.Now().Nanosecond())
	}
	return 0
}

func (d *Device) ifFailed(v uint32) uint32 {
	if d.failed.Load() {
		return v
	}
	return 0
}

func (d *Device) commandQueue() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queue
}

func (d *Device) writeRegister(offset uint64, p []byte) {
	if len(p) != 4 {
		return
	}
	v := be.Uint32(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch offset {
	case regQueueHigh:
		d.queue = uint64(v)<<32 | d.queue&(1<<32-1)
	case regQueueLow:
		d.queue = d.queue>>32<<32 | uint64(v&^(pageSize-1))
	case regDoorbell:
		for slot := range 1 << logSlots {
			if v>>slot&1 != 0 {
				d.command(slot)
			}
		}
	}
}
