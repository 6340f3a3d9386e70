package trace

import (
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// show writes what a part of a command says, of whatever length it is.
type show func(l *line, c *Command, b []byte)

// structure shows a structure of the kernel: its fields by their names there, but
// those that are 0, reserved, or mean nothing in an ioctl.
func structure[T any]() show {
	size := uapi.Size[T]()
	return func(l *line, c *Command, b []byte) {
		var v T
		copy(uapi.Bytes(&v), b)
		f := fields{line: l, command: c}
		if m, ok := any(v).(uapi.ModifyQP); ok {
			f.masked, f.mask = true, m.AttrMask
		}
		if m, ok := any(v).(uapi.ExModifyQP); ok {
			f.masked, f.mask = true, m.Base.AttrMask
		}
		f.walk(reflect.ValueOf(v))
		if len(b) > size && !zero(b[size:]) {
			l.bytes("beyond", b[size:])
		}
	}
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// driver is show for the driver's part of a command, in braces.
func driver(s show) show {
	return func(l *line, c *Command, b []byte) { l.group("mlx5", func() { s(l, c, b) }) }
}

// fields writes a structure's fields. Those of a MODIFY_QP are written if its mask
// names them, whatever they are.
type fields struct {
	line    *line
	command *Command
	masked  bool
	mask    uint32
}

var maskBits = map[string]uint32{
	"QPState": uapi.QPAttrState, "CurQPState": uapi.QPAttrCurState, "EnSqdAsyncNotify": uapi.QPAttrEnSQDNotify,
	"QPAccessFlags": uapi.QPAttrAccessFlags, "PkeyIndex": uapi.QPAttrPkeyIndex, "PortNum": uapi.QPAttrPort,
	"Qkey": uapi.QPAttrQkey, "Dest": uapi.QPAttrAV, "PathMTU": uapi.QPAttrPathMTU, "Timeout": uapi.QPAttrTimeout,
	"RetryCnt": uapi.QPAttrRetryCnt, "RnrRetry": uapi.QPAttrRnrRetry, "RqPsn": uapi.QPAttrRqPsn,
	"MaxRdAtomic": uapi.QPAttrMaxRdAtomic, "AltDest": uapi.QPAttrAltPath, "AltPkeyIndex": uapi.QPAttrAltPath,
	"AltPortNum": uapi.QPAttrAltPath, "AltTimeout": uapi.QPAttrAltPath, "MinRnrTimer": uapi.QPAttrMinRnrTimer,
	"SqPsn": uapi.QPAttrSqPsn, "MaxDestRdAtomic": uapi.QPAttrMaxDestRdAtomic, "PathMigState": uapi.QPAttrPathMigState,
	"DestQPNum": uapi.QPAttrDestQpn, "RateLimit": uapi.QPAttrRateLimit,
}

// walk writes the fields of v: first what the structure is about.
func (f *fields) walk(v reflect.Value) {
	list := reflect.VisibleFields(v.Type())
	slices.SortStableFunc(list, func(a, b reflect.StructField) int { return rank(a.Name) - rank(b.Name) })
	for _, s := range list {
		name := s.Name
		field := v.FieldByIndex(s.Index)
		switch {
		case name == "_", strings.HasPrefix(name, "Reserved"), name == "Response", name == "ResponseLength":
			continue
		case name == "SRQHandle" && hasNo(v, "IsSRQ"), name == "RwqIndTblHandle" && field.IsZero():
			continue
		}
		bit, named := maskBits[name]
		named = named && f.masked
		if named && f.mask&bit == 0 {
			continue
		}
		f.field(name, field, named)
	}
}

// rank is where a field comes: handles of objects, then the state, then the others.
func rank(name string) int {
	switch {
	case isHandle(snake(name)):
		return 0
	case name == "QPState":
		return 1
	}
	return 2
}

// hasNo reports whether a structure has a field that is 0.
func hasNo(v reflect.Value, name string) bool {
	f := v.FieldByName(name)
	return f.IsValid() && f.IsZero()
}

func (f *fields) field(name string, v reflect.Value, always bool) {
	n := snake(name)
	switch v.Kind() {
	case reflect.Struct:
		inner := fields{line: f.line, command: f.command}
		if path := paths[name]; path != "" {
			if always || !v.IsZero() {
				f.line.group(path, func() { inner.walk(v) })
			}
			return
		}
		inner.masked, inner.mask = f.masked, f.mask
		inner.walk(v)
	case reflect.Array:
		if !v.IsZero() {
			f.array(n, v)
		}
	default:
		if always || !v.IsZero() || isHandle(n) || name == "SgidIndex" {
			f.value(n, v)
		}
	}
}

// paths are the structures that are groups, by their names in libibverbs.
var paths = map[string]string{"Dest": "ah_attr", "AltDest": "alt_ah_attr", "Attr": "attr", "Grh": "grh"}

func (f *fields) array(name string, v reflect.Value) {
	b := make([]byte, v.Len())
	for i := range b {
		b[i] = uint8(v.Index(i).Uint())
	}
	switch len(b) {
	case len(verbs.GID{}):
		f.line.text(name, verbs.GID(b).String())
	case 6:
		f.line.text(name, net.HardwareAddr(b).String())
	default:
		f.line.bytes(name, b)
	}
}

func (f *fields) value(name string, v reflect.Value) {
	if v.CanInt() {
		f.line.name(name)
		*f.line = strconv.AppendInt(*f.line, v.Int(), 10)
		return
	}
	if name == "qp_state" && f.masked {
		f.line.text(name, f.command.stateBefore()+state(v.Uint()))
		return
	}
	f.line.value(f.command, name, v.Uint())
}

// stateBefore is the state that a MODIFY_QP leads from, and an arrow.
func (c *Command) stateBefore() string {
	for _, o := range c.Objects {
		if o.Kind == uapi.ObjectQP {
			return state(uint64(o.State)) + "->"
		}
	}
	return ""
}

// value writes a number as its name asks for it. A handle is followed by the number of
// its object.
func (l *line) value(c *Command, name string, v uint64) {
	switch format := formats[name]; {
	case format != nil:
		l.text(name, format(v))
	case isHex(name):
		l.hex(name, v)
	default:
		l.dec(name, v)
	}
	if !isHandle(name) {
		return
	}
	kind, numbered := handleKind(name)
	for _, o := range c.Objects {
		if uint64(o.Handle) == v && o.Kind == kind && !o.New && numbered != "" {
			l.hex(numbered, uint64(o.Number))
			return
		}
	}
}

func isHandle(name string) bool {
	return strings.HasSuffix(name, "_handle") && name != "user_handle"
}

// handleKind is the kind of object that a field names, and what its number is called.
func handleKind(name string) (kind uint16, number string) {
	base := strings.TrimSuffix(name, "_handle")
	switch base[strings.LastIndex(base, "_")+1:] {
	case "pd":
		return uapi.ObjectPD, base + "n"
	case "cq":
		return uapi.ObjectCQ, base + "n"
	case "qp":
		return uapi.ObjectQP, base + "n"
	case "srq":
		return uapi.ObjectSRQ, base + "n"
	case "mr":
		return uapi.ObjectMR, "key"
	case "uar":
		return prm.ObjectUAR, "page_id"
	}
	return 0, ""
}

var formats = map[string]func(uint64) string{
	"qp_state":        state,
	"cur_qp_state":    state,
	"qp_type":         func(v uint64) string { return pick(qpTypes, v) },
	"path_mtu":        func(v uint64) string { return pick(mtus, v) },
	"max_mtu":         func(v uint64) string { return pick(mtus, v) },
	"active_mtu":      func(v uint64) string { return pick(mtus, v) },
	"link_layer":      func(v uint64) string { return pick(linkLayers, v) },
	"gid_type":        func(v uint64) string { return pick(gidTypes, v) },
	"alloc_type":      func(v uint64) string { return pick(pageTypes, v) },
	"access_flags":    func(v uint64) string { return flags(accessFlags, v) },
	"qp_access_flags": func(v uint64) string { return flags(accessFlags, v) },
}

// hexEnds are how names of numbers end that are written in hex: addresses, keys,
// numbers of objects, masks.
var hexEnds = []string{
	"addr", "start", "va", "user_handle", "key", "psn", "qpn", "cqn", "srqn", "pdn", "dest_qp_num", "flags", "mask", "caps", "cap",
	"uidx", "offset", "_id", "fw_ver", "bfreg_index", "page_index", "flags_ex",
}

func isHex(name string) bool {
	for _, end := range hexEnds {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// renamed are the kernel's names of fields that are not those of this project in
// small letters (rdma/mlx5-abi.h, rdma/ib_user_verbs.h).
var renamed = map[string]string{
	"RecordAddr": "db_addr", "EntrySize": "cqe_size", "Compress": "cqe_comp_en", "CompressionFormat": "cqe_comp_res_format",
	"UARPage": "uar_page_index", "SendBlocks": "sq_wqe_count", "Receives": "rq_wqe_count", "ReceiveShift": "rq_wqe_shift",
	"UserIndex": "uidx", "Register": "bfreg_index", "SendBufAddr": "sq_buf_addr", "TIRAddr": "tir_icm_addr",
	"LogStreams": "log_num_concurent", "LogErrStreams": "log_num_errored",
	"TotalRegisters": "total_num_bfregs", "LowLatencyRegisters": "num_low_latency_bfregs",
	"QPTableSize": "qp_tab_size", "BlueFlameSize": "bf_reg_size", "MaxSendEntry": "max_sq_desc_sz", "MaxReceiveEntry": "max_rq_desc_sz",
	"MaxSendBlocks": "max_send_wqebb", "MaxReceives": "max_recv_wr", "MaxSharedReceives": "max_srq_recv_wr", "Ports": "num_ports",
	"CommandsWithUHW": "cmds_supp_uhw", "CoreClockOffset": "hca_core_clock_offset", "LogUARSize": "log_uar_size",
	"UARsPerPage": "num_uars_per_page", "DynamicRegisters": "num_dyn_bfregs", "DumpFillKey": "dump_fill_mkey",
	"MaxQPWR": "max_qp_wr", "MaxSRQWR": "max_srq_wr", "MaxSRQSGE": "max_srq_sge", "Dgid": "dgid",
}

// snake is the kernel's name of a field.
func snake(name string) string {
	if s := renamed[name]; s != "" {
		return s
	}
	var b strings.Builder
	r := []rune(name)
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
