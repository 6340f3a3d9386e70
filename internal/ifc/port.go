package ifc

// VirtualPort is the InfiniBand port as a function sees it (hca_vport_context).
var VirtualPort = struct {
	HasSMI, PhysicalState, State, PortGUID, NodeGUID, CapMask, SystemGUID, LID, SubnetTimeout Field
	SubnetLID                                                                                 Field
}{
	HasSMI:        vport.bits("has_smi", 0x20, 30, 30),
	PhysicalState: vport.bits("port_physical_state", 0x20, 15, 12),
	State:         vport.bits("vport_state", 0x20, 3, 0),
	PortGUID:      vport.wide("port_guid", 0x30),
	NodeGUID:      vport.wide("node_guid", 0x38),
	CapMask:       vport.bits("cap_mask1", 0x40, 31, 0),
	SystemGUID:    vport.wide("system_image_guid", 0x28),
	LID:           vport.bits("lid", 0x60, 31, 16),
	SubnetTimeout: vport.bits("subnet_timeout", 0x60, 4, 0),
	SubnetLID:     vport.bits("sm_lid", 0x64, 31, 16),
}

var vport = layout("hca_vport_context", 0x200)

// LinkType is the register of a port's speed (ptys_reg).
var LinkType = struct {
	WidthCapability, ProtocolCapability, WidthOperational, ProtocolOperational Field
	EthernetCapability, EthernetAdmin, EthernetOperational                     Field
}{
	WidthCapability:     ptys.bits("ib_link_width_capability", 0x10, 31, 16),
	ProtocolCapability:  ptys.bits("ib_proto_capability", 0x10, 15, 0),
	WidthOperational:    ptys.bits("ib_link_width_oper", 0x28, 31, 16),
	ProtocolOperational: ptys.bits("ib_proto_oper", 0x28, 15, 0),
	EthernetCapability:  ptys.bits("eth_proto_capability", 0x0c, 31, 0),
	EthernetAdmin:       ptys.bits("eth_proto_admin", 0x18, 31, 0),
	EthernetOperational: ptys.bits("eth_proto_oper", 0x24, 31, 0),
}

var ptys = layout("ptys_reg", 0x40)

// PortMTU is the register of a port's MTU (pmtu_reg).
var PortMTU = struct {
	Max, Admin, Operational Field
}{
	Max:         pmtu.bits("max_mtu", 0x04, 31, 16),
	Admin:       pmtu.bits("admin_mtu", 0x08, 31, 16),
	Operational: pmtu.bits("oper_mtu", 0x0c, 31, 16),
}

var pmtu = layout("pmtu_reg", 0x10)

// VirtualLanes is the register of a port's virtual lanes (pvlc_reg).
var VirtualLanes = struct {
	Capability Field
}{
	Capability: pvlc.bits("vl_hw_cap", 0x04, 3, 0),
}

var pvlc = layout("pvlc_reg", 0x10)
