package connectx

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/vfiouser"
)

func TestRegisters(t *testing.T) {
	g := newGuest(t)
	require.Equal(t, uint32(5), g.read(regInterface)>>16)
	require.Equal(t, uint32(queueAddr|5<<4|6), g.read(regQueueLow), "number and size of slots; the device is not disabled")
	g.write(regQueueHigh, 7)
	require.Equal(t, uint32(7), g.read(regQueueHigh))
	require.Zero(t, g.read(0x1fc), "initialized")
	var b [8]byte
	g.d.Read(vfiouser.BAR0, regInterface+2, b[:4])
	require.Equal(t, []byte{0x0f, 0xa0, 0, 0}, b[:4], "across two registers")
	g.d.Read(vfiouser.BAR0, barSize-8, b[:])
	g.d.Read(vfiouser.ConfigSpace, 0, b[:4])
	require.Equal(t, []byte{0xb3, 0x15, 0x17, 0x10}, b[:4])
}

func TestInputAndOutputInMailboxes(t *testing.T) {
	g := newGuest(t)
	general := g.do(command(ifc.QueryCapabilities, ifc.HeadSize), ifc.HeadSize+capabilitySize)
	require.Equal(t, uint64(1), ifc.Capabilities.CQEVersion.Get(general[ifc.Capability:]))
	require.Equal(t, g.d.general(), general[ifc.Capability:])

	ifc.Capabilities.LogMaxQP.Put(general[ifc.Capability:], 5)
	set := append(command(ifc.SetCapabilities, ifc.HeadSize), general[ifc.Capability:]...)
	g.do(set, ifc.HeadSize)
	query := command(ifc.QueryCapabilities, ifc.HeadSize)
	require.Equal(t, uint64(14), ifc.Capabilities.LogMaxQP.Get(g.do(query, ifc.HeadSize+capabilitySize)[ifc.Capability:]), "the largest")
	ifc.Command.Modifier.Put(query, 1)
	require.Equal(t, uint64(5), ifc.Capabilities.LogMaxQP.Get(g.do(query, ifc.HeadSize+capabilitySize)[ifc.Capability:]), "as set")
}

// Of what is set for atomics only the order of bytes counts.
func TestAtomicCapabilities(t *testing.T) {
	g := newGuest(t)
	set := command(ifc.SetCapabilities, ifc.HeadSize+capabilitySize)
	ifc.Command.Modifier.Put(set, ifc.CapAtomic<<1)
	ifc.AtomicCapabilities.EndiannessMode.Put(set[ifc.Capability:], 1)
	g.do(set, ifc.HeadSize)
	query := command(ifc.QueryCapabilities, ifc.HeadSize)
	ifc.Command.Modifier.Put(query, ifc.CapAtomic<<1|1)
	got := g.do(query, ifc.HeadSize+capabilitySize)[ifc.Capability:]
	require.Equal(t, uint64(1), ifc.AtomicCapabilities.EndiannessMode.Get(got))
	require.Equal(t, uint64(3), ifc.AtomicCapabilities.Operations.Get(got))
}

