package ifc

// EthernetCapabilities are those of an Ethernet port (per_protocol_networking_offload_caps).
var EthernetCapabilities = struct {
	Checksums, VLANs, MaxSegmentation, LoopbackModifiable, InlineMode, LogIndirection Field
}{
	Checksums:          netCaps.bits("csum_cap", 0x00, 31, 31),
	VLANs:              netCaps.bits("vlan_cap", 0x00, 30, 30),
	MaxSegmentation:    netCaps.bits("max_lso_cap", 0x00, 20, 16),
	LoopbackModifiable: netCaps.bits("self_lb_en_modifiable", 0x00, 23, 23),
	InlineMode:         netCaps.bits("wqe_inline_mode", 0x00, 13, 12),
	LogIndirection:     netCaps.bits("rss_ind_tbl_cap", 0x00, 11, 8),
}

var netCaps = layout("per_protocol_networking_offload_caps", 0x100)

// RoCECapabilities are those of RoCE (roce_cap).
var RoCECapabilities = struct {
	Layers, Versions, Port, LastSourcePort, FirstSourcePort, TableSize Field
}{
	Layers:          roceCaps.bits("l3_type", 0x10, 19, 16),
	Versions:        roceCaps.bits("roce_version", 0x10, 7, 0),
	Port:            roceCaps.bits("r_roce_dest_udp_port", 0x14, 15, 0),
	LastSourcePort:  roceCaps.bits("r_roce_max_src_udp_port", 0x18, 31, 16),
	FirstSourcePort: roceCaps.bits("r_roce_min_src_udp_port", 0x18, 15, 0),
	TableSize:       roceCaps.bits("roce_address_table_size", 0x1c, 15, 0),
}

var roceCaps = layout("roce_cap", 0x100)

// FlowTables are the capabilities of flow tables of a direction (flow_table_prop_layout).
var FlowTables = struct {
	Supported, ModifyFlows, ModifyRoot, MissTable, ModifyTables, LogSize, Levels, LogTables, LogDestinations, LogFlows Field
}{
	Supported:       flowCaps.bits("ft_support", 0x00, 31, 31),
	ModifyFlows:     flowCaps.bits("flow_modify_en", 0x00, 28, 28),
	ModifyRoot:      flowCaps.bits("modify_root", 0x00, 27, 27),
	MissTable:       flowCaps.bits("identified_miss_table_mode", 0x00, 26, 26),
	ModifyTables:    flowCaps.bits("flow_table_modify", 0x00, 25, 25),
	LogSize:         flowCaps.bits("log_max_ft_size", 0x04, 29, 24),
	Levels:          flowCaps.bits("max_ft_level", 0x04, 7, 0),
	LogTables:       flowCaps.bits("log_max_ft_num", 0x0c, 7, 0),
	LogDestinations: flowCaps.bits("log_max_destination", 0x10, 7, 0),
	LogFlows:        flowCaps.bits("log_max_flow", 0x14, 7, 0),
}

var flowCaps = layout("flow_table_prop_layout", 0x40)

// FlowFields are what flows can match in a packet's outer headers
// (flow_table_fields_supported).
var FlowFields = struct {
	DestinationMAC, SourceMAC, EtherType, IPVersion, FirstPriority, FirstVLAN, SourceIP, DestinationIP, Fragment Field
	Protocol, Congestion, DSCP, UDPSource, UDPDestination, TCPSource, TCPDestination                             Field
}{
	DestinationMAC: flowFields.bits("outer_dmac", 0x00, 31, 31),
	SourceMAC:      flowFields.bits("outer_smac", 0x00, 30, 30),
	EtherType:      flowFields.bits("outer_ether_type", 0x00, 29, 29),
	IPVersion:      flowFields.bits("outer_ip_version", 0x00, 28, 28),
	FirstPriority:  flowFields.bits("outer_first_prio", 0x00, 27, 27),
	FirstVLAN:      flowFields.bits("outer_first_vid", 0x00, 25, 25),
	SourceIP:       flowFields.bits("outer_sip", 0x00, 19, 19),
	DestinationIP:  flowFields.bits("outer_dip", 0x00, 18, 18),
	Fragment:       flowFields.bits("outer_frag", 0x00, 17, 17),
	Protocol:       flowFields.bits("outer_ip_protocol", 0x00, 16, 16),
	Congestion:     flowFields.bits("outer_ip_ecn", 0x00, 15, 15),
	DSCP:           flowFields.bits("outer_ip_dscp", 0x00, 14, 14),
	UDPSource:      flowFields.bits("outer_udp_sport", 0x00, 13, 13),
	UDPDestination: flowFields.bits("outer_udp_dport", 0x00, 12, 12),
	TCPSource:      flowFields.bits("outer_tcp_sport", 0x00, 11, 11),
	TCPDestination: flowFields.bits("outer_tcp_dport", 0x00, 10, 10),
}

