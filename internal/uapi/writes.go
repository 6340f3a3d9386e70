package uapi

// Commands that travel in INVOKE_WRITE (ib_user_verbs.h, enum
// ib_uverbs_write_cmds). An extended command has CmdExtended set.
const (
	CmdGetContext        = 0
	CmdQueryDevice       = 1
	CmdQueryPort         = 2
	CmdAllocPD           = 3
	CmdDeallocPD         = 4
	CmdCreateAH          = 5
	CmdDestroyAH         = 8
	CmdRegMR             = 9
	CmdReregMR           = 11
	CmdDeregMR           = 13
	CmdCreateCompChannel = 17
	CmdCreateCQ          = 18
	CmdResizeCQ          = 19
	CmdDestroyCQ         = 20
	CmdPollCQ            = 21
	CmdReqNotifyCQ       = 23
	CmdCreateQP          = 24
	CmdQueryQP           = 25
	CmdModifyQP          = 26
	CmdDestroyQP         = 27
	CmdPostSend          = 28
	CmdCreateSRQ         = 32
	CmdModifySRQ         = 33
	CmdQuerySRQ          = 34
	CmdDestroySRQ        = 35

	CmdExtended      = 0x80000000 // IB_USER_VERBS_CMD_FLAG_EXTENDED
	CmdMask          = 0xff       // IB_USER_VERBS_CMD_COMMAND_MASK
	CmdExQueryDevice = CmdExtended | 1
	CmdExCreateCQ    = CmdExtended | 18
	CmdExCreateQP    = CmdExtended | 24
	CmdExModifyQP    = CmdExtended | 26
	CmdExModifyCQ    = CmdExtended | 57
)

// A Write describes one INVOKE_WRITE command: its name and the fewest bytes of
// core input and output the kernel accepts.
type Write struct {
	Name string
	Cmd  uint32
	In   int // bytes of CORE_IN; 0 for none
	Out  int // bytes of CORE_OUT; 0 for none
}

// writes is the table of the commands whose structures this package knows. An
// extended command may be shorter than its whole structure: the sizes end with
// the field the kernel names as the last it needs (uverbs_cmd.c,
// uverbs_def_write_intf).
var writes = []Write{
	{"GET_CONTEXT", CmdGetContext, Size[GetContext](), Size[GetContextResp]()},
	{"QUERY_DEVICE", CmdQueryDevice, Size[QueryDevice](), Size[QueryDeviceResp]()},
	{"QUERY_PORT", CmdQueryPort, Size[QueryPort](), Size[QueryPortResp]()},
	{"ALLOC_PD", CmdAllocPD, Size[AllocPD](), Size[AllocPDResp]()},
	{"DEALLOC_PD", CmdDeallocPD, Size[DeallocPD](), 0},
	{"CREATE_AH", CmdCreateAH, Size[CreateAH](), Size[CreateAHResp]()},
	{"DESTROY_AH", CmdDestroyAH, Size[DestroyAH](), 0},
	{"REG_MR", CmdRegMR, Size[RegMR](), Size[RegMRResp]()},
	{"REREG_MR", CmdReregMR, Size[ReregMR](), Size[ReregMRResp]()},
	{"DEREG_MR", CmdDeregMR, Size[DeregMR](), 0},
	{"CREATE_COMP_CHANNEL", CmdCreateCompChannel, Size[CreateCompChannel](), Size[CreateCompChannelResp]()},
	{"CREATE_CQ", CmdCreateCQ, Size[CreateCQ](), Size[CreateCQResp]()},
	{"RESIZE_CQ", CmdResizeCQ, Size[ResizeCQ](), Size[ResizeCQResp]()},
	{"DESTROY_CQ", CmdDestroyCQ, Size[DestroyCQ](), Size[DestroyCQResp]()},
	{"REQ_NOTIFY_CQ", CmdReqNotifyCQ, Size[ReqNotifyCQ](), 0},
	{"CREATE_QP", CmdCreateQP, Size[CreateQP](), Size[CreateQPResp]()},
	{"QUERY_QP", CmdQueryQP, Size[QueryQP](), Size[QueryQPResp]()},
	{"MODIFY_QP", CmdModifyQP, Size[ModifyQP](), 0},
	{"DESTROY_QP", CmdDestroyQP, Size[DestroyQP](), Size[DestroyQPResp]()},
	{"POST_SEND", CmdPostSend, Size[PostSend](), Size[PostSendResp]()},
	{"CREATE_SRQ", CmdCreateSRQ, Size[CreateSRQ](), Size[CreateSRQResp]()},
	{"MODIFY_SRQ", CmdModifySRQ, Size[ModifySRQ](), 0},
	{"QUERY_SRQ", CmdQuerySRQ, Size[QuerySRQ](), Size[QuerySRQResp]()},
	{"DESTROY_SRQ", CmdDestroySRQ, Size[DestroySRQ](), Size[DestroySRQResp]()},

	{"EX_QUERY_DEVICE", CmdExQueryDevice, Size[ExQueryDevice](), 184},
	{"EX_CREATE_CQ", CmdExCreateCQ, Size[ExCreateCQ](), Size[ExCreateCQResp]()},
	{"EX_CREATE_QP", CmdExCreateQP, 56, Size[ExCreateQPResp]()},
	{"EX_MODIFY_QP", CmdExModifyQP, Size[ModifyQP](), Size[ExModifyQPResp]()},
	{"EX_MODIFY_CQ", CmdExModifyCQ, Size[ExModifyCQ](), 0},
}

// WriteOf returns the description of an INVOKE_WRITE command, or nil if this
// package does not know it.
func WriteOf(cmd uint32) *Write {
	for i := range writes {
		if writes[i].Cmd == cmd {
			return &writes[i]
		}
	}
	return nil
}
