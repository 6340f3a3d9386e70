// Package perftest is the exchange by which the programs of perftest (ib_send_bw,
// ib_read_lat and the others) meet: what two ends tell each other over a TCP
// connection before, between and after the messages that the test is about. With it
// a Go program can be the other end of such a program. It is plain data and knows
// no device.
//
// The exchange is that of version 6.06 (perftest 4.5+0.17), as seen between two of
// its programs, without rdma_cm. Ends speak in turns, the client first, each with
// the same message:
//
//	Hello    once
//	Swap     each queue pair's record; then connect
//	Swap     the first record, when both are connected
//	Swap     each record, once more
//	Swap     the first record, when both are ready to begin
//	Report   after the messages: ib_write_bw, ib_read_bw, ib_atomic_bw, and ib_send_bw both ways
//	Finish   once: all but ib_write_lat, which just ends
package perftest
