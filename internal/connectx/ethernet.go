package connectx

import (
	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Limits of an Ethernet port. Frames are not carried: what the driver sends is dropped,
// and none come; flow tables, receive queues and what leads to them are idle objects. RoCE
// is the NIC's.
const (
	logMaxWorkQueue = 15
	logMinStride    = 4
	logMaxStride    = 10
	logAddresses    = 7 // of unicast, multicast and VLANs that the driver lists
	logFlowTable    = 20
	logFlows        = 16
	flowLevels      = 64
	maxFrame        = 9622
	standardMTU     = 1500
	maxSegmentation = 16 // of an offload, as a logarithm
	inlineByPort    = 1  // the port says how much of a frame goes into an entry: none
	ethernet100G    = 1 << 23
	paosUp          = 1
	paosDown        = 2
)

// Bits of capabilities of RoCE (linux/mlx5/driver.h and device.h, MLX5_ROCE_L3_TYPE_*_CAP
// and MLX5_ROCE_VERSION_*_CAP), and values of a slot (MLX5_ROCE_VERSION_*).
const (
	layersIPv4IPv6  = 1<<1 | 1<<2
	versionsV2      = 1 << 2
	roceUDPPort     = 4791
	firstSourcePort = 0xc000
	lastSourcePort  = 0xffff
	versionV2       = 2
)

// putEthernet adds to the general capabilities those of an Ethernet port.
func putEthernet(b []byte) {
	c := &ifc.Capabilities
	for _, yes := range []ifc.Field{c.RoCE, c.Ethernet, c.FlowTables, c.CyclicReceive, c.LogMaxTISPerSQ} {
		yes.Put(b, 1)
	}
	for f, class := range map[ifc.Field]class{c.LogMaxRQ: classRQ, c.LogMaxSQ: classRQ, c.LogMaxTIR: classTIR, c.LogMaxTIS: classTIS, c.LogMaxRQT: classRQT} {
		f.Put(b, uint64(class.logMax()))
	}
	c.LogMaxRQTSize.Put(b, logAddresses)
	c.LogMaxWQSize.Put(b, logMaxWorkQueue)
	c.LogMinRQStride.Put(b, logMinStride)
	c.LogMinSQStride.Put(b, logMinStride)
	c.LogMaxRQStride.Put(b, logMaxStride)
	c.LogMaxSQStride.Put(b, logMaxStride)
	for _, f := range []ifc.Field{c.LogMaxUnicast, c.LogMaxMulticast, c.LogMaxVLANs, c.LogMaxL2Table} {
		f.Put(b, logAddresses)
	}
}

func ethernetCapabilities(*Device) []byte {
	c, b := &ifc.EthernetCapabilities, make([]byte, capabilitySize)
	c.Checksums.Put(b, 1)
	c.VLANs.Put(b, 1)
	c.LoopbackModifiable.Put(b, 1)
	c.InlineMode.Put(b, inlineByPort)
	c.MaxSegmentation.Put(b, maxSegmentation)
	c.LogIndirection.Put(b, logAddresses)
	return b
}

func roceCapabilities(*Device) []byte {
	c, b := &ifc.RoCECapabilities, make([]byte, capabilitySize)
	c.Layers.Put(b, layersIPv4IPv6)
	c.Versions.Put(b, versionsV2)
	c.TableSize.Put(b, softnic.FunctionGIDs)
	c.Port.Put(b, roceUDPPort)
	c.FirstSourcePort.Put(b, firstSourcePort)
	c.LastSourcePort.Put(b, lastSourcePort)
	return b
}

func flowCapabilities(*Device) []byte {
	b := make([]byte, capabilitySize)
	c, t := &ifc.FlowTables, b[ifc.ReceiveFlowTables:]
	for _, yes := range []ifc.Field{c.Supported, c.ModifyFlows, c.ModifyRoot, c.MissTable, c.ModifyTables} {
		yes.Put(t, 1)
	}
	c.LogSize.Put(t, logFlowTable)
	c.Levels.Put(t, flowLevels)
	c.LogTables.Put(t, uint64(classFlowTable.logMax()))
	c.LogFlows.Put(t, logFlows)
	c.LogDestinations.Put(t, uint64(classTIR.logMax()))
	m, match := &ifc.FlowFields, t[ifc.FlowTableFields:]
	for _, yes := range []ifc.Field{m.DestinationMAC, m.SourceMAC, m.EtherType, m.IPVersion, m.FirstPriority, m.FirstVLAN, m.SourceIP,
		m.DestinationIP, m.Fragment, m.Protocol, m.Congestion, m.DSCP, m.UDPSource, m.UDPDestination, m.TCPSource, m.TCPDestination} {
		yes.Put(match, 1)
	}
	return b
}

// ethernetPort is what the driver chose of the port.
type ethernetPort struct {
	roce bool
	mtu  uint16
}

func (d *Device) queryPortState(r *request) error {
	c := &ifc.PortState
	c.Admin.Put(r.out, 1)
	if d.nic.PortUp() {
		c.State.Put(r.out, 1)
	}
	return nil
}

func (d *Device) queryEthernetPort(r *request) error {
	c, b := &ifc.EthernetPort, r.out[ifc.EthernetPorts:]
	g, mac := d.function.GUID(), d.function.MAC()
	for _, f := range []ifc.Field{c.NodeGUID, c.PortGUID, c.SystemGUID} {
		f.Put(b, be.Uint64(g[:]))
	}
	c.PermanentAddress.Put(b, be.Uint64(append([]byte{0, 0}, mac[:]...)))
	c.MTU.Put(b, uint64(d.port.mtu))
	if d.port.roce {
		c.RoCE.Put(b, 1)
	}
	return nil
}

// modifyEthernetPort keeps what is told when it is asked for. Lists of addresses and
// promiscuity are of frames.
func (d *Device) modifyEthernetPort(r *request) error {
	c, b := &ifc.EthernetPort, r.in[ifc.EthernetPortChanged:]
	change := r.in[ifc.EthernetPortSelect:]
	if ifc.EthernetPortChange.RoCE.Bool(change) {
		d.port.roce = c.RoCE.Bool(b)
	}
	if ifc.EthernetPortChange.MTU.Bool(change) {
		d.port.mtu = uint16(c.MTU.Get(b))
	}
	return nil
}

// setRoCEAddress puts an address into the GID table, or takes one out.
func (d *Device) setRoCEAddress(r *request) error {
	c := &ifc.RoCEAddress
	slot, gid := int(c.Slot.Get(r.in)), verbs.GID(r.in[ifc.RoCEAddressGID:][:16])
	switch version := c.Version.Get(r.in); {
	case version == 0 && gid.IsZero():
	case version != versionV2:
		return refuse(ifc.BadParameter, "GID %v of RoCE version %d", gid, version)
	case c.VLAN.Bool(r.in):
		return refuse(ifc.BadParameter, "GID %v of a VLAN", gid)
	}
	return d.function.SetGID(slot, gid)
}

// sendQueueReady is the state of a send queue that runs (mlx5_ifc.h,
// MLX5_SQC_STATE_RDY).
const sendQueueReady = 1

// createSQ makes a send queue, of which everything completes.
func (d *Device) createSQ(r *request) error {
	q, w := r.in[ifc.SendQueueContext:], r.in[ifc.SendQueueQueue:]
	const logBlock = 6
	switch {
	case ifc.WorkQueue.LogStride.Get(w) != logBlock:
		return refuse(ifc.BadParameter, "send queue of entries of 1<<%d bytes", ifc.WorkQueue.LogStride.Get(w))
	case ifc.WorkQueue.LogSize.Get(w) > logMaxWorkQueue:
		return refuse(ifc.BadParameter, "send queue of 1<<%d", ifc.WorkQueue.LogSize.Get(w))
	}
	cfg := softnic.SinkConfig{
		PD: uint32(ifc.WorkQueue.PD.Get(w)), CQ: uint32(ifc.SendQueue.CQ.Get(q)), UserIndex: uint32(ifc.SendQueue.UserIndex.Get(q)),
		Record: ifc.WorkQueue.Record.Get(w) | recordBit, Blocks: 1 << ifc.WorkQueue.LogSize.Get(w), Page: uint32(ifc.WorkQueue.UAR.Get(w)),
	}
	s, err := d.pages(r, ifc.WorkQueue.LogPage.Get(w), 0, uint64(cfg.Blocks)<<logBlock)
	if err != nil {
		return err
	}
	cfg.Memory = s
	number, err := d.function.CreateSink(cfg)
	if err == nil {
		d.hold(d.sqs, number, s, w)
	}
	return r.made(number, err)
}

func (d *Device) modifySQ(r *request) error {
	if _, ok := d.sqs[r.object()]; !ok {
		return refuse(ifc.BadResource, "no send queue %#x", r.object())
	}
	return d.function.RunSink(r.object(), ifc.SendQueue.State.Get(r.in[ifc.SendQueueContext:]) == sendQueueReady)
}

func (d *Device) destroySQ(r *request) error {
	if _, ok := d.sqs[r.object()]; !ok {
		return refuse(ifc.BadResource, "no send queue %#x", r.object())
	}
	if err := d.function.DestroyQP(r.object()); err != nil {
		return err
	}
	d.release(d.sqs, r.object())
	return nil
}
