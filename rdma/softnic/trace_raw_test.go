package softnic

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// traced is a configuration whose NICs are traced, and what they have told.
func traced() (Config, *told) {
	cfg, told := private(), &told{}
	cfg.Trace = told.tell
	return cfg, told
}

type told struct {
	mu   sync.Mutex
	list []*trace.Record
}

func (v *told) tell(r *trace.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, r.Clone())
}

func (v *told) all() []*trace.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.list)
}

// take is the records of a kind, and of a queue if that is not NoQueue, since the call before.
func (v *told) take(k trace.Kind, q trace.Queue) []*trace.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := slices.DeleteFunc(v.list, func(r *trace.Record) bool { return r.Kind != k || q != trace.NoQueue && r.Queue != q })
	v.list = nil
	return list
}

// Entries are told as they are in the ring, around its end too, with what is wrong with them.
func TestTraceOfEntries(t *testing.T) {
	cfg, told := traced()
	p := newRawPair(t, cfg)
	long := func() []byte { // an entry of three blocks
		w := make([]byte, 3*prm.Block)
		prm.PutCtrl(w, new(p.qa.ctrl(prm.OpWrite, len(w)/prm.Unit)))
		prm.PutRemote(w[prm.Unit:], p.mb.addr, p.mb.key)
		for at := 2 * prm.Unit; at < len(w); at += prm.Unit {
			prm.PutData(w[at:], p.ma.segment(at, 1+at%7))
		}
		return w
	}
	blocks := 0
	for range 7 { // more than once around
		w := long()
		p.qa.post(w)
		got := told.take(trace.Work, trace.SendQueue)
		require.Len(t, got, 1)
		require.Equal(t, w, got[0].Bytes)
		require.EqualValues(t, blocks, got[0].Index)
		require.Equal(t, p.qa.qpn, got[0].Number)
		require.EqualValues(t, uapi.QPTypeRC, got[0].QPType)
		require.Empty(t, got[0].Reason)
		var there [prm.Block]byte
		require.NoError(t, ownMemory{}.Read(got[0].Address, there[:]))
		require.Equal(t, w[:prm.Block], there[:])
		blocks += 3
		p.ca.wants(prm.CQERequester, 0, detailNone)
	}
	w := p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)
	w[11] |= 1 // a flag that is none
	p.qa.post(w)
	got := told.take(trace.Work, trace.SendQueue)
	require.Len(t, got, 1)
	require.Equal(t, w, got[0].Bytes)
	require.Contains(t, got[0].Reason, "unknown control flags")
}

// Of a command that is not well formed nothing is copied but the command.
func TestTraceOfMalformedCommand(t *testing.T) {
	cfg, told := traced()
	r := newRaw(t, newTestNIC(t, cfg))
	in := func() (in int) {
		for _, v := range told.take(trace.Ioctl, trace.NoQueue) {
			for _, a := range v.Command.Attrs {
				if a.In != nil {
					in++
				}
			}
		}
		return in
	}
	alloc := func(id uint16) error {
		return r.call(uapi.ObjectDevice, uapi.MethodInvokeWrite, func(c *uapi.Command) {
			c.Const(uapi.AttrWriteCmd, uapi.CmdAllocPD)
			c.In(uapi.AttrCoreIn, enc(uapi.AllocPD{}))
			c.Out(uapi.AttrCoreOut, 8)
			c.Out(uapi.AttrUHWOut, 8)
			if id != 0 {
				c.In(id, make([]byte, 1000))
			}
		})
	}
	in()
	require.NoError(t, alloc(0))
	require.NotZero(t, in())
	require.Error(t, alloc(0x999))
	require.Zero(t, in())
}

// An entry that is beyond the queue is not read.
func TestTraceOfOverposting(t *testing.T) {
	cfg, told := traced()
	p := newRawPair(t, cfg)
	w := p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0)
	p.qa.storeRecord(prm.RecordSend, 100)
	p.qa.doorbell(w)
	got := told.take(trace.Work, trace.SendQueue)
	require.NotEmpty(t, got)
	require.Empty(t, got[0].Bytes)
	require.Contains(t, got[0].Reason, "100 blocks posted to a queue of 16")
}

// The receive that a message takes is told before its completion, whosever it is.
func TestTraceOfReceives(t *testing.T) {
	cfg, told := traced()
	p := newSharedPair(t, cfg)
	for i := range uint16(3) {
		index := p.srq.receive(p.mb.segment(0, 64))
		p.send(p.qs[0], 32)
		for _, v := range told.all() {
			require.Equal(t, 1, v.File, "%+v", v)
		}
		got := told.take(trace.Work, trace.SharedQueue)
		require.Len(t, got, 1)
		require.Equal(t, p.srq.srqn, got[0].Number)
		require.EqualValues(t, index, got[0].Index)
		require.Equal(t, p.srq.entry(i), got[0].Bytes)
	}
	p.qb.receive(p.mb.segment(0, 0))
	p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 8, 0, 0))
	got := told.take(trace.Work, trace.ReceiveQueue)
	require.Len(t, got, 1)
	require.Equal(t, p.qb.buf[:1<<p.qb.shift], got[0].Bytes)
	require.Contains(t, got[0].Reason, "segment of no bytes")
}

