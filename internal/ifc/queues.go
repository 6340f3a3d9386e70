package ifc

// EventQueue is the context of an event queue (eqc).
var EventQueue = struct {
	Overrun, State, PageOffset, LogSize, UAR, Vector, LogPage, Consumer, Producer Field
}{
	Overrun:    eqc.bits("oi", 0x00, 17, 17),
	State:      eqc.bits("st", 0x00, 11, 8),
	PageOffset: eqc.bits("page_offset", 0x08, 11, 6),
	LogSize:    eqc.bits("log_eq_size", 0x0c, 28, 24),
	UAR:        eqc.bits("uar_page", 0x0c, 23, 0),
	Vector:     eqc.bits("intr", 0x14, 11, 0),
	LogPage:    eqc.bits("log_page_size", 0x18, 28, 24),
	Consumer:   eqc.bits("consumer_counter", 0x28, 23, 0),
	Producer:   eqc.bits("producer_counter", 0x2c, 23, 0),
}

var eqc = layout("eqc", 0x40)

// CompletionQueue is the context of a completion queue (cqc).
var CompletionQueue = struct {
	Status, EntrySize, Collapsed, IgnoreOverrun, Compress, State, PageOffset, LogSize, UAR Field
	Period, MaxCount, EventQueue, LogPage, Consumer, Producer, Record, PeriodMode          Field
}{
	Status:        cqc.bits("status", 0x00, 31, 28),
	EntrySize:     cqc.bits("cqe_sz", 0x00, 23, 21),
	Collapsed:     cqc.bits("cc", 0x00, 20, 20),
	IgnoreOverrun: cqc.bits("oi", 0x00, 17, 17),
	PeriodMode:    cqc.bits("cq_period_mode", 0x00, 16, 15),
	Compress:      cqc.bits("cqe_comp_en", 0x00, 14, 14),
	State:         cqc.bits("st", 0x00, 11, 8),
	PageOffset:    cqc.bits("page_offset", 0x08, 11, 6),
	LogSize:       cqc.bits("log_cq_size", 0x0c, 28, 24),
	UAR:           cqc.bits("uar_page", 0x0c, 23, 0),
	Period:        cqc.bits("cq_period", 0x10, 27, 16),
	MaxCount:      cqc.bits("cq_max_count", 0x10, 15, 0),
	EventQueue:    cqc.bits("c_eqn_or_apu_element", 0x14, 31, 0),
	LogPage:       cqc.bits("log_page_size", 0x18, 28, 24),
	Consumer:      cqc.bits("consumer_counter", 0x28, 23, 0),
	Producer:      cqc.bits("producer_counter", 0x2c, 23, 0),
	Record:        cqc.wide("dbr_addr", 0x38),
}

var cqc = layout("cqc", 0x40)

// ModifiedCQ says what of a completion queue a command modifies, a bit for each
// (modify_cq_in): of its context if the command's modifier is 0.
var ModifiedCQ = struct{ Select Field }{Select: modifyCQ.bits("modify_field_select_resize_field_select", 0x0c, 31, 0)}

var modifyCQ = layout("modify_cq_in", 0x110)

// WorkQueue is a queue of a receive memory pool, a send or a receive queue (wq).
var WorkQueue = struct {
	Type, PageOffset, LimitWatermark, PD, UAR, Record, LogStride, LogPage, LogSize Field
}{
	Type:           wq.bits("wq_type", 0x00, 31, 28),
	PageOffset:     wq.bits("page_offset", 0x04, 20, 16),
	LimitWatermark: wq.bits("lwm", 0x04, 15, 0),
	PD:             wq.bits("pd", 0x08, 23, 0),
	UAR:            wq.bits("uar_page", 0x0c, 23, 0),
	Record:         wq.wide("dbr_addr", 0x10),
	LogStride:      wq.bits("log_wq_stride", 0x20, 19, 16),
	LogPage:        wq.bits("log_wq_pg_sz", 0x20, 12, 8),
	LogSize:        wq.bits("log_wq_sz", 0x20, 4, 0),
}

var wq = layout("wq", 0xc0)

// ReceivePool is the context of a receive memory pool, before its work queue (rmpc).
var ReceivePool = struct{ State Field }{State: rmpc.bits("state", 0x00, 23, 20)}

var rmpc = layout("rmpc", 0xf0)

// ModifiedPool says what of a receive memory pool a command modifies (modify_rmp_in).
var ModifiedPool = struct{ Limit Field }{Limit: modifyRMP.bits("bitmask.lwm", 0x14, 0, 0)}

var modifyRMP = layout("modify_rmp_in", 0x110)

// SharedReceive is the context of a shared receive queue of XRC (xrc_srqc).
var SharedReceive = struct {
	LogSize, LogStride, XRCD, PageOffset, CQ, LogPage, UserIndex, PD, LimitWatermark Field
	RecordHigh, RecordLow                                                            Field
}{
	LogSize:        xsrqc.bits("log_xrc_srq_size", 0x00, 27, 24),
	LogStride:      xsrqc.bits("log_rq_stride", 0x04, 26, 24),
	XRCD:           xsrqc.bits("xrcd", 0x04, 23, 0),
	PageOffset:     xsrqc.bits("page_offset", 0x08, 31, 26),
	CQ:             xsrqc.bits("cqn", 0x08, 23, 0),
	LogPage:        xsrqc.bits("log_page_size", 0x10, 29, 24),
	UserIndex:      xsrqc.bits("user_index", 0x10, 23, 0),
	PD:             xsrqc.bits("pd", 0x18, 23, 0),
	LimitWatermark: xsrqc.bits("lwm", 0x1c, 31, 16),
	RecordHigh:     xsrqc.bits("db_record_addr_h", 0x28, 31, 0),
	RecordLow:      xsrqc.bits("db_record_addr_l", 0x2c, 31, 2),
}

var xsrqc = layout("xrc_srqc", 0x40)
