package uapi

import (
	"syscall"
)

const anyLength = 0xffff

func in(id uint16, n int) Spec   { return Spec{ID: id, Kind: In, Min: uint16(n), Max: uint16(n)} }
func out(id uint16, n int) Spec  { return Spec{ID: id, Kind: Out, Min: uint16(n), Max: uint16(n)} }
func object(id uint16) Spec      { return Spec{ID: id, Kind: Object} }
func newObject(id uint16) Spec   { return Spec{ID: id, Kind: NewObject, Mandatory: true} }
func constant(id uint16) Spec    { return in(id, 8) }
func flags(id uint16) Spec       { return Spec{ID: id, Kind: Flags} }
func structure(s Spec) Spec      { s.ZeroTail = true; return s }
func atLeast(s Spec, n int) Spec { s.Min, s.Max = uint16(n), anyLength; return s }
func mandatory(s Spec) Spec      { s.Mandatory = true; return s }
func uhwIn() Spec                { return atLeast(in(AttrUHWIn, 0), 0) }
func uhwOut() Spec               { return atLeast(out(AttrUHWOut, 0), 0) }

// CoreMethods returns the methods of the kernel's own objects that a
// reliable-connection transport uses (Linux uverbs_std_types_*.c).
func CoreMethods() []Method {
	return []Method{
		{"INVOKE_WRITE", ObjectDevice, MethodInvokeWrite, []Spec{
			mandatory(constant(AttrWriteCmd)),
			atLeast(in(AttrCoreIn, 0), 4),
			atLeast(out(AttrCoreOut, 0), 0),
			uhwIn(), uhwOut(),
		}},
		{"QUERY_PORT", ObjectDevice, MethodQueryPort, []Spec{
			mandatory(constant(AttrQueryPortPort)),
			mandatory(structure(out(AttrQueryPortResp, Size[QueryPortRespEx]()))),
		}},
		{"GET_CONTEXT", ObjectDevice, MethodGetContext, []Spec{
			out(AttrContextNumCompVectors, 4),
			out(AttrContextCoreSupport, 8),
			uhwIn(), uhwOut(),
		}},
		{"QUERY_CONTEXT", ObjectDevice, MethodQueryContext, []Spec{
			out(AttrContextNumCompVectors, 4),
			out(AttrContextCoreSupport, 8),
		}},
		{"QUERY_GID_TABLE", ObjectDevice, MethodQueryGIDTable, []Spec{
			mandatory(constant(AttrGIDTableEntrySize)),
			flags(AttrGIDTableFlags),
			mandatory(atLeast(out(AttrGIDTableEntries, 0), 0)),
			mandatory(out(AttrGIDTableNumEntries, 8)),
		}},
		{"QUERY_GID_ENTRY", ObjectDevice, MethodQueryGIDEntry, []Spec{
			mandatory(constant(AttrGIDEntryPort)),
			mandatory(constant(AttrGIDEntryIndex)),
			mandatory(flags(AttrGIDEntryFlags)),
			mandatory(structure(out(AttrGIDEntryResp, Size[GIDEntry]()))),
		}},
		{"PD_DESTROY", ObjectPD, MethodPDDestroy, []Spec{mandatory(object(AttrDestroyPDHandle))}},
		{"AH_DESTROY", ObjectAH, MethodAHDestroy, []Spec{mandatory(object(AttrDestroyAHHandle))}},
		{"CQ_CREATE", ObjectCQ, MethodCQCreate, []Spec{
			newObject(AttrCreateCQHandle),
			mandatory(in(AttrCreateCQCQE, 4)),
			mandatory(in(AttrCreateCQUserHandle, 8)),
			object(AttrCreateCQCompChannel),
			mandatory(in(AttrCreateCQCompVector, 4)),
			flags(AttrCreateCQFlags),
			mandatory(out(AttrCreateCQRespCQE, 4)),
			object(AttrCreateCQEventFD),
			uhwIn(), uhwOut(),
		}},
		{"CQ_DESTROY", ObjectCQ, MethodCQDestroy, []Spec{
			mandatory(object(AttrDestroyCQHandle)),
			mandatory(out(AttrDestroyCQResp, Size[DestroyCQResp]())),
		}},
		{"QP_CREATE", ObjectQP, MethodQPCreate, []Spec{
			newObject(AttrCreateQPHandle),
			object(AttrCreateQPXRCD), object(AttrCreateQPPD), object(AttrCreateQPSRQ),
			object(AttrCreateQPSendCQ), object(AttrCreateQPRecvCQ), object(AttrCreateQPIndTable),
			mandatory(in(AttrCreateQPUserHandle, 8)),
			mandatory(structure(in(AttrCreateQPCap, Size[QPCap]()))),
			mandatory(constant(AttrCreateQPType)),
			flags(AttrCreateQPFlags),
			in(AttrCreateQPSourceQPN, 4),
			object(AttrCreateQPEventFD),
			mandatory(structure(out(AttrCreateQPRespCap, Size[QPCap]()))),
			mandatory(out(AttrCreateQPRespQPN, 4)),
			uhwIn(), uhwOut(),
		}},
		{"QP_DESTROY", ObjectQP, MethodQPDestroy, []Spec{
			mandatory(object(AttrDestroyQPHandle)),
			mandatory(out(AttrDestroyQPResp, Size[DestroyQPResp]())),
		}},
		{"SRQ_CREATE", ObjectSRQ, MethodSRQCreate, []Spec{
			newObject(AttrCreateSRQHandle),
			mandatory(object(AttrCreateSRQPD)), object(AttrCreateSRQXRCD), object(AttrCreateSRQCQ),
			mandatory(in(AttrCreateSRQUserHandle, 8)),
			mandatory(in(AttrCreateSRQMaxWR, 4)),
			mandatory(in(AttrCreateSRQMaxSGE, 4)),
			mandatory(in(AttrCreateSRQLimit, 4)),
			in(AttrCreateSRQNumTags, 4),
			mandatory(constant(AttrCreateSRQType)),
			object(AttrCreateSRQEventFD),
			mandatory(out(AttrCreateSRQRespMaxWR, 4)),
			mandatory(out(AttrCreateSRQRespMaxSGE, 4)),
			out(AttrCreateSRQRespNum, 4),
			uhwIn(), uhwOut(),
		}},
		{"SRQ_DESTROY", ObjectSRQ, MethodSRQDestroy, []Spec{
			mandatory(object(AttrDestroySRQHandle)),
			mandatory(out(AttrDestroySRQResp, Size[DestroySRQResp]())),
		}},
		{"MR_DESTROY", ObjectMR, MethodMRDestroy, []Spec{mandatory(object(AttrDestroyMRHandle))}},
		{"QUERY_MR", ObjectMR, MethodQueryMR, []Spec{
			mandatory(object(AttrQueryMRHandle)),
			mandatory(out(AttrQueryMRLKey, 4)),
			mandatory(out(AttrQueryMRRKey, 4)),
			mandatory(out(AttrQueryMRLength, 8)),
			out(AttrQueryMRIOVA, 8),
		}},
		{"REG_DMABUF_MR", ObjectMR, MethodRegDmabufMR, []Spec{
			newObject(AttrRegDmabufHandle),
			mandatory(object(AttrRegDmabufPD)),
			mandatory(in(AttrRegDmabufOffset, 8)),
			mandatory(in(AttrRegDmabufLength, 8)),
			mandatory(in(AttrRegDmabufIOVA, 8)),
			mandatory(in(AttrRegDmabufFD, 4)),
			mandatory(flags(AttrRegDmabufAccess)),
			mandatory(out(AttrRegDmabufLKey, 4)),
			mandatory(out(AttrRegDmabufRKey, 4)),
		}},
		{"ASYNC_EVENT_ALLOC", ObjectAsyncEvent, MethodAsyncEventAlloc, []Spec{newObject(AttrAsyncEventFD)}},
	}
}

