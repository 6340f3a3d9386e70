package ifc

// MemoryKey is the context of a memory key (mkc).
var MemoryKey = struct {
	Free, ModeHigh, UMR, Atomic, RemoteWrite, RemoteRead, LocalWrite, LocalRead, Mode, QPN Field
	Variant, Length64, PD, Start, Length, Octwords, LogPage                                Field
}{
	Free:        mkc.bits("free", 0x00, 30, 30),
	ModeHigh:    mkc.bits("access_mode_4_2", 0x00, 28, 26),
	UMR:         mkc.bits("umr_en", 0x00, 15, 15),
	Atomic:      mkc.bits("a", 0x00, 14, 14),
	RemoteWrite: mkc.bits("rw", 0x00, 13, 13),
	RemoteRead:  mkc.bits("rr", 0x00, 12, 12),
	LocalWrite:  mkc.bits("lw", 0x00, 11, 11),
	LocalRead:   mkc.bits("lr", 0x00, 10, 10),
	Mode:        mkc.bits("access_mode_1_0", 0x00, 9, 8),
	QPN:         mkc.bits("qpn", 0x04, 31, 8),
	Variant:     mkc.bits("mkey_7_0", 0x04, 7, 0),
	Length64:    mkc.bits("length64", 0x0c, 31, 31),
	PD:          mkc.bits("pd", 0x0c, 23, 0),
	Start:       mkc.wide("start_addr", 0x10),
	Length:      mkc.wide("len", 0x18),
	Octwords:    mkc.bits("translations_octword_size", 0x34, 31, 0),
	LogPage:     mkc.bits("log_page_size", 0x38, 4, 0),
}

var mkc = layout("mkc", 0x40)
