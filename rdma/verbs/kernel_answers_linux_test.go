package verbs_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
)

// A party is a device that questions are put to: the kernel's, or the software
// NIC. It differs in what a driver says to its device and in nothing else.
type party struct {
	t    *testing.T
	c    *verbs.Context
	mem  *hostmem.Memory
	used int
	pd   uint32
	cq   uint32
	gid  verbs.GIDEntry // of the IPv4 address

	pdOut       func() []byte
	cqIn, cqOut func() []byte
	qpIn, qpOut func() []byte
	channel     *verbs.CompChannel
}

const partyMemory = 1 << 20

func newParty(t *testing.T, c *verbs.Context, p *party) *party {
	p.t, p.c = t, c
	var err error
	p.mem, err = hostmem.Alloc(partyMemory)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.channel.Close()
		require.NoError(t, p.c.Close())
		require.NoError(t, p.mem.Free())
	})
	p.channel, err = c.CreateCompChannel()
	require.NoError(t, err)
	p.pd, err = c.AllocPD(p.pdOut())
	require.NoError(t, err)
	p.cq, err = p.createCQ(func(*verbs.CreateCQ) {})
	require.NoError(t, err)
	table, err := c.GIDs(1)
	require.NoError(t, err)
	for _, g := range table {
		if g.GID.IsV4() {
			p.gid = g
		}
	}
	return p
}

// alloc is the address of n bytes.
func (p *party) alloc(n int) uint64 {
	at := p.used
	p.used = (at + n + 4095) &^ 4095
	return p.mem.Addr() + uint64(at)
}

func (p *party) createCQ(change func(*verbs.CreateCQ)) (uint32, error) {
	q := verbs.CreateCQ{Entries: 15, Channel: p.channel, In: p.cqIn(), Out: p.cqOut()}
	change(&q)
	cq, err := p.c.CreateCQ(q)
	return cq.Handle, err
}

func (p *party) createQP(kind verbs.QPType, change func(*verbs.CreateQP)) (verbs.QP, error) {
	q := verbs.CreateQP{PD: p.pd, SendCQ: p.cq, RecvCQ: p.cq, Type: kind,
		Cap: verbs.QPCap{SendWR: 4, RecvWR: 4, SendSGE: 1, RecvSGE: 1}, In: p.qpIn(), Out: p.qpOut()}
	change(&q)
	return p.c.CreateQP(q)
}

// parties are Soft-RoCE in this kernel and the software NIC, with the same
// addresses.
func parties(t *testing.T) (kernel, soft *party) {
	if os.Getenv("FARWIRE_VM") == "" {
		t.Skip("this test is for a virtual machine: make vm")
	}
	return kernelParty(t), softParty(t)
}

func kernelParty(t *testing.T) *party {
	for _, line := range []string{"ip link add ta type veth peer name tb", "ip addr add 10.76.0.1/24 dev ta",
		"ip link set tb up", "ip link set ta up", "rdma link add rxea type rxe netdev ta"} {
		args := strings.Fields(line)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "ta").Run() })
	var c *verbs.Context
	require.Eventually(t, func() bool {
		devices, err := verbs.Devices("")
		require.NoError(t, err)
		for _, d := range devices {
			if d.Name != "rxea" || len(d.Ports[0].GIDs) < 2 {
				continue
			}
			f, err := d.Open()
			require.NoError(t, err)
			c, err = verbs.NewContext(f, verbs.DriverRXE, nil, nil)
			require.NoError(t, err)
			return true
		}
		return false
	}, 30*time.Second, 50*time.Millisecond)
	none := func() []byte { return nil }
	return newParty(t, c, &party{pdOut: none, cqIn: none, qpIn: none,
		cqOut: func() []byte { return make([]byte, 16) }, qpOut: func() []byte { return make([]byte, 32) }})
}

