package trace

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// written is a command of INVOKE_WRITE.
func written(cmd uint32, in, out, driverIn, driverOut []byte, objects ...Object) *Record {
	c := &Command{Write: cmd, Name: uapi.WriteOf(cmd).Name, Objects: objects}
	add := func(id uint16, in, out []byte) {
		if n := len(in) + len(out); n > 0 {
			c.Attrs = append(c.Attrs, Attr{ID: id, Length: n, In: in, Out: out})
		}
	}
	add(uapi.AttrCoreIn, in, nil)
	add(uapi.AttrCoreOut, nil, out)
	add(uapi.AttrWriteCmd, enc(uint64(cmd)), nil)
	add(uapi.AttrUHWIn, driverIn, nil)
	add(uapi.AttrUHWOut, nil, driverOut)
	return &Record{Kind: Ioctl, Command: c}
}

// native is a command of a method.
func native(name string, object, method uint16, objects []Object, attrs ...Attr) *Record {
	return &Record{Kind: Ioctl, Command: &Command{Object: object, Method: method, Name: name, Attrs: attrs, Objects: objects}}
}

func refused(r *Record, errno syscall.Errno, reason string) *Record {
	r.Errno, r.Reason = errno, reason
	return r
}

var (
	domain = Object{Kind: uapi.ObjectPD, Handle: 0, Number: 0x77}
	queue  = Object{Kind: uapi.ObjectCQ, Handle: 2, Number: 0x45}
	pair   = Object{Kind: uapi.ObjectQP, Handle: 3, Number: 0x104, State: uapi.QPInit}
)

var gid = [16]byte{10: 0xff, 0xff, 127, 0, 0, 1}

