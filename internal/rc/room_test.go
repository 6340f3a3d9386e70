package rc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

// No more goes out than there is room for, and the last packet asks to be acknowledged.
func TestRoom(t *testing.T) {
	s := newScript(t)
	s.q.SetRoom(2)
	s.post(Work{Op: OpSend, Length: 1024})
	s.want("SEND First 100 [256]", "SEND Middle 101 [256] A")
	require.True(t, s.q.Held())
	require.Equal(t, 2, s.q.Outstanding())

	s.step("acknowledged packets are no room: who has it says so")
	s.ack(101, roce.Ack)
	require.Zero(t, s.q.Outstanding())
	s.wantSilence()
	s.q.SetRoom(1)
	require.False(t, s.q.Held())
	s.want("SEND Middle 102 [256] A")
	require.True(t, s.q.Held())
	s.q.SetRoom(5)
	s.want("SEND Last 103 [256] A")
	require.False(t, s.q.Held(), "there was nothing more")

	s.step("what is sent again takes room too")
	s.q.SetRoom(1)
	s.ack(102, roce.NAKSequence)
	s.want("SEND Middle 102 [256] A")
	require.True(t, s.q.Held())
	require.Equal(t, 1, s.q.Outstanding())
	s.q.Fail()
	require.Zero(t, s.q.Outstanding())
}

// A READ has room for all of its answer, or waits.
func TestRoomForRead(t *testing.T) {
	s := newScript(t)
	s.q.SetRoom(2)
	s.post(Work{Op: OpRead, Length: 600, Remote: testVA, RKey: testKey})
	s.wantSilence()
	require.True(t, s.q.Held())
	s.q.SetRoom(3)
	s.want("RDMA READ Request 100 va=0x10000 key=0x77 len=600 A")
	require.Equal(t, 3, s.q.Outstanding())
}

// Answers go without.
func TestRoomOfAnswers(t *testing.T) {
	s := newScript(t)
	s.q.SetRoom(0)
	s.send(roce.Header{Opcode: roce.WriteOnly, PSN: 500, VA: testVA, RKey: testKey, Length: 4, AckRequested: true}, []byte("data"))
	s.want("Acknowledge 500 0x1f msn=1")
	require.False(t, s.q.Held())
}