func softParty(t *testing.T) *party {
	nic, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork(),
		Addr: netip.MustParseAddr("10.76.0.1"), StaticUAR: true, RoCEv2Only: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nic.Close()) })
	f, err := nic.Open()
	require.NoError(t, err)
	c, err := verbs.NewContext(f, verbs.DriverMLX5,
		prm.Bytes(&prm.AllocContextRequest{TotalRegisters: 16, LowLatencyRegisters: 4, MaxCQEVersion: 1, LibCaps: prm.LibCap4KUAR}), make([]byte, 72))
	require.NoError(t, err)
	p := &party{pdOut: func() []byte { return make([]byte, 8) }, cqOut: func() []byte { return make([]byte, 8) }, qpOut: func() []byte { return make([]byte, 40) }}
	p.cqIn = func() []byte {
		return prm.Bytes(&prm.CreateCQRequest{BufAddr: p.alloc(16 * prm.CQESize), RecordAddr: p.alloc(8), EntrySize: prm.CQESize})
	}
	p.qpIn = func() []byte {
		return prm.Bytes(&prm.CreateQPRequest{BufAddr: p.alloc(4096), RecordAddr: p.alloc(8), SendBlocks: 8, Receives: 4, ReceiveShift: 4, UserIndex: 1})
	}
	return newParty(t, c, p)
}

// errnoOf is the errno in an error, 0 for none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		return syscall.Errno(999)
	}
	return errno
}

// A question is a command.
type question struct {
	name string
	ask  func(p *party) error
}

// exceptions are what the software NIC answers where it does not follow Soft-RoCE.
var exceptions = map[string]syscall.Errno{
	"completion queue, no entries": 0,              // the mlx5 driver makes one
	"path, MTU 0":                  syscall.EINVAL, // the mlx5 driver's answer
	"path, multicast":              syscall.EINVAL, // a connection to a group would never work
	"path, IPv6 multicast":         syscall.EINVAL,
}

// TestKernelAnswers puts the same questions to the kernel and to the software NIC.
func TestKernelAnswers(t *testing.T) {
	kernel, soft := parties(t)
	for _, q := range questions() {
		k, s := errnoOf(q.ask(kernel)), errnoOf(q.ask(soft))
		want, excepted := exceptions[q.name]
		if !excepted {
			want = k
		}
		if want != s || excepted && k == s {
			t.Errorf("%s: kernel %v, software NIC %v", q.name, k, s)
		}
	}
}

