package softnic

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// outcome is what a completion queue was told.
type outcome struct {
	Opcode   prm.CQEOpcode
	Syndrome prm.Syndrome
	Vendor   uint8
	Bytes    uint32
	Imm      uint32
}

func outcomeOf(c *rawCQ) outcome {
	e := c.wait()
	o := outcome{Opcode: e.Opcode(), Imm: e.Imm()}
	if o.Opcode.IsError() {
		o.Syndrome, o.Vendor, o.Imm = e.Syndrome(), e.VendorSyndrome(), 0
	} else {
		o.Bytes = e.ByteCount()
	}
	return o
}

// What completes, and how, is the same whether messages are passed or go as packets.
func TestPassedAsPackets(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(p *rawPair)
		a, b   int // completions
		passed uint64
	}{
		"sizes": {func(p *rawPair) {
			for _, n := range []int{1, 64, 4096, 4097, 16 << 10} {
				p.qb.receive(p.mb.segment(0, 16<<10))
				p.qa.post(p.qa.entry(prm.OpSendImm, p.ma, 0, n, 0, 0))
			}
		}, 5, 5, 5},
		"late receive": {func(p *rawPair) {
			p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
			p.qb.receive(p.mb.segment(0, 10))
		}, 1, 1, 1},
		"behind a write": {func(p *rawPair) {
			p.qb.receive(p.mb.segment(0, 10))
			p.qa.put(p.qa.entry(prm.OpWrite, p.ma, 0, 10, p.mb.addr, p.mb.key))
			p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		}, 2, 1, 0},
		"too long": {func(p *rawPair) {
			p.qb.receive(p.mb.segment(0, 9))
			p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		}, 1, 1, 0},
		"receive without write access": {func(p *rawPair) {
			p.qb.receive(p.readOnly.segment(0, 10))
			p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		}, 1, 1, 0},
		"wrong key": {func(p *rawPair) {
			p.qb.receive(p.mb.segment(0, 10))
			p.qa.post(p.qa.entry(prm.OpSend, rawMR{addr: p.ma.addr, key: p.ma.key + 1<<8}, 0, 10, 0, 0))
		}, 1, 0, 0},
		"out of bounds": {func(p *rawPair) {
			p.qb.receive(p.mb.segment(0, 10))
			p.qa.post(p.qa.entry(prm.OpSend, p.ma, 64<<10-5, 10, 0, 0))
		}, 1, 0, 0},
		"sender's memory is gone": {func(p *rawPair) {
			p.qb.receive(p.mb.segment(0, 10))
			p.qa.post(p.qa.entry(prm.OpSend, vanished(p.a), 0, 10, 0, 0))
		}, 1, 0, 0},
		"receiver's memory is gone": {func(p *rawPair) {
			p.qb.receive(vanished(p.b).segment(0, 10))
			p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		}, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var outcomes [2][2][]outcome
			for i, packets := range []bool{false, true} {
				cfg := passing()
				cfg.Packets = packets
				p := newRawPair(t, cfg)
				c.do(p)
				for range c.a {
					outcomes[i][0] = append(outcomes[i][0], outcomeOf(p.ca))
				}
				for range c.b {
					outcomes[i][1] = append(outcomes[i][1], outcomeOf(p.cb))
				}
				if packets {
					require.Zero(t, p.na.Counters().Passed)
					require.NotZero(t, p.na.Counters().PacketsSent+p.na.Counters().ErrorCompletions)
				} else if name != "late receive" { // which may come in time
					require.Equal(t, c.passed, p.na.Counters().Passed)
				}
			}
			require.Equal(t, outcomes[1], outcomes[0])
		})
	}
}

