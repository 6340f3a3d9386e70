package ifc

// Opcode says what a command is: its first 16 bits.
type Opcode uint16

// Opcodes (mlx5_ifc.h, MLX5_CMD_OP_*).
const (
	QueryCapabilities    Opcode = 0x100 // QUERY_HCA_CAP
	QueryAdapter         Opcode = 0x101
	InitDevice           Opcode = 0x102 // INIT_HCA
	TeardownDevice       Opcode = 0x103 // TEARDOWN_HCA
	EnableDevice         Opcode = 0x104 // ENABLE_HCA
	DisableDevice        Opcode = 0x105 // DISABLE_HCA
	QueryPages           Opcode = 0x107
	ManagePages          Opcode = 0x108
	SetCapabilities      Opcode = 0x109 // SET_HCA_CAP
	QueryISSI            Opcode = 0x10a
	SetISSI              Opcode = 0x10b
	SetDriverVersion     Opcode = 0x10d
	CreateMKey           Opcode = 0x200
	QueryMKey            Opcode = 0x201
	DestroyMKey          Opcode = 0x202
	QuerySpecialContexts Opcode = 0x203
	CreateEQ             Opcode = 0x301
	DestroyEQ            Opcode = 0x302
	QueryEQ              Opcode = 0x303
	CreateCQ             Opcode = 0x400
	DestroyCQ            Opcode = 0x401
	QueryCQ              Opcode = 0x402
	ModifyCQ             Opcode = 0x403
	CreateQP             Opcode = 0x500
	DestroyQP            Opcode = 0x501
	ResetToInit          Opcode = 0x502 // RST2INIT_QP
	InitToRTR            Opcode = 0x503 // INIT2RTR_QP
	RTRToRTS             Opcode = 0x504 // RTR2RTS_QP
	RTSToRTS             Opcode = 0x505 // RTS2RTS_QP
	ToError              Opcode = 0x507 // 2ERR_QP
	ToReset              Opcode = 0x50a // 2RST_QP
	QueryQP              Opcode = 0x50b
	MADInterface         Opcode = 0x50d // MAD_IFC
	InitToInit           Opcode = 0x50e // INIT2INIT_QP
	CreateXRCSRQ         Opcode = 0x705
	DestroyXRCSRQ        Opcode = 0x706
	QueryXRCSRQ          Opcode = 0x707
	ArmXRCSRQ            Opcode = 0x708
	QueryVirtualPort     Opcode = 0x762 // QUERY_HCA_VPORT_CONTEXT
	QueryGID             Opcode = 0x764 // QUERY_HCA_VPORT_GID
	QueryPKey            Opcode = 0x765 // QUERY_HCA_VPORT_PKEY
	AllocPD              Opcode = 0x800
	DeallocPD            Opcode = 0x801
	AllocUAR             Opcode = 0x802
	DeallocUAR           Opcode = 0x803
	AccessRegister       Opcode = 0x805 // ACCESS_REG
	NOP                  Opcode = 0x80d
	AllocXRCD            Opcode = 0x80e
	DeallocXRCD          Opcode = 0x80f
	AllocDomain          Opcode = 0x816 // ALLOC_TRANSPORT_DOMAIN
	DeallocDomain        Opcode = 0x817 // DEALLOC_TRANSPORT_DOMAIN
	CreateRMP            Opcode = 0x90c
	ModifyRMP            Opcode = 0x90d
	DestroyRMP           Opcode = 0x90e
	QueryRMP             Opcode = 0x90f
	QueryPortState       Opcode = 0x750 // QUERY_VPORT_STATE
	ModifyPortState      Opcode = 0x751 // MODIFY_VPORT_STATE
	QueryEthernetPort    Opcode = 0x754 // QUERY_NIC_VPORT_CONTEXT
	ModifyEthernetPort   Opcode = 0x755 // MODIFY_NIC_VPORT_CONTEXT
	SetRoCEAddress       Opcode = 0x761 // SET_ROCE_ADDRESS
	QueryPortCounter     Opcode = 0x770 // QUERY_VPORT_COUNTER
	AllocCounter         Opcode = 0x771 // ALLOC_Q_COUNTER
	DeallocCounter       Opcode = 0x772 // DEALLOC_Q_COUNTER
	QueryCounter         Opcode = 0x773 // QUERY_Q_COUNTER
	CreateTIR            Opcode = 0x900 // CREATE_TIR
	ModifyTIR            Opcode = 0x901 // MODIFY_TIR
	DestroyTIR           Opcode = 0x902 // DESTROY_TIR
	CreateSQ             Opcode = 0x904 // CREATE_SQ
	ModifySQ             Opcode = 0x905 // MODIFY_SQ
	DestroySQ            Opcode = 0x906 // DESTROY_SQ
	CreateRQ             Opcode = 0x908 // CREATE_RQ
	ModifyRQ             Opcode = 0x909 // MODIFY_RQ
	DestroyRQ            Opcode = 0x90a // DESTROY_RQ
	CreateTIS            Opcode = 0x912 // CREATE_TIS
	ModifyTIS            Opcode = 0x913 // MODIFY_TIS
	DestroyTIS           Opcode = 0x914 // DESTROY_TIS
	CreateRQT            Opcode = 0x916 // CREATE_RQT
	ModifyRQT            Opcode = 0x917 // MODIFY_RQT
	DestroyRQT           Opcode = 0x918 // DESTROY_RQT
	SetFlowRoot          Opcode = 0x92f // SET_FLOW_TABLE_ROOT
	CreateFlowTable      Opcode = 0x930 // CREATE_FLOW_TABLE
	DestroyFlowTable     Opcode = 0x931 // DESTROY_FLOW_TABLE
	CreateFlowGroup      Opcode = 0x933 // CREATE_FLOW_GROUP
	DestroyFlowGroup     Opcode = 0x934 // DESTROY_FLOW_GROUP
	SetFlow              Opcode = 0x936 // SET_FLOW_TABLE_ENTRY
	DeleteFlow           Opcode = 0x938 // DELETE_FLOW_TABLE_ENTRY
	ModifyFlowTable      Opcode = 0x93c // MODIFY_FLOW_TABLE
)

