package softnic

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/farwire/farwire/rdma/softnic/trace"
	"github.com/farwire/farwire/rdma/verbs"
)

// LinkMode says which links a NIC has.
type LinkMode uint8

const (
	// LinkAuto is the in-memory link, and UDP where its port can be had.
	LinkAuto LinkMode = iota
	// LinkMemory is the in-memory link alone.
	LinkMemory
	// LinkUDP is the in-memory link and UDP; New fails without the latter.
	LinkUDP
)

// Config describes a NIC. The zero Config is a ConnectX with one RoCE v2 port
// on an address of its own in 127.0.0.0/8.
type Config struct {
	// Name is the device name. Default softnic0, softnic1, ... in order of
	// creation in the process.
	Name string

	// LinkLayer is verbs.LinkEthernet (the default) or
	// verbs.LinkInfiniBand, whose port has no UDP link.
	LinkLayer verbs.LinkLayer

	// Addr is the address of an Ethernet port. Default one in 127.0.0.0/8
	// that no other NIC of the network has. With UDP it must be an address
	// of this machine.
	Addr netip.Addr

	// Unaddressed leaves an Ethernet port without addresses until a Function gives it
	// some (SetGID), as the kernel's driver does with those of its network interface.
	// The port has no UDP link.
	Unaddressed bool

	// Network is the in-memory network the port is plugged into. Default one
	// that all NICs of the process share.
	Network *Network

	// Link says which links the port has.
	Link LinkMode

	// NoSharedMemory keeps packets to NICs of other processes on UDP also where the
	// process is one of this user and host, which shared memory would lead to.
	NoSharedMemory bool

	// MTU is the port's active MTU. Default 4096, or the most the UDP link
	// carries.
	MTU verbs.MTU

	// StaticUAR makes the NIC answer as a kernel that has no dynamic doorbell
	// pages (before 5.7).
	StaticUAR bool

	// NoBlueFlame makes the NIC answer as one without write combining:
	// bf_reg_size is 0.
	NoBlueFlame bool

	// RoCEv2Only leaves RoCE v1 out of the GID table, so that index 0 can be
	// used. This NIC cannot send by a GID of RoCE v1.
	RoCEv2Only bool

	// OldCQE limits completion queue entries to version 0, in which the
	// user index is not reported.
	OldCQE bool

	// OldKernel makes the kernel side refuse what is newer than 5.4: native
	// GET_CONTEXT, ASYNC_EVENT, GID queries and native queue methods.
	OldKernel bool

	// Null makes the NIC complete entries as soon as it has fetched them, with
	// success: no byte is moved, no packet sent and no key looked at. A SEND or a
	// WRITE with immediate of a connected queue pair also fills the oldest receive
	// of that queue pair itself, if one is posted. Entries and receives are fetched
	// and judged as ever. It shows what a driver costs by itself.
	Null bool

	// Packets makes every message travel as packets. Else a SEND between two NICs of
	// one process that share a Network, or of a NIC to itself, is copied straight into
	// the peer's receive when nothing is on its way between the two queue pairs and
	// neither NIC has Faults or a PcapFile. What completes and how is the same; packets
	// are not counted then, but Counters.Passed.
	Packets bool

	// Limits are what the device can hold. Zero fields mean the default.
	Limits Limits

	// Faults are the impairments of the NIC. Default none.
	Faults Faults

	// Seed seeds the faults; equal seeds give equal faults for equal traffic.
	Seed uint64

	// Logger is told the reason of every refusal and error completion. Its
	// handler runs with the NIC locked: it must not call the NIC, and what takes
	// time in it delays all queue pairs. Default none.
	Logger *slog.Logger

	// Trace is told of everything that passes between the NIC and those who use
	// it: commands, mappings, doorbells, work, completions, events. It is called
	// with the NIC locked: it must neither block nor call the NIC, and what takes
	// time in it delays all queue pairs. NICs that share it may call it at the same
	// time. Default none, which costs nothing.
	Trace func(*trace.Record)

	// TraceFile is a file that the NIC writes a trace.Log to, at its end. New opens
	// or makes it and Close closes it. NICs, of several processes too, may share it.
	// Default none.
	TraceFile string

	// PcapFile is a file that the NIC writes every packet to that its links send or
	// receive, as Wireshark reads it: Ethernet, IP, UDP and all of the RoCE packet, with
	// its ICRC, which packets in memory otherwise do without, and the time in
	// nanoseconds. The MACs are made up. In place of all that, an InfiniBand port's have
	// a local route header, a GRH where they were sent with one, ICRC and VCRC.
	// Packets lost by Faults are not sent; damaged
	// ones are seen where they are sent. A packet between two NICs that share the file
	// is in it twice, one of a NIC to itself once. New makes the file or goes on with
	// one that is a capture of this kind, and Close closes it. NICs, of several
	// processes too, may share it if their ports are of one link layer. Default none,
	// which costs nothing.
	PcapFile string
}

