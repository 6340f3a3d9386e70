package ifc

// Capabilities are the general ones (cmd_hca_cap).
var Capabilities = struct {
	LogMaxSRQSize, LogMaxQPSize, LogMaxQP, LogMaxSRQ, LogMaxCQSize, LogMaxCQ, LogMaxEQSize Field
	LogMaxMKey, LogMaxEQ, MaxEQs, LogMaxRegion, FixedBufferSize, LogMaxKLMList             Field
	LogMaxSendReads, LogMaxReceiveReads, GIDTableSize, PKeyTableSize, AckDelay, Ports      Field
	PortType, VirtualPorts, LogMaxMessage, CQEVersion, RC, UC, UD, XRC, LogPage, BlueFlame Field
	LogBlueFlame, UARSize, UARsPerPage, LogMaxPD, LogMaxXRCD, LogMaxTransportDomain        Field
	NoUMREntitySize, NoUMRAtomic, NoUMRIndirect, MaxSendEntry, MaxReceiveEntry, Atomic     Field
	ResizeCQ, PKeyViolations, QKeyViolations, DriverVersion, FrequencyKHz, FrequencyMHz    Field
	RoCE, Ethernet, FlowTables, LogMaxRQ, LogMaxSQ, LogMaxTIR, LogMaxTIS, LogMaxRQT        Field
	LogMaxRQTSize, LogMaxTISPerSQ, CyclicReceive, LogMaxWQSize, LogMaxRQStride             Field
	LogMinRQStride, LogMaxSQStride, LogMinSQStride, LogMaxUnicast, LogMaxMulticast         Field
	LogMaxVLANs, LogMaxL2Table, Moderation                                                 Field
}{
	LogMaxSRQSize:         caps.bits("log_max_srq_sz", 0x10, 31, 24),
	LogMaxQPSize:          caps.bits("log_max_qp_sz", 0x10, 23, 16),
	LogMaxQP:              caps.bits("log_max_qp", 0x10, 4, 0),
	LogMaxSRQ:             caps.bits("log_max_srq", 0x14, 20, 16),
	LogMaxCQSize:          caps.bits("log_max_cq_sz", 0x18, 23, 16),
	LogMaxCQ:              caps.bits("log_max_cq", 0x18, 4, 0),
	LogMaxEQSize:          caps.bits("log_max_eq_sz", 0x1c, 31, 24),
	LogMaxMKey:            caps.bits("log_max_mkey", 0x1c, 21, 16),
	LogMaxEQ:              caps.bits("log_max_eq", 0x1c, 3, 0),
	MaxEQs:                caps.bits("max_num_eqs", 0x8c, 15, 0),
	LogMaxRegion:          caps.bits("log_max_mrw_sz", 0x20, 22, 16),
	FixedBufferSize:       caps.bits("fixed_buffer_size", 0x20, 23, 23),
	LogMaxKLMList:         caps.bits("log_max_klm_list_size", 0x20, 5, 0),
	LogMaxSendReads:       caps.bits("log_max_ra_req_qp", 0x28, 21, 16),
	LogMaxReceiveReads:    caps.bits("log_max_ra_res_qp", 0x28, 5, 0),
	GIDTableSize:          caps.bits("gid_table_size", 0x2c, 15, 0),
	PKeyTableSize:         caps.bits("pkey_table_size", 0x30, 15, 0),
	AckDelay:              caps.bits("local_ca_ack_delay", 0x34, 20, 16),
	Ports:                 caps.bits("num_ports", 0x34, 7, 0),
	PortType:              caps.bits("port_type", 0x34, 9, 8),
	VirtualPorts:          caps.bits("ib_virt", 0x34, 29, 29),
	LogMaxMessage:         caps.bits("log_max_msg", 0x38, 28, 24),
	CQEVersion:            caps.bits("cqe_version", 0x3c, 3, 0),
	RC:                    caps.bits("rc", 0x44, 0, 0),
	UC:                    caps.bits("uc", 0x44, 1, 1),
	UD:                    caps.bits("ud", 0x44, 2, 2),
	XRC:                   caps.bits("xrc", 0x44, 3, 3),
	LogPage:               caps.bits("log_pg_sz", 0x48, 7, 0),
	BlueFlame:             caps.bits("bf", 0x4c, 31, 31),
	LogBlueFlame:          caps.bits("log_bf_reg_size", 0x4c, 20, 16),
	UARSize:               caps.bits("uar_sz", 0x48, 21, 16),
	UARsPerPage:           caps.bits("num_of_uars_per_page", 0xa4, 31, 0),
	LogMaxPD:              caps.bits("log_max_pd", 0x64, 20, 16),
	LogMaxXRCD:            caps.bits("log_max_xrcd", 0x64, 4, 0),
	LogMaxTransportDomain: caps.bits("log_max_transport_domain", 0x64, 28, 24),
	NoUMREntitySize:       caps.bits("umr_modify_entity_size_disabled", 0x40, 24, 24),
	NoUMRAtomic:           caps.bits("umr_modify_atomic_disabled", 0x40, 23, 23),
	NoUMRIndirect:         caps.bits("umr_indirect_mkey_disabled", 0x40, 22, 22),
	MaxSendEntry:          caps.bits("max_wqe_sz_sq", 0x50, 15, 0),
	MaxReceiveEntry:       caps.bits("max_wqe_sz_rq", 0x54, 15, 0),
	Atomic:                caps.bits("atomic", 0x40, 1, 1),
	ResizeCQ:              caps.bits("cq_resize", 0x44, 30, 30),
	Moderation:            caps.bits("cq_moderation", 0x44, 29, 29),
	PKeyViolations:        caps.bits("pkv", 0x44, 8, 8),
	QKeyViolations:        caps.bits("qkv", 0x44, 9, 9),
	DriverVersion:         caps.bits("driver_version", 0x4c, 30, 30),
	FrequencyKHz:          caps.bits("device_frequency_khz", 0x9c, 31, 0),
	FrequencyMHz:          caps.bits("device_frequency_mhz", 0x98, 31, 0),
	RoCE:                  caps.bits("roce", 0x40, 2, 2),
	Ethernet:              caps.bits("eth_net_offloads", 0x40, 3, 3),
	FlowTables:            caps.bits("nic_flow_table", 0x34, 25, 25),
	LogMaxRQ:              caps.bits("log_max_rq", 0x6c, 28, 24),
	LogMaxSQ:              caps.bits("log_max_sq", 0x6c, 20, 16),
	LogMaxTIR:             caps.bits("log_max_tir", 0x6c, 12, 8),
	LogMaxTIS:             caps.bits("log_max_tis", 0x6c, 4, 0),
	LogMaxRQT:             caps.bits("log_max_rqt", 0x70, 20, 16),
	LogMaxRQTSize:         caps.bits("log_max_rqt_size", 0x70, 12, 8),
	LogMaxTISPerSQ:        caps.bits("log_max_tis_per_sq", 0x70, 4, 0),
	CyclicReceive:         caps.bits("basic_cyclic_rcv_wqe", 0x70, 31, 31),
	LogMaxWQSize:          caps.bits("log_max_wq_sz", 0x78, 4, 0),
	LogMaxRQStride:        caps.bits("log_max_stride_sz_rq", 0x74, 28, 24),
	LogMinRQStride:        caps.bits("log_min_stride_sz_rq", 0x74, 20, 16),
	LogMaxSQStride:        caps.bits("log_max_stride_sz_sq", 0x74, 12, 8),
	LogMinSQStride:        caps.bits("log_min_stride_sz_sq", 0x74, 4, 0),
	LogMaxUnicast:         caps.bits("log_max_current_uc_list", 0x7c, 4, 0),
	LogMaxMulticast:       caps.bits("log_max_current_mc_list", 0x7c, 12, 8),
	LogMaxVLANs:           caps.bits("log_max_vlan_list", 0x7c, 20, 16),
	LogMaxL2Table:         caps.bits("log_max_l2_table", 0x90, 28, 24),
}

var caps = layout("cmd_hca_cap", 0x100)

// AtomicCapabilities are those of atomics (atomic_caps).
var AtomicCapabilities = struct {
	EndiannessModes, EndiannessMode, Operations, SizesQP Field
}{
	EndiannessModes: atomicCaps.bits("supported_atomic_req_8B_endianness_mode_1", 0x08, 25, 25),
	EndiannessMode:  atomicCaps.bits("atomic_req_8B_endianness_mode", 0x08, 31, 30),
	Operations:      atomicCaps.bits("atomic_operations", 0x10, 15, 0),
	SizesQP:         atomicCaps.bits("atomic_size_qp", 0x14, 15, 0),
}

var atomicCaps = layout("atomic_caps", 0x100)
