package rc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// windowOf makes the window of so many packets.
func windowOf(n int) func(*Params, *Receiving, *Sending) {
	return func(p *Params, _ *Receiving, _ *Sending) { p.Window = n }
}

// A READ whose answer is longer than half the window is asked for in pieces of that
// size, and never for more than the window has room for.
func TestReadInPieces(t *testing.T) {
	s := newScript(t, windowOf(4))
	data := pattern(5*256 - 6)
	s.post(Work{Slot: 1, Op: OpRead, Length: uint32(len(data)), Remote: testVA, RKey: testKey})
	clear(s.host.local[1])
	s.post(Work{Slot: 2, Op: OpSend})
	s.want("RDMA READ Request 100 va=0x10000 key=0x77 len=512 A", "RDMA READ Request 102 va=0x10200 key=0x77 len=512 A")
	s.respond(roce.ReadResponseFirst, 100, data[:256])
	s.want("RDMA READ Request 104 va=0x10400 key=0x77 len=250 A")
	s.respond(roce.ReadResponseLast, 101, data[256:512])
	s.want("SEND Only 105 [0] A")
	s.respond(roce.ReadResponseFirst, 102, data[512:768])
	s.respond(roce.ReadResponseLast, 103, data[768:1024])
	s.wantDone()
	s.respond(roce.ReadResponseOnly, 104, data[1024:])
	s.wantDone(done{1, OK, uint32(len(data))})
	require.Equal(t, data, s.host.local[1])
	s.ack(105, roce.Ack)
	s.wantDone(done{2, OK, 0})
}

// To the peer each piece is a READ: no more of them are outstanding than it allows.
func TestReadPiecesCountAsReads(t *testing.T) {
	s := newScript(t, windowOf(4), func(_ *Params, _ *Receiving, a *Sending) { a.Reads = 1 })
	data := pattern(4 * 256)
	s.post(Work{Slot: 1, Op: OpRead, Length: 4 * 256, Remote: testVA, RKey: testKey})
	s.want("RDMA READ Request 100 va=0x10000 key=0x77 len=512 A")
	s.respond(roce.ReadResponseFirst, 100, data[:256])
	s.wantSilence()
	s.respond(roce.ReadResponseLast, 101, data[256:512])
	s.want("RDMA READ Request 102 va=0x10200 key=0x77 len=512 A")
	s.respond(roce.ReadResponseFirst, 102, data[512:768])
	s.step("lost: the request is for the rest of the piece, and is one READ")
	s.advance(testWait)
	s.want("RDMA READ Request 103 va=0x10300 key=0x77 len=256 A")
	s.respond(roce.ReadResponseOnly, 103, data[768:])
	s.wantDone(done{1, OK, 4 * 256})
	s.post(Work{Slot: 2, Op: OpFetchAdd})
	s.want("Fetch and Add 104 va=0x0 key=0x0 swapadd=0 compare=0 A")
}

// A repeated request lies within one that the peer remembers.
func TestReadPiecesAgain(t *testing.T) {
	s := newScript(t, windowOf(6))
	data := pattern(6 * 256)
	s.post(Work{Slot: 1, Op: OpRead, Length: 6 * 256, Remote: testVA, RKey: testKey})
	clear(s.host.local[1])
	s.want("RDMA READ Request 100 va=0x10000 key=0x77 len=768 A", "RDMA READ Request 103 va=0x10300 key=0x77 len=768 A")
	s.respond(roce.ReadResponseFirst, 100, data[:256])
	s.step("the first packet of the second piece shows that some of the first are lost")
	s.respond(roce.ReadResponseFirst, 103, data[768:1024])
	s.want("RDMA READ Request 101 va=0x10100 key=0x77 len=512 A", "RDMA READ Request 103 va=0x10300 key=0x77 len=768 A")
	s.respond(roce.ReadResponseFirst, 101, data[256:512])
	s.respond(roce.ReadResponseLast, 102, data[512:768])
	s.step("answers to both requests for the second piece are alike")
	s.respond(roce.ReadResponseFirst, 103, data[768:1024])
	s.respond(roce.ReadResponseMiddle, 104, data[1024:1280])
	s.respond(roce.ReadResponseLast, 105, data[1280:])
	s.wantDone(done{1, OK, 6 * 256})
	require.Equal(t, data, s.host.local[1])
}

// A piece has a last packet, and begins with a first one.
func TestReadPieceOutOfShape(t *testing.T) {
	for _, op := range []roce.Opcode{roce.ReadResponseMiddle, roce.ReadResponseFirst} {
		s := newScript(t, windowOf(4))
		s.post(Work{Slot: 1, Op: OpRead, Length: 1024})
		s.want("RDMA READ Request 100 va=0x0 key=0x0 len=512 A", "RDMA READ Request 102 va=0x200 key=0x0 len=512 A")
		s.respond(roce.ReadResponseFirst, 100, pattern(256))
		s.respond(op, 101, pattern(256))
		s.wantDone(done{1, BadResponse, 0})
	}
	s := newScript(t, windowOf(4))
	s.post(Work{Slot: 1, Op: OpRead, Length: 1024})
	s.want("RDMA READ Request 100 va=0x0 key=0x0 len=512 A", "RDMA READ Request 102 va=0x200 key=0x0 len=512 A")
	s.respond(roce.ReadResponseFirst, 100, pattern(256))
	s.respond(roce.ReadResponseLast, 101, pattern(256))
	s.respond(roce.ReadResponseMiddle, 102, pattern(256))
	s.wantDone()
	s.want("RDMA READ Request 102 va=0x200 key=0x0 len=512 A")
}
