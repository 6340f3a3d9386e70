package rc

// Counters count since the last [QP.Reset]. Names in comments are those of the
// hardware counters of ConnectX NICs.
type Counters struct {
	RequestsSent      uint64 // request packets, repeated ones too
	RequestsRepeated  uint64 // request packets sent again
	RequestsReceived  uint64 // request packets, whatever became of them
	ResponsesSent     uint64
	ResponsesReceived uint64

	Passed uint64 // messages carried to the peer by Pass, without packets

	Timeouts      uint64 // local_ack_timeout_err
	SequenceNAKs  uint64 // packet_seq_err: sequence NAKs received
	ImpliedNAKs   uint64 // implied_nak_seq_err: lost answers noticed by a later one
	NotReadyNAKs  uint64 // RNR NAKs received
	OutOfSequence uint64 // out_of_sequence: requests ahead of the expected one
	Duplicates    uint64 // duplicate_request
	WentBack      uint64 // losses: everything from the oldest request on was sent again
	OutOfBuffer   uint64 // out_of_buffer: requests without a receive

	Fates [NumFates]uint64 // of the packets received
}
