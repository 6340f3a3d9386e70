package prm

import "fmt"

// Syndrome is the cause of an error completion (mlx5dv.h, MLX5_CQE_SYNDROME_*).
type Syndrome uint8

// The syndromes of error completions.
const (
	SyndromeLocalLength          Syndrome = 0x01
	SyndromeLocalQPOperation     Syndrome = 0x02
	SyndromeLocalProtection      Syndrome = 0x04
	SyndromeFlushed              Syndrome = 0x05
	SyndromeMemoryWindowBind     Syndrome = 0x06
	SyndromeBadResponse          Syndrome = 0x10
	SyndromeLocalAccess          Syndrome = 0x11
	SyndromeRemoteInvalidRequest Syndrome = 0x12
	SyndromeRemoteAccess         Syndrome = 0x13
	SyndromeRemoteOperation      Syndrome = 0x14
	SyndromeRetryExceeded        Syndrome = 0x15
	SyndromeRNRRetryExceeded     Syndrome = 0x16
	SyndromeRemoteAborted        Syndrome = 0x22
)

// String is the syndrome in words.
func (s Syndrome) String() string {
	switch s {
	case SyndromeLocalLength:
		return "local length"
	case SyndromeLocalQPOperation:
		return "local queue pair operation"
	case SyndromeLocalProtection:
		return "local protection"
	case SyndromeFlushed:
		return "flushed"
	case SyndromeMemoryWindowBind:
		return "memory window bind"
	case SyndromeBadResponse:
		return "bad response"
	case SyndromeLocalAccess:
		return "local access"
	case SyndromeRemoteInvalidRequest:
		return "remote invalid request"
	case SyndromeRemoteAccess:
		return "remote access"
	case SyndromeRemoteOperation:
		return "remote operation"
	case SyndromeRetryExceeded:
		return "transport retries exceeded"
	case SyndromeRNRRetryExceeded:
		return "receiver-not-ready retries exceeded"
	case SyndromeRemoteAborted:
		return "remote aborted"
	}
	return fmt.Sprintf("syndrome 0x%02x", uint8(s))
}