func TestNotDelivered(t *testing.T) {
	nop := command(ifc.NOP, ifc.HeadSize)
	long := command(ifc.NOP, 2000)
	for name, v := range map[string]struct {
		in     []byte
		out    int
		change func(g *guest, slot *[slotSize]byte)
		want   ifc.Delivery
	}{
		"type":             {nop, 16, func(_ *guest, s *[slotSize]byte) { s[slotType] = 1 }, ifc.BadCommandType},
		"input too short":  {nop, 16, func(_ *guest, s *[slotSize]byte) { be.PutUint32(s[slotInLen:], 7) }, ifc.BadInLength},
		"input too long":   {nop, 16, func(_ *guest, s *[slotSize]byte) { be.PutUint32(s[slotInLen:], maxInput+1) }, ifc.BadInLength},
		"output too short": {nop, 16, func(_ *guest, s *[slotSize]byte) { be.PutUint32(s[slotOutLen:], 7) }, ifc.BadOutLength},
		"output too long":  {nop, 16, func(_ *guest, s *[slotSize]byte) { be.PutUint32(s[slotOutLen:], maxOutput+1) }, ifc.BadOutLength},
		"input nowhere":    {long, 16, func(_ *guest, s *[slotSize]byte) { be.PutUint64(s[slotInBox:], 1<<40) }, ifc.BadInPointer},
		"output nowhere":   {nop, 2000, func(_ *guest, s *[slotSize]byte) { be.PutUint64(s[slotOutBox:], 1<<40) }, ifc.BadOutPointer},
		"token":            {long, 16, func(_ *guest, s *[slotSize]byte) { s[slotToken]++ }, ifc.BadToken},
		"block":            {long, 16, func(_ *guest, s *[slotSize]byte) { be.PutUint64(s[slotInBox:], inBoxes+1024) }, ifc.BadBlockNumber},
		"ring of blocks": {long, 16, func(g *guest, _ *[slotSize]byte) {
			require.NoError(g.t, g.mem.Write(inBoxes+boxNext, be.AppendUint64(nil, inBoxes)))
		}, ifc.BadBlockNumber},
		"block of the output": {nop, 2000, func(_ *guest, s *[slotSize]byte) { be.PutUint64(s[slotOutBox:], outBoxes+1024) }, ifc.BadBlockNumber},
	} {
		g := newGuest(t)
		slot := g.prepare(v.in, v.out)
		v.change(g, &slot)
		after := g.submit(slot)
		require.Equal(t, byte(v.want)<<1, after[slotOwner], name)
	}
}

// A slot that the driver has not given up is left alone, and so is a queue that is
// nowhere.
func TestSlotNotOwned(t *testing.T) {
	g := newGuest(t)
	slot := g.prepare(command(ifc.NOP, ifc.HeadSize), 16)
	slot[slotOwner] = 0
	slot[slotOut] = 9
	require.Equal(t, slot, g.submit(slot))
	g.write(regQueueHigh, 1)
	g.write(regDoorbell, 1)
}

func TestRefused(t *testing.T) {
	g := newGuest(t)
	user := command(ifc.NOP, ifc.HeadSize)
	ifc.Command.User.Put(user, 1)
	capability := command(ifc.QueryCapabilities, ifc.HeadSize)
	ifc.Command.Modifier.Put(capability, 5<<1)
	for name, v := range map[string]struct {
		in   []byte
		out  int
		want ifc.Status
	}{
		"unknown":          {command(0x999, 16), 16, ifc.BadOpcode},
		"user context":     {user, 16, ifc.BadParameter},
		"short input":      {command(ifc.CreateCQ, 64), 16, ifc.BadInputLength},
		"short output":     {command(ifc.QueryAdapter, 16), 16, ifc.BadOutputSize},
		"no such object":   {about(ifc.DestroyCQ, 5), 16, ifc.BadResource},
		"capability":       {capability, 16 + capabilitySize, ifc.BadParameter},
		"register":         {about(ifc.AccessRegister, 0x1234), 64, ifc.BadParameter},
		"short register":   {about(ifc.AccessRegister, ifc.RegisterPTYS), 16, ifc.BadInputLength},
		"page nobody has":  {about(ifc.DeallocUAR, 9), 16, ifc.BadResource},
		"idle nobody has":  {about(ifc.DeallocXRCD, 0x10), 16, ifc.BadResource},
		"event queue":      {about(ifc.DestroyEQ, 200), 16, ifc.BadResource},
		"queue pair":       {about(ifc.QueryQP, 3), ifc.Pages, ifc.BadResource},
		"queue pair moved": {about(ifc.ToReset, 3), 16, ifc.BadResource},
		"memory key":       {about(ifc.DestroyMKey, 3), 16, ifc.BadResource},
		"shared queue":     {about(ifc.DestroyRMP, 3), 16, ifc.BadResource},
	} {
		out, status := g.try(v.in, v.out)
		require.Equal(t, v.want, status, name)
		require.Equal(t, make([]byte, len(out)-1), out[1:], "%s: nothing but the status", name)
	}
	short, status := g.try(command(ifc.EnableDevice, 12), 8)
	require.Zero(t, status, "shorter than a head")
	require.Len(t, short, 8)
}