// Every command begins with its opcode, user and modifier, and mostly names an
// object; every answer begins with a status, a syndrome and mostly a number (for
// instance create_cq_in and create_cq_out).
var (
	command = layout("create_cq_in", 0x110)
	answer  = layout("create_cq_out", 0x10)

	Command = struct{ Opcode, User, Modifier Field }{
		Opcode:   command.bits("opcode", 0x00, 31, 16),
		User:     command.bits("uid", 0x00, 15, 0),
		Modifier: command.bits("op_mod", 0x04, 15, 0),
	}
	Answer = struct{ Status, Syndrome, Number Field }{
		Status:   answer.bits("status", 0x00, 31, 24),
		Syndrome: answer.bits("syndrome", 0x04, 31, 0),
		Number:   answer.bits("cqn", 0x08, 23, 0),
	}

	destroy = layout("destroy_cq_in", 0x10)

	// Object is the number of the object that a command is about.
	Object = destroy.bits("cqn", 0x08, 23, 0)
)

// HeadSize is the smallest size of a command and of an answer.
const HeadSize = 0x10

// Where structures begin in commands and answers, in bytes (create_eq_in,
// create_cq_in, create_mkey_in, create_qp_in, create_xrc_srq_in, create_rmp_in,
// query_qp_out, query_hca_cap_out, query_hca_vport_context_out, access_register_in,
// mad_ifc_in); rst2init_qp_in and its kind have the context where create_qp_in does.
const (
	Context      = 0x10  // of event queues, completion queues, memory keys and shared receive queues
	QPContext    = 0x18  // of queue pairs
	RMPContext   = 0x20  // of receive memory pools
	RMPQueue     = 0x50  // the work queue of a receive memory pool
	EventMask    = 0x58  // of event queues: which events, 64 bits
	Pages        = 0x110 // the list of pages of a queue or a memory key, 8 bytes each
	Capability   = 0x10
	VirtualPorts = 0x10
	RegisterData = 0x10
	MAD          = 0x10
	MADSize      = 0x100
	PrimaryPath  = 0x18 // of a queue pair, in its context (qpc)
	PathGID      = 0x10 // in a path (ads)
)

// Status is how firmware judges a command (linux/mlx5/device.h, MLX5_CMD_STAT_*).
type Status uint8

const (
	OK             Status = 0x00
	InternalError  Status = 0x01
	BadOpcode      Status = 0x02
	BadParameter   Status = 0x03
	BadSystemState Status = 0x04
	BadResource    Status = 0x05
	ResourceBusy   Status = 0x06
	ExceedsLimit   Status = 0x08
	BadState       Status = 0x09
	BadIndex       Status = 0x0a
	NoResources    Status = 0x0f
	BadQPState     Status = 0x10
	BadSize        Status = 0x40
	BadInputLength Status = 0x50
	BadOutputSize  Status = 0x51
)

// Delivery is how a command came to be carried out, or why not (Linux mlx5_core
// cmd.c, MLX5_CMD_DELIVERY_STAT_*).
type Delivery uint8

const (
	Delivered      Delivery = 0x00
	BadToken       Delivery = 0x02
	BadBlockNumber Delivery = 0x03
	BadOutPointer  Delivery = 0x04
	BadInPointer   Delivery = 0x05
	BadInLength    Delivery = 0x07
	BadOutLength   Delivery = 0x08
	BadReserved    Delivery = 0x09
	BadCommandType Delivery = 0x10
)

// CapabilityType is which capabilities QUERY_HCA_CAP and SET_HCA_CAP are about: the
// modifier without its lowest bit, which asks for the current ones instead of the
// largest (linux/mlx5/device.h, enum mlx5_cap_type).
const (
	CapGeneral  = 0
	CapEthernet = 1
	CapAtomic   = 3
	CapRoCE     = 4
	CapFlow     = 7
)

// Registers of ACCESS_REG (linux/mlx5/driver.h, MLX5_REG_*).
const (
	RegisterPMTU           = 0x5003
	RegisterPTYS           = 0x5004
	RegisterPAOS           = 0x5006
	RegisterPPCNT          = 0x5008
	RegisterPVLC           = 0x500f
	RegisterNodeDescriptor = 0x6001
	RegisterHostEndianness = 0x7004
)
