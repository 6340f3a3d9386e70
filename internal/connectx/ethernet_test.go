package connectx

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// newEthernetGuest has a device with an Ethernet port on a network.
func newEthernetGuest(t testing.TB, network *softnic.Network) *guest {
	t.Helper()
	return newGuestOn(t, softnic.Config{Unaddressed: true, Network: network})
}

func gid(addr string) verbs.GID { return verbs.GIDFrom(netip.MustParseAddr(addr)) }

// roceAddress is a SET_ROCE_ADDRESS.
func roceAddress(slot uint64, g verbs.GID, version uint64) []byte {
	in, c := command(ifc.SetRoCEAddress, 0x30), &ifc.RoCEAddress
	c.Slot.Put(in, slot)
	c.Version.Put(in, version)
	copy(in[ifc.RoCEAddressGID:], g[:])
	return in
}

// What the driver must find to make an interface, and GIDs for it (Linux mlx5_core
// en_main.c, mlx5e_check_required_hca_cap; mlx5_ib main.c, mlx5_eth_lag_init and
// get_port_caps).
func TestEthernetCapabilities(t *testing.T) {
	g := newEthernetGuest(t, softnic.NewNetwork())
	query := func(kind uint64) []byte {
		in := command(ifc.QueryCapabilities, 16)
		ifc.Command.Modifier.Put(in, kind<<1|1)
		return g.do(in, 16+capabilitySize)[ifc.Capability:]
	}
	c := &ifc.Capabilities
	general := query(ifc.CapGeneral)
	require.EqualValues(t, portTypeEthernet, c.PortType.Get(general))
	for _, f := range []ifc.Field{c.RoCE, c.Ethernet, c.FlowTables} {
		require.True(t, f.Bool(general))
	}
	for _, f := range []ifc.Field{ifc.EthernetCapabilities.Checksums, ifc.EthernetCapabilities.MaxSegmentation, ifc.EthernetCapabilities.VLANs,
		ifc.EthernetCapabilities.LogIndirection, ifc.EthernetCapabilities.LoopbackModifiable} {
		require.True(t, f.Bool(query(ifc.CapEthernet)))
	}
	require.GreaterOrEqual(t, ifc.FlowTables.Levels.Get(query(ifc.CapFlow)[ifc.ReceiveFlowTables:]), uint64(3))
	require.EqualValues(t, 1<<1|1<<2, ifc.RoCECapabilities.Layers.Get(query(ifc.CapRoCE)), "IPv4 and IPv6")
	require.EqualValues(t, 1<<2, ifc.RoCECapabilities.Versions.Get(query(ifc.CapRoCE)), "v2 alone")

	ib := newGuest(t)
	in := command(ifc.QueryCapabilities, 16)
	ifc.Command.Modifier.Put(in, ifc.CapRoCE<<1)
	_, status := ib.try(in, 16+capabilitySize)
	require.Equal(t, ifc.BadParameter, status)
	_, status = ib.try(command(ifc.QueryPortState, 16), 16)
	require.Equal(t, ifc.BadOpcode, status, "InfiniBand has no Ethernet commands")
}

func TestEthernetPort(t *testing.T) {
	g := newEthernetGuest(t, softnic.NewNetwork())
	c := &ifc.EthernetPort
	query := func() []byte {
		return g.do(command(ifc.QueryEthernetPort, 16), 16+ifc.EthernetPortSize)[ifc.EthernetPorts:]
	}
	mac := c.PermanentAddress.Get(query())
	require.Equal(t, uint64(2), mac>>40&3, "of one port, locally administered")
	require.Equal(t, mac>>24<<40|0xfffe<<24|mac&0xffffff, c.NodeGUID.Get(query()), "the GUID is the MAC's (EUI-64)")
	require.EqualValues(t, 1500, c.MTU.Get(query()))
	require.False(t, c.RoCE.Bool(query()))

	in := command(ifc.ModifyEthernetPort, ifc.EthernetPortChanged+ifc.EthernetPortSize)
	ifc.EthernetPortChange.RoCE.Put(in[ifc.EthernetPortSelect:], 1)
	c.RoCE.Put(in[ifc.EthernetPortChanged:], 1)
	c.MTU.Put(in[ifc.EthernetPortChanged:], 9000)
	g.do(in, 16)
	require.True(t, c.RoCE.Bool(query()))
	require.EqualValues(t, 1500, c.MTU.Get(query()), "was not to be changed")
	ifc.EthernetPortChange.MTU.Put(in[ifc.EthernetPortSelect:], 1)
	g.do(in, 16)
	require.EqualValues(t, 9000, c.MTU.Get(query()))

	up := func() [2]bool {
		read := append(about(ifc.AccessRegister, ifc.RegisterPAOS), make([]byte, 16)...)
		ifc.Command.Modifier.Put(read, registerRead)
		status := g.do(read, 32)[ifc.RegisterData:]
		return [2]bool{ifc.PortState.State.Bool(g.do(command(ifc.QueryPortState, 16), 16)), ifc.LinkStatus.Operational.Get(status) == paosUp}
	}
	require.Equal(t, [2]bool{true, true}, up())
	g.nic.SetPort(false)
	require.Equal(t, [2]bool{false, false}, up())
}