// commands are records of commands and what is said of them.
var commands = []struct {
	name string
	r    *Record
	want string
}{
	{"context", native("GET_CONTEXT", uapi.ObjectDevice, uapi.MethodGetContext, nil,
		Attr{ID: uapi.AttrContextNumCompVectors, Length: 4, Out: enc(uint32(1))},
		Attr{ID: uapi.AttrUHWIn, Length: 32, In: enc(prm.AllocContextRequest{TotalRegisters: 16, LibCaps: 3})},
		Attr{ID: uapi.AttrUHWOut, Length: 72, Out: enc(prm.AllocContextResponse{BlueFlameSize: 512, MaxSendEntry: 1024})}),
		"GET_CONTEXT mlx5{total_num_bfregs=16 lib_caps=0x3} = 0 num_comp_vectors=1 mlx5{bf_reg_size=512 max_sq_desc_sz=1024}"},
	{"region", written(uapi.CmdRegMR, enc(uapi.RegMR{Response: 1, Start: 0x1000, HcaVa: 0x1000, Length: 4096, AccessFlags: 5}),
		enc(uapi.RegMRResp{MRHandle: 1, Lkey: 0xaa, Rkey: 0xaa}), nil, nil, domain, Object{Kind: uapi.ObjectMR, Handle: 1, Number: 0xaa, New: true}),
		"REG_MR pd_handle=0 pdn=0x77 start=0x1000 length=4096 hca_va=0x1000 access_flags=LOCAL_WRITE|REMOTE_READ = 0 mr_handle=1 lkey=0xaa rkey=0xaa"},
	{"queue pair", written(uapi.CmdCreateQP,
		enc(uapi.CreateQP{SendCQHandle: 2, RecvCQHandle: 2, MaxSendWR: 16, MaxRecvWR: 8, MaxSendSGE: 1, SqSigAll: 1, QPType: uapi.QPTypeRC}),
		enc(uapi.CreateQPResp{QPHandle: 3, Qpn: 0x104, MaxSendWR: 16, MaxRecvWR: 8}),
		enc(prm.CreateQPRequest{BufAddr: 0x2000, RecordAddr: 0x3000, SendBlocks: 64, Receives: 8, ReceiveShift: 4, Register: 9}),
		enc(prm.CreateQPResponse{Register: prm.NoRegister}), queue, domain),
		"CREATE_QP pd_handle=0 pdn=0x77 send_cq_handle=2 send_cqn=0x45 recv_cq_handle=2 recv_cqn=0x45 max_send_wr=16 max_recv_wr=8 max_send_sge=1 " +
			"sq_sig_all=1 qp_type=RC mlx5{buf_addr=0x2000 db_addr=0x3000 sq_wqe_count=64 rq_wqe_count=8 rq_wqe_shift=4 bfreg_index=0x9} " +
			"= 0 qp_handle=3 qpn=0x104 max_send_wr=16 max_recv_wr=8 mlx5{bfreg_index=0xffffffff}"},
	{"connecting", written(uapi.CmdModifyQP, enc(uapi.ModifyQP{QPHandle: 3, QPState: uapi.QPRTR, PathMTU: 3, RqPsn: 0x111, DestQPNum: 0x222,
		AttrMask: uapi.QPAttrState | uapi.QPAttrAV | uapi.QPAttrPathMTU | uapi.QPAttrRqPsn | uapi.QPAttrDestQpn | uapi.QPAttrMinRnrTimer,
		Timeout:  14, Dest: uapi.QPDest{Dgid: gid, IsGlobal: 1, PortNum: 1}}), nil, nil, nil, pair),
		"MODIFY_QP qp_handle=3 qpn=0x104 qp_state=INIT->RTR ah_attr{dgid=127.0.0.1 sgid_index=0 is_global=1 port_num=1} attr_mask=0x109181 " +
			"rq_psn=0x111 dest_qp_num=0x222 path_mtu=1024 min_rnr_timer=0 = 0"},
	{"refused", refused(written(uapi.CmdModifyQP, enc(uapi.ModifyQP{QPHandle: 3, AttrMask: uapi.QPAttrState, QPState: uapi.QPRTS}), nil, nil, nil, pair),
		syscall.EINVAL, "missing 0x1"),
		"MODIFY_QP qp_handle=3 qpn=0x104 qp_state=INIT->RTS attr_mask=0x1 = -1 EINVAL (missing 0x1)"},
	{"extended, and longer than known", written(uapi.CmdExModifyQP,
		append(enc(uapi.ExModifyQP{Base: uapi.ModifyQP{QPHandle: 3, AttrMask: uapi.QPAttrSqPsn}, RateLimit: 5}), 1, 2), nil, nil, nil, pair),
		"EX_MODIFY_QP qp_handle=3 qpn=0x104 attr_mask=0x10000 sq_psn=0x0 beyond=0102 = 0"},
	{"legacy queue", written(uapi.CmdCreateCQ, enc(uapi.CreateCQ{Cqe: 63, CompChannel: -1}), enc(uapi.CreateCQResp{CQHandle: 2, Cqe: 63}),
		enc(prm.CreateCQRequest{BufAddr: 0x1000, EntrySize: 64}), enc(prm.CreateCQResponse{CQN: 0x45})),
		"CREATE_CQ cqe=63 comp_channel=-1 mlx5{buf_addr=0x1000 cqe_size=64} = 0 cq_handle=2 cqe=63 mlx5{cqn=0x45}"},
	{"shared queue's limit", written(uapi.CmdModifySRQ, enc(uapi.ModifySRQ{SRQHandle: 6, AttrMask: uapi.SRQAttrLimit, SRQLimit: 4}), nil, nil, nil,
		Object{Kind: uapi.ObjectSRQ, Handle: 6, Number: 0x51}), "MODIFY_SRQ srq_handle=6 srqn=0x51 attr_mask=0x2 srq_limit=4 = 0"},
	{"address", written(uapi.CmdCreateAH, enc(uapi.CreateAH{Attr: uapi.AHAttr{Grh: uapi.GlobalRoute{Dgid: gid, HopLimit: 64}, IsGlobal: 1, PortNum: 1}}),
		enc(uapi.CreateAHResp{AHHandle: 7}), nil, enc(prm.CreateAHResponse{DMAC: [6]byte{2, 0, 0, 0, 0, 9}})),
		"CREATE_AH pd_handle=0 attr{grh{dgid=127.0.0.1 sgid_index=0 hop_limit=64} is_global=1 port_num=1} = 0 ah_handle=7 mlx5{dmac=02:00:00:00:00:09}"},
	{"device", written(uapi.CmdQueryDevice, nil, enc(uapi.QueryDeviceResp{NodeGUID: [8]byte{1, 7: 2}, MaxQPWR: 5}), nil, nil),
		"QUERY_DEVICE = 0 node_guid=0100000000000002 max_qp_wr=5"},
	{"no such queue pair", refused(written(uapi.CmdModifyQP, enc(uapi.ModifyQP{QPHandle: 3, AttrMask: uapi.QPAttrState, QPState: uapi.QPInit}), nil, nil, nil),
		syscall.EINVAL, "no such object"), "MODIFY_QP qp_handle=3 qp_state=INIT attr_mask=0x1 = -1 EINVAL (no such object)"},
	{"longer, with zeros", written(uapi.CmdDeallocPD, make([]byte, 12), nil, nil, nil, domain), "DEALLOC_PD pd_handle=0 pdn=0x77 = 0"},
	{"short", written(uapi.CmdDeallocPD, []byte{0}, nil, nil, nil), "DEALLOC_PD pd_handle=0 = 0"},
	{"state", written(uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: 3, AttrMask: 1}), enc(uapi.QueryQPResp{QPState: uapi.QPRTS, CurQPState: 9}), nil, nil, pair),
		"QUERY_QP qp_handle=3 qpn=0x104 attr_mask=0x1 = 0 qp_state=RTS cur_qp_state=9"},
	{"native queue", native("CQ_CREATE", uapi.ObjectCQ, uapi.MethodCQCreate, []Object{{Kind: uapi.ObjectCQ, Handle: 0, Number: 0x45, New: true}},
		Attr{ID: uapi.AttrCreateCQHandle, New: true},
		Attr{ID: uapi.AttrCreateCQCQE, Length: 4, In: enc(uint32(511))},
		Attr{ID: uapi.AttrCreateCQCompChannel, Data: 5, Result: 5},
		Attr{ID: uapi.AttrCreateCQRespCQE, Length: 4, Out: enc(uint32(511))},
		Attr{ID: uapi.AttrUHWOut, Length: 8, Out: enc(prm.CreateCQResponse{CQN: 0x45})}),
		"CQ_CREATE cqe=511 comp_channel=5 = 0 cq_handle=0 cqe=511 mlx5{cqn=0x45}"},
	{"page", native("UAR_ALLOC", prm.ObjectUAR, prm.MethodUARAlloc, []Object{{Kind: prm.ObjectUAR, Handle: 4, Number: 9, New: true}},
		Attr{ID: prm.AttrUARHandle, Result: 4, New: true}, Attr{ID: prm.AttrUARType, Length: 8, In: enc(uint64(0))},
		Attr{ID: prm.AttrUARPageNumber, Length: 4, Out: enc(uint32(9))}),
		"UAR_ALLOC alloc_type=BF = 0 uar_handle=4 page_id=0x9"},
	{"no page", refused(native("UAR_ALLOC", prm.ObjectUAR, prm.MethodUARAlloc, nil, Attr{ID: prm.AttrUARHandle, New: true}, Attr{ID: prm.AttrUARType, Length: 8, In: enc(uint64(1))}),
		syscall.ENOMEM, "1024 doorbell pages"), "UAR_ALLOC alloc_type=NC = -1 ENOMEM (1024 doorbell pages)"},
	{"page's end", native("UAR_DESTROY", prm.ObjectUAR, prm.MethodUARDestroy, []Object{{Kind: prm.ObjectUAR, Handle: 4, Number: 9}},
		Attr{ID: prm.AttrUARDestroyHandle, Data: 4, Result: 4}), "UAR_DESTROY uar_handle=4 page_id=0x9 = 0"},
	{"event file", native("ASYNC_EVENT_ALLOC", uapi.ObjectAsyncEvent, 0, nil, Attr{ID: uapi.AttrAsyncEventFD, Result: 7, New: true}), "ASYNC_EVENT_ALLOC = 0 fd=7"},
	{"table", native("QUERY_GID_TABLE", uapi.ObjectDevice, uapi.MethodQueryGIDTable, nil,
		Attr{ID: uapi.AttrGIDTableEntrySize, Length: 8, In: enc(uint64(32))},
		Attr{ID: uapi.AttrGIDTableEntries, Length: 65, Out: append(append(enc(uapi.GIDEntry{GID: gid, GIDIndex: 1, GIDType: 2}), make([]byte, 32)...), 1)}),
		"QUERY_GID_TABLE entry_size=32 = 0 gid{gid_index=1 gid=127.0.0.1 gid_type=RoCEv2}"},
	{"unknown method", refused(native("", 0x1000, 2, nil, Attr{ID: 0x1001, Length: 64}, Attr{ID: 0x1002, Length: 0, Data: 3, Result: 3}),
		syscall.EPROTONOSUPPORT, "unknown"),
		"IOCTL object=0x1000 method=0x2 attr_0x1001_length=64 attr_0x1002=3 = -1 EPROTONOSUPPORT (unknown)"},
	{"unknown attribute", native("PD_DESTROY", uapi.ObjectPD, uapi.MethodPDDestroy, nil, Attr{ID: 0, Data: 1, Result: 1}, Attr{ID: 9, Length: 3, In: []byte{1, 2, 3}}),
		"PD_DESTROY pd_handle=1 attr_0x9=010203 = 0"},
	{"unknown command", refused(&Record{Kind: Ioctl, Command: &Command{Name: "INVOKE_WRITE", Write: 99, Attrs: []Attr{{ID: uapi.AttrCoreIn, Length: 1, In: []byte{1}}}}},
		syscall.EOPNOTSUPP, "unknown"), "INVOKE_WRITE write=0x63 core_in=01 = -1 EOPNOTSUPP (unknown)"},
	{"no command", refused(&Record{Kind: Ioctl, Command: &Command{Bytes: []byte{1, 2}, Object: 1}}, syscall.EFAULT, "header of 2 bytes"),
		"IOCTL object=0x1 method=0x0 bytes=0102 = -1 EFAULT (header of 2 bytes)"},
	{"nothing of the driver", written(uapi.CmdAllocPD, nil, enc(uapi.AllocPDResp{PDHandle: 2}), nil, enc(prm.AllocPDResponse{})), "ALLOC_PD = 0 pd_handle=2"},
	{"nothing at all", &Record{Kind: Ioctl}, "IOCTL object=0x0 method=0x0 = 0"},
	{"another errno", refused(&Record{Kind: Ioctl, Command: &Command{Object: 1, Name: "X"}}, 250, "?"), "X = -1 errno_250 (?)"},
}

