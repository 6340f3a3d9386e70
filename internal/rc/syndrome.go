package rc

import "fmt"

// Syndrome is the outcome of a work or a receive. The values are those of the
// completion queue entries of ConnectX NICs (MLX5_CQE_SYNDROME_* of Linux
// include/linux/mlx5/device.h).
type Syndrome uint8

// The outcomes, with the status of the verbs API each stands for.
const (
	OK                      Syndrome = 0x00
	LocalLength             Syndrome = 0x01 // LOC_LEN_ERR
	LocalQPOperation        Syndrome = 0x02 // LOC_QP_OP_ERR
	LocalProtection         Syndrome = 0x04 // LOC_PROT_ERR
	Flushed                 Syndrome = 0x05 // WR_FLUSH_ERR
	BadResponse             Syndrome = 0x10 // BAD_RESP_ERR
	LocalAccess             Syndrome = 0x11 // LOC_ACCESS_ERR
	RemoteInvalidRequest    Syndrome = 0x12 // REM_INV_REQ_ERR
	RemoteAccess            Syndrome = 0x13 // REM_ACCESS_ERR
	RemoteOperation         Syndrome = 0x14 // REM_OP_ERR
	RetriesExceeded         Syndrome = 0x15 // RETRY_EXC_ERR
	NotReadyRetriesExceeded Syndrome = 0x16 // RNR_RETRY_EXC_ERR
)

func (s Syndrome) String() string {
	switch s {
	case OK:
		return "ok"
	case LocalLength:
		return "local length error"
	case LocalQPOperation:
		return "local queue pair operation error"
	case LocalProtection:
		return "local protection error"
	case Flushed:
		return "flushed"
	case BadResponse:
		return "bad response"
	case LocalAccess:
		return "local access error"
	case RemoteInvalidRequest:
		return "remote invalid request"
	case RemoteAccess:
		return "remote access error"
	case RemoteOperation:
		return "remote operation error"
	case RetriesExceeded:
		return "retries exceeded"
	case NotReadyRetriesExceeded:
		return "receiver-not-ready retries exceeded"
	}
	return fmt.Sprintf("syndrome %#02x", uint8(s))
}