func questions() (list []question) {
	add := func(name string, ask func(p *party) error) { list = append(list, question{name, ask}) }
	add("query port 0", func(p *party) error { _, err := p.c.QueryPort(0); return err })
	add("query port 2", func(p *party) error { _, err := p.c.QueryPort(2); return err })
	add("free domain in use", func(p *party) error {
		_, err := p.createQP(verbs.RC, func(*verbs.CreateQP) {})
		require.NoError(p.t, err)
		return p.c.DeallocPD(p.pd)
	})
	add("free no domain", func(p *party) error { return p.c.DeallocPD(12345) })
	add("free queue as domain", func(p *party) error { return p.c.DeallocPD(p.cq) })
	add("destroy queue in use", func(p *party) error { _, _, err := p.c.DestroyCQ(p.cq); return err })
	add("destroy no queue", func(p *party) error { _, _, err := p.c.DestroyCQ(12345); return err })
	add("destroy no pair", func(p *party) error { _, err := p.c.DestroyQP(12345); return err })
	add("destroy domain as pair", func(p *party) error { _, err := p.c.DestroyQP(p.pd); return err })
	add("deregister nothing", func(p *party) error { return p.c.DeregMR(12345) })
	add("query no pair", func(p *party) error { _, _, err := p.c.QueryQP(12345, 1); return err })
	add("query queue as pair", func(p *party) error { _, _, err := p.c.QueryQP(p.cq, 1); return err })
	add("modify no pair", func(p *party) error {
		return p.c.ModifyQP(12345, verbs.QPAttr{State: verbs.StateErr}, verbs.MaskState)
	})

	cq := func(name string, change func(*verbs.CreateCQ)) {
		add("completion queue, "+name, func(p *party) error { _, err := p.createCQ(change); return err })
	}
	cq("good", func(*verbs.CreateCQ) {})
	cq("no channel", func(q *verbs.CreateCQ) { q.Channel = nil })
	cq("vector", func(q *verbs.CreateCQ) { q.Vector = 4096 })
	cq("too many entries", func(q *verbs.CreateCQ) { q.Entries = 1 << 30 })
	cq("no entries", func(q *verbs.CreateCQ) { q.Entries = 0 })

	qp := func(name string, change func(*verbs.CreateQP)) {
		add("queue pair, "+name, func(p *party) error { _, err := p.createQP(verbs.RC, change); return err })
	}
	qp("no domain", func(q *verbs.CreateQP) { q.PD = 12345 })
	qp("queue as domain", func(q *verbs.CreateQP) { q.PD = q.SendCQ })
	qp("no send queue", func(q *verbs.CreateQP) { q.SendCQ = 12345 })
	qp("no receive queue", func(q *verbs.CreateQP) { q.RecvCQ = 12345 })
	qp("shared queue", func(q *verbs.CreateQP) { h := uint32(12345); q.SRQ = &h })
	qp("type", func(q *verbs.CreateQP) { q.Type = 77 })
	qp("too many sends", func(q *verbs.CreateQP) { q.Cap.SendWR = 1 << 30 })
	qp("too many segments", func(q *verbs.CreateQP) { q.Cap.SendSGE = 1 << 20 })

	mr := func(name string, change func(*verbs.RegMR)) {
		add("region, "+name, func(p *party) error {
			r := verbs.RegMR{PD: p.pd, Addr: p.mem.Addr(), IOVA: p.mem.Addr(), Length: 8192, Access: verbs.AccessLocalWrite}
			change(&r)
			m, err := p.c.RegMR(r)
			if err == nil {
				require.NoError(p.t, p.c.DeregMR(m.Handle))
			}
			return err
		})
	}
	mr("good", func(*verbs.RegMR) {})
	mr("other address", func(r *verbs.RegMR) { r.IOVA = 1 << 40 })
	mr("other offset", func(r *verbs.RegMR) { r.IOVA++ })
	mr("odd start", func(r *verbs.RegMR) { r.Addr += 3; r.IOVA += 3 })
	mr("no length", func(r *verbs.RegMR) { r.Length = 0 })
	mr("no domain", func(r *verbs.RegMR) { r.PD = 12345 })
	mr("nothing there", func(r *verbs.RegMR) { r.Addr, r.IOVA = 4096, 4096 })
	mr("address 0", func(r *verbs.RegMR) { r.Addr, r.IOVA = 0, 0 })
	mr("beyond what is there", func(r *verbs.RegMR) { r.Length = 1 << 36 })
	mr("around the end", func(r *verbs.RegMR) { r.Addr, r.IOVA = ^uint64(4095), ^uint64(4095); r.Length = 8192 })
	mr("no access", func(r *verbs.RegMR) { r.Access = 0 })
	mr("remote write alone", func(r *verbs.RegMR) { r.Access = verbs.AccessRemoteWrite })
	mr("remote atomic alone", func(r *verbs.RegMR) { r.Access = verbs.AccessRemoteAtomic })
	mr("remote read alone", func(r *verbs.RegMR) { r.Access = verbs.AccessRemoteRead })
	mr("relaxed", func(r *verbs.RegMR) { r.Access |= verbs.AccessRelaxedOrdering })
	mr("unknown optional access", func(r *verbs.RegMR) { r.Access |= 1 << 25 })
	mr("unknown access", func(r *verbs.RegMR) { r.Access |= 1 << 15 })

	rtr := func(name string, change func(*party, *verbs.QPAttr)) {
		add("path, "+name, func(p *party) error { return p.connect(change) })
	}
	parse := func(s string) verbs.GID { g, _ := verbs.ParseGID(s); return g }
	rtr("good", func(*party, *verbs.QPAttr) {})
	rtr("not global", func(_ *party, a *verbs.QPAttr) { a.Path.Global = false })
	rtr("empty slot", func(_ *party, a *verbs.QPAttr) { a.Path.SGIDIndex = 7 })
	rtr("port 0", func(_ *party, a *verbs.QPAttr) { a.Path.Port = 0 })
	rtr("port 2", func(_ *party, a *verbs.QPAttr) { a.Path.Port = 2 })
	rtr("no peer", func(_ *party, a *verbs.QPAttr) { a.Path.GID = verbs.GID{} })
	rtr("IPv6 from IPv4", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("fd00::9") })
	rtr("link-local from IPv4", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("fe80::9") })
	rtr("IPv4 from link-local", func(_ *party, a *verbs.QPAttr) { a.Path.SGIDIndex = 0 })
	rtr("nobody on the wire", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("10.76.0.9") })
	rtr("no route", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("192.0.2.1") })
	rtr("multicast", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("224.0.0.9") })
	rtr("IPv6 multicast", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("ff02::9") })
	rtr("loopback", func(_ *party, a *verbs.QPAttr) { a.Path.GID = parse("127.0.0.1") })
	rtr("MTU 0", func(_ *party, a *verbs.QPAttr) { a.MTU = 0 })
	rtr("MTU 6", func(_ *party, a *verbs.QPAttr) { a.MTU = 6 })
	return list
}