func TestCommands(t *testing.T) {
	for _, c := range commands {
		c.r.NIC, c.r.Process, c.r.File = "mlx5_0", 4711, 1
		require.Equal(t, []string{"mlx5_0 4711.1 " + c.want}, said(t, c.r), c.name)
	}
}

// Every field has a name in the words of the kernel's headers.
func TestSnake(t *testing.T) {
	for in, want := range map[string]string{
		"MaxSendWR": "max_send_wr", "QPHandle": "qp_handle", "HcaVa": "hca_va", "MaxSGERd": "max_sge_rd", "SqSigAll": "sq_sig_all",
		"MaxRawIpv6QP": "max_raw_ipv6_qp", "IsSRQ": "is_srq", "RecordAddr": "db_addr", "MaxQPInitRdAtom": "max_qp_init_rd_atom",
	} {
		require.Equal(t, want, snake(in))
	}
}

func TestClone(t *testing.T) {
	r := commands[1].r
	r.Bytes = []byte{1}
	c := r.Clone()
	require.Equal(t, r, c)
	c.Bytes[0] = 2
	c.Command.Attrs[0].In[0] = 9
	c.Command.Objects[0].Number = 9
	require.NotEqual(t, r.Bytes, c.Bytes)
	require.NotEqual(t, r.Command.Attrs, c.Command.Attrs)
	require.NotEqual(t, r.Command.Objects, c.Command.Objects)
	require.Equal(t, c.Command.Attrs[0], *c.Command.Find(uapi.AttrCoreIn))
	require.Nil(t, c.Command.Find(0x7777))
}