// An Invoke is an INVOKE_WRITE request taken apart. Absent attributes are nil.
type Invoke struct {
	*Write
	Core, Reply   Attr // the core request and response
	UHWIn, UHWOut Attr // the driver's
}

// Invoke takes an INVOKE_WRITE request apart that [Table.Match] accepted. The
// errors are:
//
//   - EINVAL: the command number has bits outside the number and CmdExtended
//   - EOPNOTSUPP: the command is unknown
//   - ENOSPC: the core request or response is too short
func (r Request) Invoke() (Invoke, error) {
	cmd := r.Find(AttrWriteCmd).Data()
	if cmd&^(CmdExtended|CmdMask) != 0 {
		return Invoke{}, refuse(syscall.EINVAL, "command %#x", cmd)
	}
	w := WriteOf(uint32(cmd))
	if w == nil {
		return Invoke{}, refuse(syscall.EOPNOTSUPP, "command %#x unknown", cmd)
	}
	inv := Invoke{w, r.Find(AttrCoreIn), r.Find(AttrCoreOut), r.Find(AttrUHWIn), r.Find(AttrUHWOut)}
	if inv.Core.Len() < w.In || inv.Reply.Len() < w.Out {
		return Invoke{}, refuse(syscall.ENOSPC, "%s: core of %d and %d bytes, needs %d and %d",
			w.Name, inv.Core.Len(), inv.Reply.Len(), w.In, w.Out)
	}
	return inv, nil
}