// Every user context has a transport domain, so there are many. Numbers of one kind are
// none of another.
func TestIdleObjects(t *testing.T) {
	g := newGuest(t)
	var made []uint32
	for {
		out, status := g.try(command(ifc.AllocDomain, 16), 16)
		if status != ifc.OK {
			require.Equal(t, ifc.ExceedsLimit, status)
			break
		}
		made = append(made, uint32(ifc.Answer.Number.Get(out)))
	}
	require.Len(t, made, 1<<12)
	g.do(about(ifc.DeallocDomain, made[777]), 16)
	require.Equal(t, made[777], g.number(command(ifc.AllocDomain, 16)))
	_, status := g.try(about(ifc.DeallocXRCD, made[0]), 16)
	require.Equal(t, ifc.BadResource, status)
	for _, n := range made {
		g.do(about(ifc.DeallocDomain, n), 16)
	}
	_, status = g.try(about(ifc.DeallocDomain, made[0]), 16)
	require.Equal(t, ifc.BadResource, status)
}

func TestPort(t *testing.T) {
	g := newGuest(t)
	port := g.do(command(ifc.QueryVirtualPort, 16), ifc.HeadSize+512)[ifc.VirtualPorts:]
	require.Equal(t, uint64(stateActive), ifc.VirtualPort.State.Get(port))
	require.Equal(t, uint64(g.nic.LID()), ifc.VirtualPort.LID.Get(port))
	gids := g.do(command(ifc.QueryGID, 16), 32)
	gid := g.nic.GID()
	require.Equal(t, gid[:], gids[16:])
	whole := command(ifc.QueryGID, 16)
	be.PutUint16(whole[offTableIndex:], wholeTable)
	require.Equal(t, gid[:], g.do(whole, 16+8*16)[16:32])
	require.Equal(t, uint32(0xffff), be.Uint32(g.do(command(ifc.QueryPKey, 16), 20)[16:]))
	read := about(ifc.AccessRegister, ifc.RegisterPMTU)
	be.PutUint16(read[offRegister:], ifc.RegisterPMTU)
	ifc.Command.Modifier.Put(read, registerRead)
	mtu := g.do(append(read, make([]byte, 16)...), 32)
	require.Equal(t, uint64(4096), ifc.PortMTU.Operational.Get(mtu[ifc.RegisterData:]))
	answer := g.do(command(ifc.MADInterface, ifc.MAD+ifc.MADSize), ifc.MAD+ifc.MADSize)
	require.Equal(t, byte(madResponse), answer[ifc.MAD+madMethod])

	_, addr := g.createEQ(3, 1<<ifc.EventPort)
	g.nic.SetPort(false)
	port = g.do(command(ifc.QueryVirtualPort, 16), ifc.HeadSize+512)[ifc.VirtualPorts:]
	require.Equal(t, uint64(stateDown), ifc.VirtualPort.State.Get(port))
	e := g.event(addr, 0)
	require.Equal(t, byte(ifc.EventPort), e[ifc.EventType])
	require.Equal(t, byte(ifc.PortDown), e[ifc.EventSubtype])
	require.Equal(t, byte(1<<4), e[ifc.EventPortNumber])
}

// Reset, TEARDOWN_HCA, DISABLE_HCA and another ENABLE_HCA leave no objects.
func TestReset(t *testing.T) {
	g := newGuest(t)
	for _, op := range []ifc.Opcode{ifc.TeardownDevice, ifc.DisableDevice, ifc.EnableDevice} {
		g.number(command(ifc.AllocPD, 16))
		number, _ := g.createEQ(3, 1<<ifc.EventPort)
		g.do(command(op, 16), 16)
		require.Zero(t, g.nic.Counters().PDs, "%#x", op)
		require.Nil(t, g.d.events.get(number), "%#x", op)
		g.start()
	}
	pd := g.number(command(ifc.AllocPD, 16))
	g.d.Reset()
	require.Equal(t, uint32(5<<4|6), g.read(regQueueLow), "no queue")
	g.start()
	_, status := g.try(about(ifc.DeallocPD, pd), 16)
	require.Equal(t, ifc.BadResource, status)
	require.Zero(t, g.nic.Counters().PDs)
}