// The driver takes the port down and up with its interface. Who owns the NIC may take it down
// as well, and then it is not the driver's to bring it up; nor stays it down once the driver,
// or its machine, is gone.
func TestEthernetPortDown(t *testing.T) {
	g := newEthernetGuest(t, softnic.NewNetwork())
	_, events := g.createEQ(0, 1<<ifc.EventPort)
	c := &ifc.LinkStatus
	status := func() [2]uint64 {
		read := append(about(ifc.AccessRegister, ifc.RegisterPAOS), make([]byte, 16)...)
		ifc.Command.Modifier.Put(read, registerRead)
		b := g.do(read, 32)[ifc.RegisterData:]
		return [2]uint64{c.Admin.Get(b), c.Operational.Get(b)}
	}
	want := func(admin, change uint64) ifc.Status {
		write := append(about(ifc.AccessRegister, ifc.RegisterPAOS), make([]byte, 16)...)
		c.Admin.Put(write[ifc.RegisterData:], admin)
		c.ChangeAdmin.Put(write[ifc.RegisterData:], change)
		_, s := g.try(write, 32)
		return s
	}
	require.Equal(t, ifc.OK, want(paosDown, 0))
	require.Equal(t, [2]uint64{paosUp, paosUp}, status(), "nothing was to change")
	for _, none := range []uint64{0, 3} {
		require.Equal(t, ifc.BadParameter, want(none, 1))
	}
	require.Equal(t, ifc.OK, want(paosDown, 1))
	require.Equal(t, [2]uint64{paosDown, paosDown}, status())
	require.False(t, g.nic.PortUp())
	e := g.event(events, 0)
	require.Equal(t, byte(ifc.EventPort), e[ifc.EventType])
	require.Equal(t, byte(ifc.PortDown), e[ifc.EventSubtype])
	require.Equal(t, ifc.OK, want(paosUp, 1))
	require.Equal(t, [2]uint64{paosUp, paosUp}, status())
	e = g.event(events, 1)
	require.Equal(t, byte(ifc.PortUp), e[ifc.EventSubtype])

	g.nic.SetPort(false)
	require.Equal(t, ifc.OK, want(paosUp, 1))
	require.Equal(t, [2]uint64{paosUp, paosDown}, status())
	g.nic.SetPort(true)
	for _, end := range []func(){g.d.Reset, func() { require.NoError(t, g.d.Close()) }} {
		g.start()
		require.Equal(t, ifc.OK, want(paosDown, 1))
		require.False(t, g.nic.PortUp())
		end()
		require.True(t, g.nic.PortUp())
	}
}

// The addresses are those that the driver sets: from then on the port sends from them
// and hears what is sent to them.
func TestRoCEAddress(t *testing.T) {
	network := softnic.NewNetwork()
	a, b := newEthernetGuest(t, network), newEthernetGuest(t, network)
	a.do(roceAddress(0, gid("fe80::1"), versionV2), 16)
	a.do(roceAddress(5, gid("10.0.0.1"), versionV2), 16)
	b.do(roceAddress(1, gid("10.0.0.2"), versionV2), 16)
	require.Equal(t, []verbs.GIDEntry{{Index: 0, GID: gid("fe80::1"), Type: verbs.GIDTypeRoCEv2},
		{Index: 5, GID: gid("10.0.0.1"), Type: verbs.GIDTypeRoCEv2}}, a.nic.GIDs())

	for name, v := range map[string][]byte{
		"another's":   roceAddress(6, gid("10.0.0.2"), versionV2),
		"RoCE v1":     roceAddress(6, gid("10.0.0.3"), 0),
		"no such":     roceAddress(6, gid("10.0.0.3"), 7),
		"no slot":     roceAddress(softnic.FunctionGIDs, gid("10.0.0.3"), versionV2),
		"not unicast": roceAddress(6, gid("224.0.0.1"), versionV2),
	} {
		_, status := a.try(v, 16)
		require.Equal(t, ifc.BadParameter, status, name)
	}
	vlan := roceAddress(6, gid("10.0.0.3"), versionV2)
	ifc.RoCEAddress.VLAN.Put(vlan, 1)
	_, status := a.try(vlan, 16)
	require.Equal(t, ifc.BadParameter, status)

	write := func(pa, pb *pair) prm.CQE {
		from, to := a.alloc(pageSize), b.alloc(pageSize)
		require.NoError(t, a.mem.Write(from, []byte("over RoCE")))
		lkey, rkey := a.createKey(pa.pd, from, from, 64), b.createKey(pb.pd, to, to, 64)
		pa.post(pa.write(from, lkey, to, rkey, 9))
		c := pa.completion(0)
		got := make([]byte, 9)
		require.NoError(t, b.mem.Read(to, got))
		if c.Opcode() == prm.CQERequester {
			require.Equal(t, "over RoCE", string(got))
		}
		return c
	}
	connect := func() (pa, pb *pair) {
		pdA, eqA, _ := a.setUp()
		pdB, eqB, _ := b.setUp()
		pa, pb = a.createPair(pdA, eqA), b.createPair(pdB, eqB)
		way := func(slot uint64, to string) func([]byte) {
			return func(path []byte) {
				ifc.AddressPath.SourceIndex.Put(path, slot)
				g := gid(to)
				copy(path[ifc.PathGID:], g[:])
			}
		}
		pa.connectBy(pb, way(5, "10.0.0.2"))
		pb.connectBy(pa, way(1, "10.0.0.1"))
		return pa, pb
	}
	pa, pb := connect()
	require.Equal(t, prm.CQERequester, write(pa, pb).Opcode())

	// An address that is gone hears nothing, and is free for others.
	pa, pb = connect()
	b.do(roceAddress(1, verbs.GID{}, 0), 16)
	require.Empty(t, b.nic.GIDs())
	a.do(roceAddress(6, gid("10.0.0.2"), versionV2), 16)
	require.Equal(t, prm.CQERequesterError, write(pa, pb).Opcode())

	// So are those of a device that was reset.
	a.d.Reset()
	require.Empty(t, a.nic.GIDs())
	b.do(roceAddress(1, gid("10.0.0.1"), versionV2), 16)
}