// steps are how a queue pair is connected to itself.
func (p *party) steps(q verbs.QP) []step {
	return []step{
		{verbs.QPAttr{State: verbs.StateInit, Port: 1}, verbs.MaskResetToInit},
		{verbs.QPAttr{State: verbs.StateRTR, MTU: verbs.MTU1024, PeerQPN: q.QPN, PeerReads: 1, MinRNRTimer: 12,
			Path: verbs.Path{Global: true, GID: p.gid.GID, SGIDIndex: uint8(p.gid.Index), Port: 1}}, verbs.MaskInitToRTR},
		{verbs.QPAttr{State: verbs.StateRTS, Timeout: 14, Retries: 7, RNRRetries: 7, Reads: 1}, verbs.MaskRTRToRTS},
	}
}

type step struct {
	attr verbs.QPAttr
	mask verbs.QPMask
}

// connect takes a queue pair to RTR, by a request that change has its way with.
func (p *party) connect(change func(*party, *verbs.QPAttr)) error {
	q, err := p.createQP(verbs.RC, func(*verbs.CreateQP) {})
	require.NoError(p.t, err)
	steps := p.steps(q)
	require.NoError(p.t, p.c.ModifyQP(q.Handle, steps[0].attr, steps[0].mask))
	a := steps[1].attr
	change(p, &a)
	err = p.c.ModifyQP(q.Handle, a, steps[1].mask)
	_, derr := p.c.DestroyQP(q.Handle)
	require.NoError(p.t, derr)
	return err
}

// TestKernelTransitions asks for every change of state with every bit of the mask
// too many or missing.
func TestKernelTransitions(t *testing.T) {
	kernel, soft := parties(t)
	asked := 0
	for _, from := range []verbs.QPState{verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateRTS, verbs.StateErr} {
		for to := verbs.QPState(0); to <= 7; to++ {
			if to == verbs.StateSQD {
				continue // Soft-RoCE has it, and mlx5 has not
			}
			for _, mask := range masks(to) {
				k, s := kernel.move(from, to, mask), soft.move(from, to, mask)
				asked++
				if k != s {
					t.Errorf("%v to %v with mask %#x: kernel %v, software NIC %v", from, to, uint32(mask), k, s)
				}
			}
		}
	}
	t.Log(asked, "changes asked for")
}

// masks are that which leads to a state, and those with one bit changed.
func masks(to verbs.QPState) []verbs.QPMask {
	base := verbs.MaskState
	switch to {
	case verbs.StateInit:
		base = verbs.MaskResetToInit
	case verbs.StateRTR:
		base = verbs.MaskInitToRTR
	case verbs.StateRTS:
		base = verbs.MaskRTRToRTS
	}
	list := []verbs.QPMask{base, verbs.MaskState}
	for bit := range 21 {
		if m := verbs.QPMask(1) << bit; m != verbs.MaskState {
			list = append(list, base^m)
		}
	}
	return list
}

// move makes a queue pair, takes it to a state and asks for the change.
func (p *party) move(from, to verbs.QPState, mask verbs.QPMask) syscall.Errno {
	q, err := p.createQP(verbs.RC, func(*verbs.CreateQP) {})
	require.NoError(p.t, err)
	defer func() {
		_, err := p.c.DestroyQP(q.Handle)
		require.NoError(p.t, err)
		p.used -= 2 * 4096 // its queue and its record
	}()
	steps := p.steps(q)
	all := verbs.QPAttr{Port: 1, MTU: verbs.MTU1024, PeerQPN: q.QPN, PeerReads: 1, Reads: 1, MinRNRTimer: 12, Timeout: 14,
		Retries: 7, RNRRetries: 7, Path: steps[1].attr.Path, State: to, CurState: from}
	n := int(from)
	if from == verbs.StateErr {
		n = 1
	}
	for _, s := range steps[:n] {
		require.NoError(p.t, p.c.ModifyQP(q.Handle, s.attr, s.mask))
	}
	if from == verbs.StateErr {
		require.NoError(p.t, p.c.ModifyQP(q.Handle, verbs.QPAttr{State: from}, verbs.MaskState))
	}
	got, _, err := p.c.QueryQP(q.Handle, verbs.MaskState)
	require.NoError(p.t, err)
	require.Equal(p.t, from, got.State)
	return errnoOf(p.c.ModifyQP(q.Handle, all, mask))
}
