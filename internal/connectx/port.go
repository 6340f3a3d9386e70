package connectx

import (
	"github.com/farwire/farwire/internal/ifc"
)

// States of an InfiniBand port (IBTA volume 1, PortInfo).
const (
	stateDown        = 1
	stateActive      = 4
	physicalPolling  = 2
	physicalDisabled = 3
	physicalLinkUp   = 5
	capCM            = 1 << 16 // communication management is supported
	widthFour        = 2       // lanes, a bit for each width
	widthOneFour     = 3
	speedEDR         = 1 << 5
	speedsToEDR      = 1<<6 - 1
	mtuBytes         = 4096
	virtualLanes     = 4 // encoded: VL0 to VL7
	defaultPKey      = 0xffff
	offGIDCount      = 12 // query_hca_vport_gid_out.gids_num
	offTableIndex    = 14 // query_hca_vport_gid_in.gid_index, query_hca_vport_pkey_in.pkey_index
	offTable         = 16
	gidSize          = 16
	pkeySize         = 4 // in a table, behind two zero bytes
	offRegister      = 10
	registerWrite    = 0
	registerRead     = 1
	wholeTable       = 0xffff
)

// portState is the state of the port, and of its link.
func (d *Device) portState() (state, physical byte) {
	switch {
	case d.portDown:
		return stateDown, physicalDisabled
	case !d.nic.PortUp():
		return stateDown, physicalPolling
	}
	return stateActive, physicalLinkUp
}

func (d *Device) queryVirtualPort(r *request) error {
	c, b := &ifc.VirtualPort, r.out[ifc.VirtualPorts:]
	g := d.function.GUID()
	guid := be.Uint64(g[:])
	state, physical := d.portState()
	c.State.Put(b, uint64(state))
	c.PhysicalState.Put(b, uint64(physical))
	c.PortGUID.Put(b, guid)
	c.NodeGUID.Put(b, guid)
	c.SystemGUID.Put(b, guid)
	c.LID.Put(b, uint64(d.nic.LID()))
	c.SubnetLID.Put(b, uint64(d.nic.LID())) // there is no subnet manager
	c.CapMask.Put(b, capCM)
	c.HasSMI.Put(b, 1) // the function is asked itself, by management datagrams
	return nil
}

// queryGID reads the GID table, of which the port uses the first entries.
func (d *Device) queryGID(r *request) error {
	table := d.nic.GIDs()
	first, n := int(be.Uint16(r.in[offTableIndex:])), 1
	if first == wholeTable {
		first, n = 0, (len(r.out)-offTable)/gidSize
	}
	if len(r.out) < offTable+n*gidSize {
		return refuse(ifc.BadOutputSize, "output of %d bytes for %d GIDs", len(r.out), n)
	}
	be.PutUint16(r.out[offGIDCount:], uint16(n))
	for i := range n {
		if first+i < len(table) {
			copy(r.out[offTable+i*gidSize:], table[first+i].GID[:])
		}
	}
	return nil
}

// queryPKey reads the table of partition keys: the default one, and none.
func (d *Device) queryPKey(r *request) error {
	first := be.Uint16(r.in[offTableIndex:])
	if len(r.out) < offTable+pkeySize {
		return refuse(ifc.BadOutputSize, "output of %d bytes for a P_Key", len(r.out))
	}
	if first == 0 || first == wholeTable {
		be.PutUint16(r.out[offTable+pkeySize-2:], defaultPKey)
	}
	return nil
}

// registers are what ACCESS_REG reaches: their size, what fills in what is read, and what
// takes what is written; nil for those that keep nothing.
var registers = map[uint16]struct {
	size  int
	read  func(d *Device, b []byte)
	write func(d *Device, b []byte) error
}{
	ifc.RegisterPMTU: {size: 16, read: func(d *Device, b []byte) {
		c, mtu := &ifc.PortMTU, uint64(mtuBytes)
		if !infiniBand(d.nic) {
			mtu = maxFrame
		}
		c.Max.Put(b, mtu)
		c.Admin.Put(b, mtu)
		c.Operational.Put(b, mtu)
	}},
	ifc.RegisterPTYS: {size: 64, read: func(d *Device, b []byte) {
		c := &ifc.LinkType
		if !infiniBand(d.nic) {
			c.EthernetCapability.Put(b, ethernet100G)
			c.EthernetAdmin.Put(b, ethernet100G)
			c.EthernetOperational.Put(b, ethernet100G)
			return
		}
		c.WidthCapability.Put(b, widthOneFour)
		c.WidthOperational.Put(b, widthFour)
		c.ProtocolCapability.Put(b, speedsToEDR)
		c.ProtocolOperational.Put(b, speedEDR)
	}},
	ifc.RegisterPAOS:           {16, (*Device).readLinkStatus, (*Device).writeLinkStatus},
	ifc.RegisterPPCNT:          {size: 256, read: func(*Device, []byte) {}}, // nothing is counted: no frames are carried
	ifc.RegisterPVLC:           {size: 16, read: func(_ *Device, b []byte) { ifc.VirtualLanes.Capability.Put(b, virtualLanes) }},
	ifc.RegisterNodeDescriptor: {size: 64, read: func(d *Device, b []byte) { copy(b[:64], d.nic.Name()) }},
	ifc.RegisterHostEndianness: {size: 16, read: func(*Device, []byte) {}},
}

// accessRegister reads a register or writes one.
func (d *Device) accessRegister(r *request) error {
	id := be.Uint16(r.in[offRegister:])
	reg, ok := registers[id]
	switch {
	case !ok:
		return refuse(ifc.BadParameter, "register %#x", id)
	case len(r.in) < ifc.RegisterData+reg.size:
		return refuse(ifc.BadInputLength, "input of %d bytes for register %#x", len(r.in), id)
	case len(r.out) < ifc.RegisterData+reg.size:
		return refuse(ifc.BadOutputSize, "output of %d bytes for register %#x", len(r.out), id)
	}
	data := r.out[ifc.RegisterData:]
	copy(data[:reg.size], r.in[ifc.RegisterData:])
	switch r.modifier() {
	case registerWrite:
		if reg.write != nil {
			return reg.write(d, data)
		}
	case registerRead:
		reg.read(d, data)
	default:
		return refuse(ifc.BadParameter, "register access %d", r.modifier())
	}
	return nil
}

func (d *Device) readLinkStatus(b []byte) {
	c := &ifc.LinkStatus
	c.Admin.Put(b, paosUp)
	if d.portDown {
		c.Admin.Put(b, paosDown)
	}
	c.Operational.Put(b, paosDown)
	if d.nic.PortUp() {
		c.Operational.Put(b, paosUp)
	}
}

// writeLinkStatus takes the port down, or up again: the driver does so with its interface.
func (d *Device) writeLinkStatus(b []byte) error {
	c := &ifc.LinkStatus
	if !c.ChangeAdmin.Bool(b) {
		return nil
	}
	switch admin := c.Admin.Get(b); admin {
	case paosUp, paosDown:
		d.setPort(admin == paosUp)
		return nil
	default:
		return refuse(ifc.BadParameter, "port status %d", admin)
	}
}

// setPort is what the driver wants of the port. It brings up only what it took down: the
// NIC's owner may have done so too. d.mu is held.
func (d *Device) setPort(up bool) {
	if d.portDown == up {
		d.portDown = !up
		d.nic.SetPort(up)
	}
}