// FuzzLog has any bytes in any place. Every record is one line, and calls have a
// result.
func FuzzLog(f *testing.F) {
	for _, c := range lines {
		f.Add(uint8(c.r.Kind), uint8(c.r.Queue), c.r.QPType, uint16(0), uint16(0), uint32(0), c.r.Offset, uint16(0), uint8(0), c.r.Bytes, c.r.Reason)
	}
	for _, c := range commands {
		d := c.r.Command
		if d == nil {
			continue
		}
		for _, a := range d.Attrs {
			f.Add(uint8(Ioctl), uint8(0), uint8(0), d.Object, d.Method, d.Write, int64(c.r.Errno), a.ID, uint8(len(a.Out)), append(a.In, a.Out...), d.Name)
		}
	}
	f.Fuzz(func(t *testing.T, kind, queue, qpType uint8, object, method uint16, write uint32, number int64, id uint16, place uint8, b []byte, text string) {
		r := &Record{Kind: Kind(kind), NIC: "x", Queue: Queue(queue), Number: write, QPType: qpType, Offset: number, Length: int(number), FD: int(number),
			Errno: syscall.Errno(uint16(number)), Reason: text, Bytes: b, BlueFlame: place&1 != 0, Rings: int(place)}
		a := Attr{ID: id, Length: len(b), Data: uint64(number)}
		switch place % 3 {
		case 0:
			a.In = b
		case 1:
			a.Out = b
		}
		a.New = place&8 != 0
		r.Command = &Command{Bytes: b, Object: object, Method: method, Write: write, Attrs: []Attr{a},
			Objects: []Object{{Kind: object, Handle: write, Number: write, State: qpType, New: place&4 != 0}}}
		got := said(t, r, r)
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), 2)
		require.True(t, strings.HasPrefix(got[0], "x 0.0 "), got[0])
		if r.Kind == Ioctl || r.Kind == Map {
			require.Contains(t, got[0], " = ")
		}
	})
}
