package ifc

// QueuePair is the context of a queue pair (qpc).
var QueuePair = struct {
	State, Service, PD, MTU, LogMessage, LogReceives, LogStride, NoSend, LogSends, UAR        Field
	UserIndex, LogPage, RemoteQPN, LogSendReads, Retries, RNRRetries, SendPSN, SendCQ         Field
	SourceQPN, LogReceiveReads, AtomicMode, RemoteRead, RemoteWrite, RemoteAtomic, PageOffset Field
	RNRTimer, ReceivePSN, XRCD, ReceiveCQ, Record, QKey, ReceiveType, SRQN, RequestScatter    Field
	ResponseScatter                                                                           Field
}{
	State:           qpc.bits("state", 0x00, 31, 28),
	Service:         qpc.bits("st", 0x00, 23, 16),
	PD:              qpc.bits("pd", 0x04, 23, 0),
	MTU:             qpc.bits("mtu", 0x08, 31, 29),
	LogMessage:      qpc.bits("log_msg_max", 0x08, 28, 24),
	LogReceives:     qpc.bits("log_rq_size", 0x08, 22, 19),
	LogStride:       qpc.bits("log_rq_stride", 0x08, 18, 16),
	NoSend:          qpc.bits("no_sq", 0x08, 15, 15),
	LogSends:        qpc.bits("log_sq_size", 0x08, 14, 11),
	UAR:             qpc.bits("uar_page", 0x0c, 23, 0),
	UserIndex:       qpc.bits("user_index", 0x10, 23, 0),
	LogPage:         qpc.bits("log_page_size", 0x14, 28, 24),
	RemoteQPN:       qpc.bits("remote_qpn", 0x14, 23, 0),
	LogSendReads:    qpc.bits("log_sra_max", 0x70, 23, 21),
	Retries:         qpc.bits("retry_count", 0x70, 18, 16),
	RNRRetries:      qpc.bits("rnr_retry", 0x70, 15, 13),
	SendPSN:         qpc.bits("next_send_psn", 0x78, 23, 0),
	SendCQ:          qpc.bits("cqn_snd", 0x7c, 23, 0),
	SourceQPN:       qpc.bits("deth_sqpn", 0x80, 23, 0),
	LogReceiveReads: qpc.bits("log_rra_max", 0x90, 23, 21),
	AtomicMode:      qpc.bits("atomic_mode", 0x90, 19, 16),
	RemoteRead:      qpc.bits("rre", 0x90, 15, 15),
	RemoteWrite:     qpc.bits("rwe", 0x90, 14, 14),
	RemoteAtomic:    qpc.bits("rae", 0x90, 13, 13),
	PageOffset:      qpc.bits("page_offset", 0x90, 11, 6),
	RNRTimer:        qpc.bits("min_rnr_nak", 0x94, 28, 24),
	ReceivePSN:      qpc.bits("next_rcv_psn", 0x94, 23, 0),
	XRCD:            qpc.bits("xrcd", 0x98, 23, 0),
	ReceiveCQ:       qpc.bits("cqn_rcv", 0x9c, 23, 0),
	Record:          qpc.wide("dbr_addr", 0xa0),
	QKey:            qpc.bits("q_key", 0xa8, 31, 0),
	ReceiveType:     qpc.bits("rq_type", 0xac, 26, 24),
	SRQN:            qpc.bits("srqn_rmpn_xrqn", 0xac, 23, 0),
	RequestScatter:  qpc.bits("cs_req", 0xc4, 15, 8),
	ResponseScatter: qpc.bits("cs_res", 0xc4, 7, 0),
}

var qpc = layout("qpc", 0xe8)

// AddressPath is the way to a peer (ads).
var AddressPath = struct {
	PKeyIndex, Global, PathBits, LID, AckTimeout, SourceIndex, Rate, HopLimit, TrafficClass Field
	FlowLabel, DSCP, SourcePort, ServiceLevel, Port, MACHigh, MACLow                        Field
}{
	PKeyIndex:    ads.bits("pkey_index", 0x00, 15, 0),
	Global:       ads.bits("grh", 0x04, 23, 23),
	PathBits:     ads.bits("mlid", 0x04, 22, 16),
	LID:          ads.bits("rlid", 0x04, 15, 0),
	AckTimeout:   ads.bits("ack_timeout", 0x08, 31, 27),
	SourceIndex:  ads.bits("src_addr_index", 0x08, 23, 16),
	Rate:         ads.bits("stat_rate", 0x08, 11, 8),
	HopLimit:     ads.bits("hop_limit", 0x08, 7, 0),
	TrafficClass: ads.bits("tclass", 0x0c, 27, 20),
	FlowLabel:    ads.bits("flow_label", 0x0c, 19, 0),
	DSCP:         ads.bits("dscp", 0x20, 21, 16),
	SourcePort:   ads.bits("udp_sport", 0x20, 15, 0),
	ServiceLevel: ads.bits("sl", 0x24, 27, 24),
	Port:         ads.bits("vhca_port_num", 0x24, 23, 16),
	MACHigh:      ads.bits("rmac_47_32", 0x24, 15, 0),
	MACLow:       ads.bits("rmac_31_0", 0x28, 31, 0),
}

var ads = layout("ads", 0x2c)
