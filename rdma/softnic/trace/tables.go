package trace

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// invoke is what a command of INVOKE_WRITE consists of. A part without a show is
// shown as bytes.
type invoke struct{ in, out, driverIn, driverOut show }

var invokes = map[uint32]invoke{
	uapi.CmdGetContext: {structure[uapi.GetContext](), structure[uapi.GetContextResp](), contextIn, contextOut},
	uapi.CmdQueryDevice: {structure[uapi.QueryDevice](), structure[uapi.QueryDeviceResp](), nil,
		driver(structure[prm.QueryDeviceResponse]())},
	uapi.CmdExQueryDevice: {structure[uapi.ExQueryDevice](), structure[uapi.ExQueryDeviceResp](), nil,
		driver(structure[prm.QueryDeviceResponse]())},
	uapi.CmdQueryPort:         {structure[uapi.QueryPort](), structure[uapi.QueryPortResp](), nil, nil},
	uapi.CmdAllocPD:           {structure[uapi.AllocPD](), structure[uapi.AllocPDResp](), nil, driver(structure[prm.AllocPDResponse]())},
	uapi.CmdDeallocPD:         {structure[uapi.DeallocPD](), nil, nil, nil},
	uapi.CmdCreateAH:          {structure[uapi.CreateAH](), structure[uapi.CreateAHResp](), nil, driver(structure[prm.CreateAHResponse]())},
	uapi.CmdDestroyAH:         {structure[uapi.DestroyAH](), nil, nil, nil},
	uapi.CmdRegMR:             {structure[uapi.RegMR](), structure[uapi.RegMRResp](), nil, nil},
	uapi.CmdReregMR:           {structure[uapi.ReregMR](), structure[uapi.ReregMRResp](), nil, nil},
	uapi.CmdDeregMR:           {structure[uapi.DeregMR](), nil, nil, nil},
	uapi.CmdCreateCompChannel: {structure[uapi.CreateCompChannel](), structure[uapi.CreateCompChannelResp](), nil, nil},
	uapi.CmdCreateCQ:          {structure[uapi.CreateCQ](), structure[uapi.CreateCQResp](), queueIn, queueOut},
	uapi.CmdExCreateCQ:        {structure[uapi.ExCreateCQ](), structure[uapi.ExCreateCQResp](), queueIn, queueOut},
	uapi.CmdResizeCQ:          {structure[uapi.ResizeCQ](), structure[uapi.ResizeCQResp](), driver(structure[prm.ResizeCQRequest]()), nil},
	uapi.CmdExModifyCQ:        {structure[uapi.ExModifyCQ](), nil, nil, nil},
	uapi.CmdReqNotifyCQ:       {structure[uapi.ReqNotifyCQ](), nil, nil, nil},
	uapi.CmdDestroyCQ:         {structure[uapi.DestroyCQ](), structure[uapi.DestroyCQResp](), nil, nil},
	uapi.CmdCreateQP:          {structure[uapi.CreateQP](), structure[uapi.CreateQPResp](), pairIn, pairOut},
	uapi.CmdExCreateQP:        {structure[uapi.ExCreateQP](), structure[uapi.ExCreateQPResp](), pairIn, pairOut},
	uapi.CmdModifyQP:          {structure[uapi.ModifyQP](), nil, modifyIn, modifyOut},
	uapi.CmdExModifyQP:        {structure[uapi.ExModifyQP](), structure[uapi.ExModifyQPResp](), modifyIn, modifyOut},
	uapi.CmdQueryQP:           {structure[uapi.QueryQP](), structure[uapi.QueryQPResp](), nil, nil},
	uapi.CmdDestroyQP:         {structure[uapi.DestroyQP](), structure[uapi.DestroyQPResp](), nil, nil},
	uapi.CmdPostSend:          {structure[uapi.PostSend](), structure[uapi.PostSendResp](), nil, nil},
	uapi.CmdCreateSRQ:         {structure[uapi.CreateSRQ](), structure[uapi.CreateSRQResp](), sharedIn, sharedOut},
	uapi.CmdModifySRQ:         {structure[uapi.ModifySRQ](), nil, nil, nil},
	uapi.CmdQuerySRQ:          {structure[uapi.QuerySRQ](), structure[uapi.QuerySRQResp](), nil, nil},
	uapi.CmdDestroySRQ:        {structure[uapi.DestroySRQ](), structure[uapi.DestroySRQResp](), nil, nil},
}

// The driver's parts that commands of both forms have.
var (
	contextIn  = driver(structure[prm.AllocContextRequest]())
	contextOut = driver(structure[prm.AllocContextResponse]())
	queueIn    = driver(structure[prm.CreateCQRequest]())
	queueOut   = driver(structure[prm.CreateCQResponse]())
	pairIn     = driver(structure[prm.CreateQPRequest]())
	pairOut    = driver(structure[prm.CreateQPResponse]())
	modifyIn   = driver(structure[prm.ModifyQPRequest]())
	modifyOut  = driver(structure[prm.ModifyQPResponse]())
	sharedIn   = driver(structure[prm.CreateSRQRequest]())
	sharedOut  = driver(structure[prm.CreateSRQResponse]())
)

