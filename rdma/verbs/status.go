package verbs

import "fmt"

// Status is the outcome of a work request (ib_verbs.h, enum ib_wc_status).
type Status uint8

// The statuses.
const (
	Success           Status = 0
	LocalLength       Status = 1 // message does not fit the local buffers
	LocalQPOperation  Status = 2 // the queue pair could not do it
	LocalEECOperation Status = 3
	LocalProtection   Status = 4 // local key does not cover the buffer
	Flushed           Status = 5 // the queue pair was in error
	MWBind            Status = 6
	BadResponse       Status = 7
	LocalAccess       Status = 8
	RemoteInvalid     Status = 9  // the peer cannot accept this request
	RemoteAccess      Status = 10 // remote key does not allow it
	RemoteOperation   Status = 11
	RetryExceeded     Status = 12 // the peer did not answer
	RNRRetryExceeded  Status = 13 // the peer posted no receive
	LocalRDDViolation Status = 14
	RemoteInvalidRD   Status = 15
	RemoteAborted     Status = 16
	InvalidEECN       Status = 17
	InvalidEECState   Status = 18
	Fatal             Status = 19
	ResponseTimeout   Status = 20
	GeneralError      Status = 21
)

var statusNames = []string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "work request flushed", "memory window bind error", "bad response",
	"local access error", "remote invalid request", "remote access error", "remote operation error",
	"transport retries exceeded", "receiver-not-ready retries exceeded", "local RDD violation",
	"remote invalid RD request", "remote aborted", "invalid EE context number",
	"invalid EE context state", "fatal error", "response timeout", "general error",
}

// String describes the status in a few lower-case words.
func (s Status) String() string { return name(int(s), statusNames, "status") }

// StatusError is a work request that did not succeed.
type StatusError struct {
	Status   Status
	Syndrome uint8  // the device's own code for Status
	Vendor   uint8  // the device's further detail
	Opcode   string // what was posted, e.g. "RDMA write"; "" if unknown
	QPN      uint32
}

// Error describes the failure with everything a vendor's support will ask for.
func (e *StatusError) Error() string {
	op := e.Opcode
	if op == "" {
		op = "work request"
	}
	return fmt.Sprintf("%s on queue pair %#x: %s (syndrome %#x, vendor %#x)", op, e.QPN, e.Status, e.Syndrome, e.Vendor)
}

// Is makes errors.Is match another StatusError of the same status whose other
// fields are zero, so that errors.Is(err, &StatusError{Status: Flushed}) works.
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && *t == StatusError{Status: e.Status}
}