// Limits bounds what one NIC holds. Every count is for the whole NIC. A zero
// field means the default, which is in parentheses.
type Limits struct {
	QPs         int   // queue pairs (16384)
	CQs         int   // completion queues (16384)
	SRQs        int   // shared receive queues (16384)
	MRs         int   // memory regions (65536)
	PDs         int   // protection domains (4096)
	UARs        int   // doorbell pages (1024)
	AHs         int   // address handles (65536)
	QPEntries   int   // basic blocks of a send queue, entries of a receive queue, shared or not (32768)
	CQEntries   int   // entries of a completion queue, a power of two (4194304)
	SendSGE     int   // data segments of a send (30)
	ReceiveSGE  int   // data segments of a receive (32)
	ReadAtomics int   // outstanding reads and atomics of a queue pair, a power of two (16)
	RegionBytes int64 // length of a memory region (2^40)
	PinnedBytes int64 // memory pinned by one open file, in whole pages, as RLIMIT_MEMLOCK (no limit)
}

// Faults are impairments made on purpose. Probabilities are from 0 to 1. They
// are drawn from a generator seeded by Config.Seed.
type Faults struct {
	Loss      float64       // probability that a packet is lost
	Duplicate float64       // probability that a packet arrives twice
	Reorder   float64       // probability that a packet is overtaken by later ones
	Corrupt   float64       // probability that a bit of a packet is flipped
	Mark      float64       // probability that a packet is marked as by a congested switch (ECN)
	Rate      float64       // bits that pass in a second, 0 (no limit) or 1000 and more; packets wait for those before them
	Delay     time.Duration // added to every packet's way
	Jitter    time.Duration // up to this much more, at random

	Late     float64       // probability that a completion, and those behind it, come late
	LateBy   time.Duration // how late; default 1ms
	Withhold float64       // probability that a completion, and all behind it in its queue, are withheld

	PortDown time.Duration // after this time the port goes down; 0 never
	PortUp   time.Duration // after this time the port comes back; 0 never
	Fatal    time.Duration // after this time the device fails for good; 0 never
}

// maxMessage is the largest message, in bytes, as ConnectX ports report it.
const maxMessage = 1 << 30

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.QPs, 16384)
	def(&l.CQs, 16384)
	def(&l.SRQs, 16384)
	def(&l.MRs, 65536)
	def(&l.PDs, 4096)
	def(&l.UARs, 1024)
	def(&l.AHs, 65536)
	def(&l.QPEntries, 32768)
	def(&l.CQEntries, 1<<22)
	def(&l.SendSGE, 30)
	def(&l.ReceiveSGE, 32)
	def(&l.ReadAtomics, 16)
	if l.RegionBytes == 0 {
		l.RegionBytes = 1 << 40
	}
	return l
}

// check reports the first limit out of range. Upper bounds are those of the
// fields the limits are reported in.
func (l Limits) check() error {
	for _, f := range []struct {
		name     string
		v, max   int
		powerOf2 bool
	}{
		{"QPs", l.QPs, 1 << 20, false},
		{"CQs", l.CQs, 1 << 20, false},
		{"SRQs", l.SRQs, 1 << 20, false},
		{"MRs", l.MRs, 1 << 23, false},
		{"PDs", l.PDs, 1 << 20, false},
		{"UARs", l.UARs, 1 << 15, false},
		{"AHs", l.AHs, 1 << 20, false},
		{"QPEntries", l.QPEntries, 1 << 15, true},
		{"CQEntries", l.CQEntries, 1 << 22, true},
		{"SendSGE", l.SendSGE, 60, false},
		{"ReceiveSGE", l.ReceiveSGE, 32, false},
		{"ReadAtomics", l.ReadAtomics, 128, true},
	} {
		if f.v < 1 || f.v > f.max {
			return fmt.Errorf("limit %s %d is outside 1 to %d", f.name, f.v, f.max)
		}
		if f.powerOf2 && f.v&(f.v-1) != 0 {
			return fmt.Errorf("limit %s %d is not a power of two", f.name, f.v)
		}
	}
	if l.RegionBytes < 1 || l.PinnedBytes < 0 {
		return fmt.Errorf("limit RegionBytes or PinnedBytes is negative")
	}
	return nil
}

func (f Faults) check() error {
	for _, p := range []struct {
		name string
		v    float64
	}{
		{"loss", f.Loss}, {"duplicate", f.Duplicate}, {"reorder", f.Reorder},
		{"corrupt", f.Corrupt}, {"mark", f.Mark}, {"late", f.Late}, {"withhold", f.Withhold},
	} {
		if !(p.v >= 0 && p.v <= 1) {
			return fmt.Errorf("probability %s %v is outside 0 to 1", p.name, p.v)
		}
	}
	for _, d := range []time.Duration{f.Delay, f.Jitter, f.LateBy, f.PortDown, f.PortUp, f.Fatal} {
		if d < 0 {
			return fmt.Errorf("negative duration %v", d)
		}
	}
	return f.impairments(0).Validate() // the rate's range
}