// What a command is about must be there: a device in use.
func TestOrderOfUse(t *testing.T) {
	g := newGuest(t)
	status := func(op ifc.Opcode) ifc.Status {
		_, status := g.try(command(op, 16), 16)
		return status
	}
	require.Equal(t, ifc.BadSystemState, status(ifc.InitDevice), "a second time")
	require.Equal(t, ifc.OK, status(ifc.TeardownDevice))
	require.Equal(t, ifc.BadSystemState, status(ifc.AllocPD))
	require.Equal(t, ifc.OK, status(ifc.QueryPages))
	require.Equal(t, ifc.OK, status(ifc.InitDevice))
	require.Equal(t, ifc.OK, status(ifc.AllocPD))
	require.Equal(t, ifc.OK, status(ifc.DisableDevice))
	require.Equal(t, ifc.BadSystemState, status(ifc.QueryPages))
	require.Equal(t, ifc.BadSystemState, status(ifc.InitDevice))
	require.Equal(t, ifc.OK, status(ifc.NOP))
	require.Equal(t, ifc.OK, status(ifc.EnableDevice))
}

// A NIC that fails has its commands fail, and the driver sees it in the registers.
func TestFailedNIC(t *testing.T) {
	g := newGuest(t)
	health := func() []uint32 { return []uint32{g.read(0x238), g.read(0x23c)} }
	require.Equal(t, []uint32{0, 0}, health())
	g.nic.Fail()
	require.Equal(t, []uint32{0x80000000, 0x00080000}, health())
	_, status := g.try(command(ifc.AllocPD, 16), 16)
	require.Equal(t, ifc.InternalError, status)
	g.write(uint64(g.page)*pageSize+0x800, 0)
	g.d.Reset()
	g.start()
	_, status = g.try(command(ifc.AllocPD, 16), 16)
	require.Equal(t, ifc.InternalError, status)
	require.Equal(t, []uint32{0x80000000, 0x00080000}, health())
}

// A device that its driver does not let be master of the bus reads and writes
// nothing, and raises nothing.
func TestBusMaster(t *testing.T) {
	g := newGuest(t)
	g.page = g.number(command(ifc.AllocUAR, 16))
	number, addr := g.createEQ(3, 1<<ifc.EventPort)
	g.armEQ(number, 0)
	g.master(false)
	slot := g.prepare(command(ifc.NOP, 16), 16)
	require.Equal(t, slot, g.submit(slot), "left alone")
	g.nic.SetPort(false)
	require.Equal(t, byte(1), g.event(addr, 0)[ifc.EventOwner], "no entry")
	require.Empty(t, g.raised())
	memory := g.d.guest
	require.ErrorIs(t, memory.Write(firstFree, []byte{1}), syscall.EFAULT)
	_, ok := memory.Load32(firstFree)
	require.False(t, ok)
	_, ok = memory.CompareSwap64(firstFree, 0, 1)
	require.False(t, ok)
	_, ok = memory.Add64(firstFree, 1)
	require.False(t, ok)
	require.False(t, memory.Store32(firstFree, 1))
	require.False(t, memory.Pin(firstFree, 1, false))

	g.master(true)
	g.nic.SetPort(true)
	require.Equal(t, byte(ifc.PortUp), g.event(addr, 0)[ifc.EventSubtype])
	require.Equal(t, []int{3}, g.raised())
}

// A port that was down before the device was there is down.
func TestPortDownBefore(t *testing.T) {
	g := newGuest(t)
	g.nic.SetPort(false)
	d, err := New(Config{NIC: g.nic, Memory: g.mem, Raise: func(int) {}})
	require.NoError(t, err)
	require.NoError(t, g.d.Close())
	g.d = d
	g.start()
	port := g.do(command(ifc.QueryVirtualPort, 16), ifc.HeadSize+512)[ifc.VirtualPorts:]
	require.Equal(t, uint64(stateDown), ifc.VirtualPort.State.Get(port))
}