// vanished is a region whose memory has been unmapped.
func vanished(r *raw) rawMR {
	mem, err := hostmem.Alloc(4096)
	require.NoError(r.t, err)
	reply, _, err := r.write(uapi.CmdRegMR, enc(uapi.RegMR{Start: mem.Addr(), HcaVa: mem.Addr(), Length: 4096,
		PDHandle: r.pd, AccessFlags: allAccess}), 12, nil, 0)
	require.NoError(r.t, err)
	require.NoError(r.t, mem.Free())
	return rawMR{addr: mem.Addr(), key: uint32(reply[4]) | uint32(reply[5])<<8 | uint32(reply[6])<<16 | uint32(reply[7])<<24}
}

// Where something could be seen of packets, there are some.
func TestNotPassed(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    func(*Config)
		change func(*NIC)
	}{
		"packets":      {cfg: func(c *Config) { c.Packets = true }},
		"faults":       {cfg: func(c *Config) { c.Faults.Duplicate = 1e-9 }},
		"capture":      {cfg: func(c *Config) { c.PcapFile = filepath.Join(t.TempDir(), "pcap") }},
		"later faults": {change: func(n *NIC) { require.NoError(t, n.SetFaults(Faults{Delay: 1})) }},
		"held":         {change: (*NIC).HoldCompletions},
	} {
		for _, at := range []string{"sender", "receiver"} {
			t.Run(name+" at the "+at, func(t *testing.T) {
				ca, cb := passing(), passing()
				cb.Network = ca.Network
				spoiled := &ca
				if at == "receiver" {
					spoiled = &cb
				}
				if c.cfg != nil {
					c.cfg(spoiled)
				}
				p := connectRaw(t, newTestNIC(t, ca), newTestNIC(t, cb))
				n := map[string]*NIC{"sender": p.na, "receiver": p.nb}[at]
				if c.change != nil {
					c.change(n)
				}
				p.qb.receive(p.mb.segment(0, 10))
				p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
				n.ReleaseCompletions()
				p.ca.wait()
				require.Zero(t, p.na.Counters().Passed)
				require.NotZero(t, p.na.Counters().PacketsSent)
			})
		}
	}
	t.Run("port down", func(t *testing.T) {
		p := newRawPair(t, passing())
		p.nb.SetPort(false)
		p.qb.receive(p.mb.segment(0, 10))
		p.qa.post(p.qa.entry(prm.OpSend, p.ma, 0, 10, 0, 0))
		require.NotZero(t, p.nb.Counters().DropPortDown)
		p.nb.SetPort(true)
		p.ca.wait() // sent again
	})
}

// Two ends that send to each other at once, each holding the other's NIC now and then,
// neither stop nor lose a message.
func TestPassBothWays(t *testing.T) {
	p := newRawPair(t, passing())
	const rounds = 2000
	var wg sync.WaitGroup
	for _, e := range []struct {
		q *rawQP
		c *rawCQ
		m rawMR
	}{{p.qa, p.ca, p.ma}, {p.qb, p.cb, p.mb}} {
		e.q.receive(e.m.segment(0, 64))
		wg.Go(func() {
			for range rounds {
				e.q.receive(e.m.segment(0, 64))
				e.q.post(e.q.entry(prm.OpSend, e.m, 64, 64, 0, 0))
				for range 2 { // what was sent, and what came
					e.c.wait()
				}
			}
		})
	}
	wg.Wait()
	a, b := p.na.Counters(), p.nb.Counters()
	require.Equal(t, uint64(4*rounds), a.Completions+b.Completions)
	t.Logf("%d of %d messages passed", a.Passed+b.Passed, 2*rounds)
	require.NotZero(t, a.Passed+b.Passed)
}

// What was brought to a NIC while a command of another one held it is done when the
// command is over.
func TestDisturbedByCommand(t *testing.T) {
	p := newRawPair(t, passing())
	p.qb.receive(p.mb.segment(0, 10))
	p.na.lock()
	p.nb.mu.Lock()
	p.qb.nop(prm.CQEUpdate) // finds the NIC taken
	p.na.letGo(p.nb)
	require.Nil(t, p.cb.next())
	p.na.unlock()
	require.NotNil(t, p.cb.next())
}
