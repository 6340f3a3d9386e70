package uapi

// States of a queue pair (ib_verbs.h, enum ib_qp_state).
const (
	QPReset = 0
	QPInit  = 1
	QPRTR   = 2
	QPRTS   = 3
	QPSQD   = 4
	QPSQE   = 5
	QPErr   = 6
)

// Bits of ModifyQP.AttrMask and QueryQP.AttrMask (ib_verbs.h, enum
// ib_qp_attr_mask).
const (
	QPAttrState           = 1 << 0
	QPAttrCurState        = 1 << 1
	QPAttrEnSQDNotify     = 1 << 2
	QPAttrAccessFlags     = 1 << 3
	QPAttrPkeyIndex       = 1 << 4
	QPAttrPort            = 1 << 5
	QPAttrQkey            = 1 << 6
	QPAttrAV              = 1 << 7
	QPAttrPathMTU         = 1 << 8
	QPAttrTimeout         = 1 << 9
	QPAttrRetryCnt        = 1 << 10
	QPAttrRnrRetry        = 1 << 11
	QPAttrRqPsn           = 1 << 12
	QPAttrMaxRdAtomic     = 1 << 13
	QPAttrAltPath         = 1 << 14
	QPAttrMinRnrTimer     = 1 << 15
	QPAttrSqPsn           = 1 << 16
	QPAttrMaxDestRdAtomic = 1 << 17
	QPAttrPathMigState    = 1 << 18
	QPAttrCap             = 1 << 19
	QPAttrDestQpn         = 1 << 20
	QPAttrRateLimit       = 1 << 25 // extended MODIFY_QP only
)

// The masks a datagram queue pair's transitions need and allow.
const (
	UDResetToInit       = QPAttrState | QPAttrPkeyIndex | QPAttrPort | QPAttrQkey
	UDInitToRTR         = QPAttrState
	UDInitToRTROptional = QPAttrPkeyIndex | QPAttrQkey
	UDRTRToRTS          = QPAttrState | QPAttrSqPsn
	UDRTRToRTSOptional  = QPAttrCurState | QPAttrQkey
)

// The masks an unreliable-connection queue pair's transitions need and allow.
const (
	UCResetToInit       = QPAttrState | QPAttrAccessFlags | QPAttrPkeyIndex | QPAttrPort
	UCInitToRTR         = QPAttrState | QPAttrAV | QPAttrPathMTU | QPAttrRqPsn | QPAttrDestQpn
	UCInitToRTROptional = QPAttrAccessFlags | QPAttrPkeyIndex | QPAttrAltPath
	UCRTRToRTS          = QPAttrState | QPAttrSqPsn
	UCRTRToRTSOptional  = QPAttrCurState | QPAttrAccessFlags | QPAttrAltPath | QPAttrPathMigState
)

// The masks a reliable-connection queue pair's transitions need and allow
// (ib_core's qp_state_table). Any other bit, or a missing one, is EINVAL.
const (
	RCResetToInit = QPAttrState | QPAttrAccessFlags | QPAttrPkeyIndex | QPAttrPort

	RCInitToRTR = QPAttrState | QPAttrAV | QPAttrPathMTU | QPAttrRqPsn | QPAttrMinRnrTimer |
		QPAttrMaxDestRdAtomic | QPAttrDestQpn
	RCInitToRTROptional = QPAttrAccessFlags | QPAttrPkeyIndex | QPAttrAltPath

	RCRTRToRTS = QPAttrState | QPAttrTimeout | QPAttrRetryCnt | QPAttrRnrRetry |
		QPAttrMaxRdAtomic | QPAttrSqPsn
	RCRTRToRTSOptional = QPAttrCurState | QPAttrAccessFlags | QPAttrAltPath |
		QPAttrMinRnrTimer | QPAttrPathMigState
)