// Completions are told as they lie in the ring, with the data in front.
func TestTraceOfCompletions(t *testing.T) {
	for size, format := range map[uint32]prm.CQEFormat{64: prm.CQEInline32, 128: prm.CQEInline64} {
		cfg, told := traced()
		r, cq, q := inlineLoop(t, cfg, size, prm.QPScatterCQE, 0)
		m := r.regMR(4096, allAccess)
		for n := range uint32(2) {
			q.receive(m.segment(0, 100))
			q.post(q.entry(prm.OpSend, m, 0, 20, 0, 0))
			got := told.take(trace.Completion, trace.CompletionQueue)
			require.Len(t, got, 2)
			require.Equal(t, format, prm.CQE(got[0].Bytes[len(got[0].Bytes)-prm.CQESize:]).Format())
			for i, v := range got {
				whole, e := cq.at(2*n + uint32(i))
				if i > 0 {
					whole = e // the sender's has no data
				}
				require.Equal(t, whole, v.Bytes)
				require.Equal(t, 2*n+uint32(i), v.Index)
				require.Equal(t, cq.cqn, v.Number)
			}
		}
	}
}

// Doorbells that were rung before the NIC looked are told as one, with the word that is
// known.
func TestTraceOfDoorbells(t *testing.T) {
	cfg, told := traced()
	p := newRawPair(t, cfg)
	n := p.na
	ring := func(words ...uint64) []*trace.Record {
		told.take(0, 0)
		n.lock()
		for _, w := range words {
			p.a.ring(0, prm.SendRegister, w)
		}
		n.unlock()
		return told.take(trace.Doorbell, 0)
	}
	first, second := p.qa.entry(prm.OpNop, p.ma, 0, 1, 0, 0), p.qa.entry(prm.OpSend, p.ma, 0, 1, 0, 0)
	got := ring(prm.SendDoorbell(first), prm.SendDoorbell(second))
	require.Len(t, got, 1)
	require.Equal(t, 2, got[0].Rings)
	require.Equal(t, second[:8], got[0].Bytes[:8])
	require.False(t, got[0].BlueFlame)
	require.EqualValues(t, prm.SendRegister, got[0].Offset)
	require.Equal(t, p.a.page, got[0].Number)

	got = ring(prm.SendDoorbell(first), 0)
	require.Len(t, got, 1)
	require.Equal(t, 2, got[0].Rings)
	require.Empty(t, got[0].Bytes)

	copy(p.a.pages[0].Mem[prm.SendRegister+8:], bytes.Repeat([]byte{1}, 24))
	require.True(t, ring(prm.SendDoorbell(second))[0].BlueFlame)
	require.False(t, ring(prm.SendDoorbell(second))[0].BlueFlame, "what lay there lies there still")
}

// An arm is told, the record that confirms it, and the event that it leads to.
func TestTraceOfEvents(t *testing.T) {
	cfg, told := traced()
	p := newRawPair(t, cfg)
	told.take(0, 0)
	p.ca.arm(false, 0, 0)
	v := prm.ArmValue(0, false, 0)
	require.Equal(t, [][]byte{enc(prm.ArmDoorbell(v, p.ca.cqn))}, bytesOf(told.take(trace.Doorbell, 0)))
	p.ca.arm(false, 0, 0)
	require.Equal(t, [][]byte{enc(prm.BE32(v))}, bytesOf(told.take(trace.RecordRead, trace.ArmWord)))
	p.qa.post(p.qa.entry(prm.OpWrite, p.ma, 0, 8, p.mb.addr, p.mb.key))
	got := told.take(trace.CompletionEvent, trace.CompletionQueue)
	require.Equal(t, [][]byte{enc(uapi.CompEvent{CQHandle: 0xc0})}, bytesOf(got))
	require.Equal(t, p.ca.cqn, got[0].Number)
	require.EqualValues(t, p.ca.eventFD, got[0].FD)
	require.Equal(t, 1, got[0].File)

	p.na.Fail()
	require.Equal(t, [][]byte{enc(uapi.AsyncEvent{EventType: uapi.EventDeviceFatal})}, bytesOf(told.take(trace.AsyncEvent, 0)))
}

func bytesOf(list []*trace.Record) (b [][]byte) {
	for _, r := range list {
		b = append(b, r.Bytes)
	}
	return b
}