var flowFields = layout("flow_table_fields_supported", 0x10)

// EthernetPort is the Ethernet port as a function sees it (nic_vport_context).
var EthernetPort = struct {
	RoCE, MTU, SystemGUID, PortGUID, NodeGUID, Promiscuous, ListSize, PermanentAddress Field
}{
	RoCE:             nicVport.bits("roce_en", 0x00, 0, 0),
	MTU:              nicVport.bits("mtu", 0x24, 15, 0),
	SystemGUID:       nicVport.wide("system_image_guid", 0x28),
	PortGUID:         nicVport.wide("port_guid", 0x30),
	NodeGUID:         nicVport.wide("node_guid", 0x38),
	Promiscuous:      nicVport.bits("promisc_uc", 0xf0, 31, 31),
	ListSize:         nicVport.bits("allowed_list_size", 0xf0, 11, 0),
	PermanentAddress: nicVport.wide("permanent_address", 0xf4), // its low 48 bits are the MAC
}

var nicVport = layout("nic_vport_context", 0x100)

// EthernetPortChange says which of an EthernetPort is to change
// (modify_nic_vport_field_select).
var EthernetPortChange = struct{ RoCE, PermanentAddress, MTU Field }{
	RoCE:             nicVportSelect.bits("roce_en", 0x00, 1, 1),
	PermanentAddress: nicVportSelect.bits("permanent_address", 0x00, 3, 3),
	MTU:              nicVportSelect.bits("mtu", 0x00, 6, 6),
}

var nicVportSelect = layout("modify_nic_vport_field_select", 0x04)

// PortState is whether the port is up (query_vport_state_out).
var PortState = struct{ Admin, State Field }{
	Admin: vportState.bits("admin_state", 0x0c, 7, 4),
	State: vportState.bits("state", 0x0c, 3, 0),
}

var vportState = layout("query_vport_state_out", 0x10)

// RoCEAddress is a slot of the GID table and what goes there (set_roce_address_in,
// roce_addr_layout).
var RoCEAddress = struct{ Slot, VLAN, Layer, Version Field }{
	Slot:    setRoCE.bits("roce_address_index", 0x08, 31, 16),
	VLAN:    setRoCE.bits("roce_address.vlan_valid", 0x20, 28, 28),
	Layer:   setRoCE.bits("roce_address.roce_l3_type", 0x28, 11, 8),
	Version: setRoCE.bits("roce_address.roce_version", 0x28, 7, 0),
}

var setRoCE = layout("set_roce_address_in", 0x30)

// SendQueue is the context of a send queue (sqc).
var SendQueue = struct{ State, UserIndex, CQ Field }{
	State:     sqc.bits("state", 0x00, 23, 20),
	UserIndex: sqc.bits("user_index", 0x04, 23, 0),
	CQ:        sqc.bits("cqn", 0x08, 23, 0),
}

var sqc = layout("sqc", 0xf0)

// LinkStatus is the register of a port's status (paos_reg). Admin is what the port is told to
// be, if ChangeAdmin is set.
var LinkStatus = struct{ Admin, Operational, ChangeAdmin Field }{
	Admin:       paos.bits("admin_status", 0x00, 11, 8),
	Operational: paos.bits("oper_status", 0x00, 3, 0),
	ChangeAdmin: paos.bits("ase", 0x04, 31, 31),
}

var paos = layout("paos_reg", 0x10)

// FlowObject is the number of the flow table or flow group that a command destroys
// (destroy_flow_group_in, which is longer than destroy_flow_table_in by the group).
var FlowObject = struct{ Table, Group Field }{
	Table: flowObject.bits("table_id", 0x14, 23, 0),
	Group: flowObject.bits("group_id", 0x18, 31, 0),
}

var flowObject = layout("destroy_flow_group_in", 0x40)

// Where these structures begin in commands and answers, in bytes
// (query_nic_vport_context_out, modify_nic_vport_context_in, set_roce_address_in,
// create_sq_in, create_sq_in.ctx.wq, flow_table_nic_cap).
const (
	EthernetPorts       = 0x10
	EthernetPortSelect  = 0x0c
	EthernetPortChanged = 0x100
	EthernetPortSize    = 0x100
	RoCEAddressGID      = 0x10 // 16 bytes
	SendQueueContext    = 0x20
	SendQueueQueue      = 0x50 // its WorkQueue
	ReceiveFlowTables   = 0x40 // in the capabilities
	FlowTableFields     = 0x20 // in FlowTables
)