// Entries of an Ethernet send queue complete, and do nothing else: the driver waits for
// them when it brings its interface up.
func TestSendQueue(t *testing.T) {
	g := newEthernetGuest(t, softnic.NewNetwork())
	pd, eq, _ := g.setUp()
	cqn, cq, _ := g.createCQ(eq)
	record := g.alloc(8)
	create := func(change func(queue, work []byte)) (in []byte, buffer uint64) {
		in = command(ifc.CreateSQ, ifc.Pages)
		q, w := in[ifc.SendQueueContext:], in[ifc.SendQueueQueue:]
		ifc.SendQueue.CQ.Put(q, uint64(cqn))
		ifc.SendQueue.UserIndex.Put(q, 5)
		ifc.WorkQueue.PD.Put(w, uint64(pd))
		ifc.WorkQueue.UAR.Put(w, uint64(g.page))
		ifc.WorkQueue.Record.Put(w, record)
		ifc.WorkQueue.LogStride.Put(w, 6)
		ifc.WorkQueue.LogSize.Put(w, logEntries)
		change(q, w)
		return g.withPages(in, entries*prm.Block)
	}
	in, buffer := create(func(_, _ []byte) {})
	p := &pair{g: g, qpn: g.number(in), cqn: cqn, cq: cq, record: record, buffer: buffer - entries*stride}
	entry := func(flags uint8) []byte {
		e := make([]byte, prm.Block)
		prm.PutCtrl(e, &prm.Ctrl{Opcode: prm.OpNop, Index: uint16(p.produced), QPN: p.qpn, DS: 1, Flags: flags})
		return e
	}
	p.post(entry(prm.CQEUpdate))
	modify := command(ifc.ModifySQ, ifc.Pages)
	ifc.Object.Put(modify, uint64(p.qpn))
	ifc.SendQueue.State.Put(modify[ifc.SendQueueContext:], sendQueueReady)
	g.do(modify, 16)
	require.EqualValues(t, 0, p.completion(0).WQECounter())
	p.post(entry(0))
	p.post(entry(prm.CQEUpdate))
	c := p.completion(1)
	require.Equal(t, prm.CQERequester, c.Opcode())
	require.EqualValues(t, 2, c.WQECounter(), "the one between asked for none")

	for name, change := range map[string]func(q, w []byte){
		"entries of another size": func(_, w []byte) { ifc.WorkQueue.LogStride.Put(w, 7) },
		"too large":               func(_, w []byte) { ifc.WorkQueue.LogSize.Put(w, logMaxWorkQueue+1) },
	} {
		in, _ := create(change)
		_, status := g.try(in, 16)
		require.Equal(t, ifc.BadParameter, status, name)
	}
	in, _ = create(func(q, _ []byte) { ifc.SendQueue.CQ.Put(q, 3) })
	_, status := g.try(in, 16)
	require.Equal(t, ifc.BadResource, status, "no such completion queue")
	_, status = g.try(about(ifc.QueryQP, p.qpn), ifc.Pages)
	require.Equal(t, ifc.BadResource, status, "it is no queue pair")
	g.do(about(ifc.DestroySQ, p.qpn), 16)
	_, status = g.try(about(ifc.DestroySQ, p.qpn), 16)
	require.Equal(t, ifc.BadResource, status)
	g.do(about(ifc.DestroyCQ, cqn), 16)
	require.Empty(t, g.d.sqs)
}
