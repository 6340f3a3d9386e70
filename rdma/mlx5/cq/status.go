package cq

import (
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/verbs"
)

// status is the status that the syndrome of an error completion stands for, as
// rdma-core's providers/mlx5 maps them.
func status(s prm.Syndrome) verbs.Status {
	switch s {
	case prm.SyndromeLocalLength:
		return verbs.LocalLength
	case prm.SyndromeLocalQPOperation:
		return verbs.LocalQPOperation
	case prm.SyndromeLocalProtection:
		return verbs.LocalProtection
	case prm.SyndromeFlushed:
		return verbs.Flushed
	case prm.SyndromeMemoryWindowBind:
		return verbs.MWBind
	case prm.SyndromeBadResponse:
		return verbs.BadResponse
	case prm.SyndromeLocalAccess:
		return verbs.LocalAccess
	case prm.SyndromeRemoteInvalidRequest:
		return verbs.RemoteInvalid
	case prm.SyndromeRemoteAccess:
		return verbs.RemoteAccess
	case prm.SyndromeRemoteOperation:
		return verbs.RemoteOperation
	case prm.SyndromeRetryExceeded:
		return verbs.RetryExceeded
	case prm.SyndromeRNRRetryExceeded:
		return verbs.RNRRetryExceeded
	case prm.SyndromeRemoteAborted:
		return verbs.RemoteAborted
	}
	return verbs.GeneralError
}
