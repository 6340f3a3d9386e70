package rc

// State is the state of a queue pair.
//
//	state           requests in  answers in  requests out  answers out  works
//	Reset           dropped      dropped     no            no           kept
//	ReadyToReceive  executed     dropped     no            yes          kept
//	ReadyToSend     executed     executed    yes           yes          executed
//	Error           dropped      dropped     no            owed ones    flushed
//
//	Reset --StartReceive--> ReadyToReceive --StartSend--> ReadyToSend
//	any --Fail, or a fatal error of either half--> Error
//	any --Reset--> Reset
//
// There is no other way: StartReceive and StartSend in a wrong state return
// [ErrState], and an Error is left by Reset only.
type State uint8

// The states; those called INIT and RESET in the specification are one here,
// as nothing can be sent or received in either.
const (
	Reset State = iota
	ReadyToReceive
	ReadyToSend
	Error
)

func (s State) String() string {
	switch s {
	case Reset:
		return "reset"
	case ReadyToReceive:
		return "ready to receive"
	case ReadyToSend:
		return "ready to send"
	case Error:
		return "error"
	}
	return "unknown state"
}