// natives are the attributes of the native methods, by object and method.
var natives = map[[2]uint16]map[uint16]attr{
	{uapi.ObjectDevice, uapi.MethodGetContext}:   contextAttrs(uapi.AttrUHWOut),
	{uapi.ObjectDevice, uapi.MethodQueryContext}: contextAttrs(prm.AttrQueryContextResponse),
	{uapi.ObjectDevice, uapi.MethodQueryPort}: {
		uapi.AttrQueryPortPort: {name: "port_num"},
		uapi.AttrQueryPortResp: {show: structure[uapi.QueryPortRespEx]()},
	},
	{uapi.ObjectDevice, uapi.MethodQueryGIDTable}: {
		uapi.AttrGIDTableEntrySize: {name: "entry_size"}, uapi.AttrGIDTableFlags: {name: "flags"},
		uapi.AttrGIDTableEntries: {show: gidTable}, uapi.AttrGIDTableNumEntries: {name: "num_entries"},
	},
	{uapi.ObjectDevice, uapi.MethodQueryGIDEntry}: {
		uapi.AttrGIDEntryPort: {name: "port_num"}, uapi.AttrGIDEntryIndex: {name: "gid_index"},
		uapi.AttrGIDEntryFlags: {name: "flags"}, uapi.AttrGIDEntryResp: {show: structure[uapi.GIDEntry]()},
	},
	{uapi.ObjectAsyncEvent, uapi.MethodAsyncEventAlloc}: {uapi.AttrAsyncEventFD: {name: "fd"}},
	{uapi.ObjectPD, uapi.MethodPDDestroy}:               {uapi.AttrDestroyPDHandle: {name: "pd_handle"}},
	{uapi.ObjectAH, uapi.MethodAHDestroy}:               {uapi.AttrDestroyAHHandle: {name: "ah_handle"}},
	{uapi.ObjectMR, uapi.MethodMRDestroy}:               {uapi.AttrDestroyMRHandle: {name: "mr_handle"}},
	{uapi.ObjectMR, uapi.MethodQueryMR}: {
		uapi.AttrQueryMRHandle: {name: "mr_handle"}, uapi.AttrQueryMRLKey: {name: "lkey"}, uapi.AttrQueryMRRKey: {name: "rkey"},
		uapi.AttrQueryMRLength: {name: "length"}, uapi.AttrQueryMRIOVA: {name: "iova"},
	},
	{uapi.ObjectMR, uapi.MethodRegDmabufMR}: {
		uapi.AttrRegDmabufHandle: {name: "mr_handle"}, uapi.AttrRegDmabufPD: {name: "pd_handle"},
		uapi.AttrRegDmabufOffset: {name: "offset"}, uapi.AttrRegDmabufLength: {name: "length"}, uapi.AttrRegDmabufIOVA: {name: "iova"},
		uapi.AttrRegDmabufFD: {name: "fd"}, uapi.AttrRegDmabufAccess: {name: "access_flags"},
		uapi.AttrRegDmabufLKey: {name: "lkey"}, uapi.AttrRegDmabufRKey: {name: "rkey"},
	},
	{uapi.ObjectCQ, uapi.MethodCQCreate}: {
		uapi.AttrCreateCQHandle: {name: "cq_handle"}, uapi.AttrCreateCQCQE: {name: "cqe"},
		uapi.AttrCreateCQUserHandle: {name: "user_handle"}, uapi.AttrCreateCQCompChannel: {name: "comp_channel"},
		uapi.AttrCreateCQCompVector: {name: "comp_vector"}, uapi.AttrCreateCQFlags: {name: "flags"},
		uapi.AttrCreateCQRespCQE: {name: "cqe"}, uapi.AttrCreateCQEventFD: {name: "event_fd"},
		prm.AttrCreateCQPage: {name: "uar_page_index"},
		uapi.AttrUHWIn:       {show: queueIn}, uapi.AttrUHWOut: {show: queueOut},
	},
	{uapi.ObjectCQ, uapi.MethodCQDestroy}: {
		uapi.AttrDestroyCQHandle: {name: "cq_handle"}, uapi.AttrDestroyCQResp: {show: structure[uapi.DestroyCQResp]()},
	},
	{uapi.ObjectQP, uapi.MethodQPCreate}: {
		uapi.AttrCreateQPHandle: {name: "qp_handle"}, uapi.AttrCreateQPXRCD: {name: "xrcd_handle"}, uapi.AttrCreateQPPD: {name: "pd_handle"},
		uapi.AttrCreateQPSRQ: {name: "srq_handle"}, uapi.AttrCreateQPSendCQ: {name: "send_cq_handle"},
		uapi.AttrCreateQPRecvCQ: {name: "recv_cq_handle"}, uapi.AttrCreateQPIndTable: {name: "rwq_ind_tbl_handle"},
		uapi.AttrCreateQPUserHandle: {name: "user_handle"}, uapi.AttrCreateQPCap: {show: structure[uapi.QPCap]()},
		uapi.AttrCreateQPType: {name: "qp_type"}, uapi.AttrCreateQPFlags: {name: "flags"}, uapi.AttrCreateQPSourceQPN: {name: "source_qpn"},
		uapi.AttrCreateQPEventFD: {name: "event_fd"}, uapi.AttrCreateQPRespCap: {show: structure[uapi.QPCap]()},
		uapi.AttrCreateQPRespQPN: {name: "qpn"},
		uapi.AttrUHWIn:           {show: pairIn}, uapi.AttrUHWOut: {show: pairOut},
	},
	{uapi.ObjectQP, uapi.MethodQPDestroy}: {
		uapi.AttrDestroyQPHandle: {name: "qp_handle"}, uapi.AttrDestroyQPResp: {show: structure[uapi.DestroyQPResp]()},
	},
	{uapi.ObjectSRQ, uapi.MethodSRQCreate}: {
		uapi.AttrCreateSRQHandle: {name: "srq_handle"}, uapi.AttrCreateSRQPD: {name: "pd_handle"}, uapi.AttrCreateSRQXRCD: {name: "xrcd_handle"},
		uapi.AttrCreateSRQCQ: {name: "cq_handle"}, uapi.AttrCreateSRQUserHandle: {name: "user_handle"},
		uapi.AttrCreateSRQMaxWR: {name: "max_wr"}, uapi.AttrCreateSRQMaxSGE: {name: "max_sge"}, uapi.AttrCreateSRQLimit: {name: "srq_limit"},
		uapi.AttrCreateSRQNumTags: {name: "max_num_tags"}, uapi.AttrCreateSRQType: {name: "srq_type"}, uapi.AttrCreateSRQEventFD: {name: "event_fd"},
		uapi.AttrCreateSRQRespMaxWR: {name: "max_wr"}, uapi.AttrCreateSRQRespMaxSGE: {name: "max_sge"}, uapi.AttrCreateSRQRespNum: {name: "srqn"},
		uapi.AttrUHWIn: {show: sharedIn}, uapi.AttrUHWOut: {show: sharedOut},
	},
	{uapi.ObjectSRQ, uapi.MethodSRQDestroy}: {
		uapi.AttrDestroySRQHandle: {name: "srq_handle"}, uapi.AttrDestroySRQResp: {show: structure[uapi.DestroySRQResp]()},
	},
	{prm.ObjectUAR, prm.MethodUARAlloc}: {
		prm.AttrUARHandle: {name: "uar_handle"}, prm.AttrUARType: {name: "alloc_type"}, prm.AttrUARMapOffset: {name: "mmap_offset"},
		prm.AttrUARMapLength: {name: "mmap_length"}, prm.AttrUARPageNumber: {name: "page_id"},
	},
	{uapi.ObjectPD, prm.MethodPDQuery}: {prm.AttrQueryPDHandle: {name: "pd_handle"}, prm.AttrQueryPDNumber: {name: "pdn"}},
	{uapi.ObjectDevice, prm.MethodQueryPort}: {
		prm.AttrQueryPortNumber: {name: "port_num"}, prm.AttrQueryPortResponse: {show: structure[prm.QueryPortResponse]()},
	},
	{prm.ObjectUAR, prm.MethodUARDestroy}: {prm.AttrUARDestroyHandle: {name: "uar_handle"}},
}

// contextAttrs are those of GET_CONTEXT and QUERY_CONTEXT, whose response of the driver
// is in the attribute given.
func contextAttrs(response uint16) map[uint16]attr {
	m := map[uint16]attr{
		uapi.AttrContextNumCompVectors: {name: "num_comp_vectors"},
		uapi.AttrContextCoreSupport:    {name: "core_support"},
		uapi.AttrUHWIn:                 {show: contextIn},
	}
	m[response] = attr{show: contextOut}
	return m
}

// gidTable shows the entries of a table, which may be longer than this project knows
// them.
func gidTable(l *line, _ *Command, b []byte) {
	size := uapi.Size[uapi.GIDEntry]()
	for ; len(b) >= size; b = b[size:] {
		var e uapi.GIDEntry
		copy(uapi.Bytes(&e), b)
		if e.GID == ([16]byte{}) {
			continue
		}
		l.group("gid", func() {
			l.dec("gid_index", uint64(e.GIDIndex))
			l.text("gid", verbs.GID(e.GID).String())
			l.text("gid_type", pick(gidTypes, e.GIDType))
		})
	}
}
