package trace

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// pick is the name of a value, or the value.
func pick[T ~uint8 | ~uint16 | ~uint32 | ~uint64](names []string, v T) string {
	if uint64(v) < uint64(len(names)) && names[v] != "" {
		return names[v]
	}
	return strconv.FormatUint(uint64(v), 10)
}

func state(v uint64) string {
	if v > uint64(verbs.StateErr) {
		return strconv.FormatUint(v, 10)
	}
	return verbs.QPState(v).String()
}

var (
	qpTypes      = []string{uapi.QPTypeRC: "RC", uapi.QPTypeUC: "UC", uapi.QPTypeUD: "UD"}
	mtus         = []string{1: "256", "512", "1024", "2048", "4096"}
	linkLayers   = []string{uapi.LinkLayerInfiniBand: "InfiniBand", uapi.LinkLayerEthernet: "Ethernet"}
	gidTypes     = []string{"IB", "RoCEv1", "RoCEv2"}
	pageTypes    = []string{"BF", "NC"}
	completions  = []string{"REQ", "RESP_WR_IMM", "RESP_SEND", "RESP_SEND_IMM", "RESP_SEND_INV", "RESIZE_CQ", 13: "REQ_ERR", "RESP_ERR", "INVALID"}
	controlFlags = []flag{
		{uint64(prm.CQEUpdate), "SIGNALED"}, {uint64(prm.Solicited), "SOLICITED"}, {uint64(prm.Fence), "FENCE"}, {uint64(prm.SmallFence), "SMALL_FENCE"},
	}
	accessFlags = []flag{
		{uapi.AccessLocalWrite, "LOCAL_WRITE"}, {uapi.AccessRemoteWrite, "REMOTE_WRITE"}, {uapi.AccessRemoteRead, "REMOTE_READ"},
		{uapi.AccessRemoteAtomic, "REMOTE_ATOMIC"}, {uapi.AccessMWBind, "MW_BIND"}, {uapi.AccessZeroBased, "ZERO_BASED"},
		{uapi.AccessOnDemand, "ON_DEMAND"}, {uapi.AccessHugeTLB, "HUGETLB"}, {uapi.AccessRelaxedOrdering, "RELAXED_ORDERING"},
	}
)

// events are the IBV_EVENT_* names (verbs.h).
var events = []string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR", "DEVICE_FATAL",
	"PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED",
	"CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL",
}

// flag is a bit with a name.
type flag struct {
	bit  uint64
	name string
}

// flags are the names of the bits of v, joined by "|"; other bits in hex.
func flags(list []flag, v uint64) string {
	var s []string
	for _, f := range list {
		if v&f.bit != 0 {
			s = append(s, f.name)
			v &^= f.bit
		}
	}
	if v != 0 || s == nil {
		s = append(s, fmt.Sprintf("%#x", v))
	}
	return strings.Join(s, "|")
}

// opcode is the name of a send queue's operation, in one word.
func opcode(o prm.Opcode) string { return strings.ReplaceAll(strings.ToUpper(o.String()), " ", "_") }

var errnos = map[syscall.Errno]string{
	syscall.EPERM: "EPERM", syscall.ENOENT: "ENOENT", syscall.EIO: "EIO", syscall.EBADF: "EBADF", syscall.ENOMEM: "ENOMEM",
	syscall.EFAULT: "EFAULT", syscall.EBUSY: "EBUSY", syscall.EINVAL: "EINVAL", syscall.EMFILE: "EMFILE", syscall.ENOSPC: "ENOSPC",
	syscall.ENODATA: "ENODATA", syscall.EPROTONOSUPPORT: "EPROTONOSUPPORT", syscall.EOPNOTSUPP: "EOPNOTSUPP",
	syscall.ENETUNREACH: "ENETUNREACH", syscall.EHOSTUNREACH: "EHOSTUNREACH",
}

func errno(e syscall.Errno) string {
	if s := errnos[e]; s != "" {
		return s
	}
	return "errno_" + strconv.FormatUint(uint64(e), 10)
}

// be32 is the number in the first 4 of b's bytes; ok is false if there are fewer.
func be32(b []byte) (v uint32, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}
