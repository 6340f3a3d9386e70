package softnic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

func newNullPair(t *testing.T) *rawPair {
	cfg := private()
	cfg.Null = true
	return newRawPair(t, cfg)
}

// Every operation completes, with keys that are none, and nothing moves.
func TestNullOperations(t *testing.T) {
	p := newNullPair(t)
	nothing := rawMR{addr: p.ma.addr, key: 1}
	for _, op := range []prm.Opcode{prm.OpSend, prm.OpSendImm, prm.OpWrite, prm.OpWriteImm, prm.OpRead, prm.OpFetchAdd, prm.OpCompareSwap} {
		p.qa.post(p.qa.entry(op, nothing, 0, 8, 4096, 2))
		e := p.ca.next()
		require.NotNil(t, e, "%v is complete when the doorbell was rung", op)
		require.Equal(t, prm.CQERequester, e.Opcode(), op)
		require.Equal(t, op, e.SendOpcode())
		require.Equal(t, uint16(p.qa.posted-1), e.WQECounter())
		require.EqualValues(t, 8, e.ByteCount())
	}
	require.Nil(t, p.cb.next())
	require.Zero(t, p.na.Counters().PacketsSent)
	require.EqualValues(t, uapi.QPRTS, p.qa.state())
}

// Messages fill the receives of the queue pair that sends them.
func TestNullReceives(t *testing.T) {
	p := newNullPair(t)
	p.ma.b[0] = 7
	for range 3 {
		p.qa.receive(p.ma.segment(0, 100))
	}
	for i, op := range []prm.Opcode{prm.OpSend, prm.OpSendImm, prm.OpWriteImm} {
		p.qa.post(p.qa.entry(op, p.ma, 4096, 100+100*(i/2), 0, 0)) // a write may be longer than the receive
		require.Equal(t, prm.CQERequester, p.ca.next().Opcode())
		e := p.ca.next()
		require.Equal(t, []prm.CQEOpcode{prm.CQEReceive, prm.CQEReceiveImm, prm.CQEWriteImm}[i], e.Opcode())
		require.EqualValues(t, i, e.WQECounter())
		require.EqualValues(t, 100+100*(i/2), e.ByteCount())
	}
	require.EqualValues(t, 7, p.ma.b[0], "nothing was moved")
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 100, 0, 0))
	require.Equal(t, prm.CQERequester, p.ca.next().Opcode(), "it needs no receive")
	require.Nil(t, p.ca.next())
}

// What is refused is refused as ever.
func TestNullErrors(t *testing.T) {
	t.Run("entry", func(t *testing.T) {
		p := newNullPair(t)
		good := p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)
		bad := p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)
		prm.PutCtrl(bad, new(p.qa.ctrl(99, 2)))
		p.qa.put(bad)
		prm.PutCtrl(good, new(p.qa.ctrl(prm.OpSend, 2)))
		p.qa.put(good)
		p.qa.doorbell(good)
		p.ca.wants(prm.CQERequesterError, prm.SyndromeLocalQPOperation, detail(prm.UnknownOpcode))
		p.ca.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
		require.EqualValues(t, uapi.QPErr, p.qa.state())
	})
	t.Run("short receive", func(t *testing.T) {
		p := newNullPair(t)
		p.qa.receive(p.ma.segment(0, 7))
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
		require.Equal(t, prm.CQERequester, p.ca.wait().Opcode())
		p.ca.wants(prm.CQEResponderError, prm.SyndromeLocalLength, detailOf(0x01))
		require.EqualValues(t, uapi.QPErr, p.qa.state())
	})
	t.Run("receive that cannot be used", func(t *testing.T) {
		p := newNullPair(t)
		p.qa.receive(prm.Segment{Addr: p.ma.addr, LKey: p.ma.key, Length: 1 << 31})
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
		require.Equal(t, prm.CQERequester, p.ca.wait().Opcode())
		require.Equal(t, prm.CQEResponderError, p.ca.wait().Opcode())
		require.EqualValues(t, uapi.QPErr, p.qa.state())
	})
}
