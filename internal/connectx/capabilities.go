package connectx

import (
	"math/bits"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func infiniBand(n *softnic.NIC) bool { return n.LinkLayer() == verbs.LinkInfiniBand }

// Sizes of what is queried.
const (
	capabilitySize = 4096 // of which the structures use the beginning
	adapterSize    = 272
)

// Limits of the command interface beside the NIC's.
const (
	logMaxEQSize     = 16
	logMaxEQ         = 5
	logMaxRegion     = 40
	logMaxMessage    = 30
	logMaxKLM        = 16
	logBlueFlame     = 9
	logUARs          = 4 // 16 MiB of doorbell pages
	maxSendEntry     = 1024
	maxReceiveEntry  = 512
	ackDelay         = 16
	frequencyKHz     = 1000000 // the timers count nanoseconds
	reservedKey      = 0x100   // ends a receive's list of segments
	nullKey          = 0x200
	atomicCompare    = 1 << 0
	atomicAdd        = 1 << 1
	atomicSize8      = 1 << 3 // a bit for each size, as its logarithm
	portTypeIB       = 0
	portTypeEthernet = 1
)

// general are the general capabilities. What is not set the device does not have;
// in particular memory regions are made by commands and not by work queue entries.
func (d *Device) general() []byte {
	c, b, l := &ifc.Capabilities, make([]byte, capabilitySize), d.function.Limits()
	log := func(n int) uint64 { return uint64(bits.Len(uint(n)) - 1) }
	c.LogMaxQPSize.Put(b, log(l.QPEntries))
	c.LogMaxSRQSize.Put(b, log(l.QPEntries))
	c.LogMaxQP.Put(b, log(l.QPs))
	c.LogMaxSRQ.Put(b, log(l.SRQs))
	c.LogMaxCQSize.Put(b, log(l.CQEntries))
	c.LogMaxCQ.Put(b, log(l.CQs))
	c.LogMaxEQSize.Put(b, logMaxEQSize)
	c.LogMaxEQ.Put(b, logMaxEQ)
	c.MaxEQs.Put(b, 1<<logMaxEQ)
	c.LogMaxMKey.Put(b, log(l.MRs))
	c.LogMaxPD.Put(b, log(l.PDs))
	c.LogMaxRegion.Put(b, logMaxRegion)
	c.LogMaxKLMList.Put(b, logMaxKLM)
	c.LogMaxMessage.Put(b, logMaxMessage)
	c.LogMaxSendReads.Put(b, log(l.ReadAtomics))
	c.LogMaxReceiveReads.Put(b, log(l.ReadAtomics))
	c.LogMaxXRCD.Put(b, uint64(classXRCD.logMax()))
	c.LogMaxTransportDomain.Put(b, uint64(classDomain.logMax()))
	c.FixedBufferSize.Put(b, 1)
	c.MaxSendEntry.Put(b, maxSendEntry)
	c.MaxReceiveEntry.Put(b, maxReceiveEntry)
	c.AckDelay.Put(b, ackDelay)
	c.Ports.Put(b, 1)
	c.LogPage.Put(b, 12)
	c.LogBlueFlame.Put(b, logBlueFlame)
	c.UARSize.Put(b, logUARs)
	c.UARsPerPage.Put(b, 1)
	c.CQEVersion.Put(b, 1)
	c.FrequencyKHz.Put(b, frequencyKHz)
	c.FrequencyMHz.Put(b, frequencyKHz/1000)
	for _, yes := range []ifc.Field{c.RC, c.UC, c.UD, c.XRC, c.Atomic, c.PKeyViolations, c.QKeyViolations, c.DriverVersion,
		c.Moderation, c.NoUMREntitySize, c.NoUMRAtomic, c.NoUMRIndirect} {
		yes.Put(b, 1)
	}
	// The sizes of the GID and P_Key tables are encoded: 0 is 8 GIDs and 128 keys.
	c.PortType.Put(b, portTypeEthernet)
	if infiniBand(d.nic) {
		c.PortType.Put(b, portTypeIB)
		c.VirtualPorts.Put(b, 1)
		return b
	}
	putEthernet(b)
	return b
}

// atomics are the capabilities of atomics: 8 bytes, in the host's order if the driver
// says so.
func (d *Device) atomics() []byte {
	c, b := &ifc.AtomicCapabilities, make([]byte, capabilitySize)
	c.EndiannessModes.Put(b, 1)
	c.Operations.Put(b, atomicCompare|atomicAdd)
	c.SizesQP.Put(b, atomicSize8)
	return b
}

// capabilities are those of each type, as they are before the driver sets any.
var capabilities = map[uint16]func(*Device) []byte{
	ifc.CapGeneral: (*Device).general, ifc.CapAtomic: (*Device).atomics,
	ifc.CapEthernet: ethernetCapabilities, ifc.CapRoCE: roceCapabilities, ifc.CapFlow: flowCapabilities,
}

func (d *Device) queryCapabilities(r *request) error {
	kind, current := r.modifier()>>1, r.modifier()&1 != 0
	known, ok := capabilities[kind]
	if !ok || kind != ifc.CapGeneral && kind != ifc.CapAtomic && infiniBand(d.nic) {
		return refuse(ifc.BadParameter, "capabilities of type %d", kind)
	}
	b := d.caps[kind]
	if !current || b == nil {
		b = known(d)
	}
	copy(r.out[ifc.Capability:], b)
	return nil
}

// setCapabilities keeps what the driver chose. Of atomics that is the order of bytes
// and no more: the rest of the structure is zero.
func (d *Device) setCapabilities(r *request) error {
	kind := r.modifier() >> 1
	b := r.in[ifc.Capability:][:capabilitySize]
	switch kind {
	case ifc.CapGeneral:
		d.caps[ifc.CapGeneral] = append([]byte(nil), b...)
	case ifc.CapAtomic:
		set := d.atomics()
		mode := ifc.AtomicCapabilities.EndiannessMode
		mode.Put(set, mode.Get(b))
		d.caps[ifc.CapAtomic] = set
	default:
		return refuse(ifc.BadParameter, "capabilities of type %d", kind)
	}
	return nil
}

// Fields of small commands, in bytes (query_issi_out, set_issi_in, manage_pages_in,
// query_adapter_out, query_special_contexts_out).
const (
	offSupportedISSI = 108
	offISSI          = 10
	offPageCount     = 12
	offVendorID      = 40 // 24 bits behind one byte
	offBoardID       = 256
	offReservedKey   = 12
	offNullKey       = 16
)

// boardID names the kind of board, in 16 bytes.
const boardID = "FARWIRE000000001"

// issi is the version of the interface of steering that the device has.
const issi = 1

func (d *Device) queryISSI(r *request) error {
	be.PutUint32(r.out[offSupportedISSI:], 1<<issi)
	return nil
}

func (d *Device) setISSI(r *request) error {
	if v := be.Uint16(r.in[offISSI:]); v != issi {
		return refuse(ifc.BadParameter, "ISSI %d", v)
	}
	return nil
}

// managePages takes the driver's answer to QUERY_PAGES: none were asked for.
func (d *Device) managePages(r *request) error {
	if n := be.Uint32(r.in[offPageCount:]); n != 0 {
		return refuse(ifc.BadParameter, "%d pages that were not asked for", n)
	}
	return nil
}

func (d *Device) setDriverVersion(r *request) error { return nil }

func (d *Device) queryAdapter(r *request) error {
	be.PutUint32(r.out[offVendorID:], vendorOUI)
	copy(r.out[offBoardID:adapterSize], boardID)
	return nil
}

func (d *Device) querySpecialContexts(r *request) error {
	be.PutUint32(r.out[offReservedKey:], reservedKey)
	be.PutUint32(r.out[offNullKey:], nullKey)
	return nil
}
