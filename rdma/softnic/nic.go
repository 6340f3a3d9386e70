package softnic

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/pcap"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/internal/ud"
	"github.com/farwire/farwire/rdma/softnic/trace"
	"github.com/farwire/farwire/rdma/verbs"
)

// NIC is a software ConnectX with one port. All methods are safe for concurrent
// use.
type NIC struct {
	cfg     Config
	lim     Limits
	log     *slog.Logger
	network *Network
	methods *uapi.Table
	epoch   time.Time

	// The port; fixed once New has returned, but for links and gids of a port that is
	// unaddressed, which change under mu.
	links []*link.Impaired
	main  *link.Impaired // of links, that of the port's address
	gids  []gid
	guid  [8]byte
	lid   uint16
	mtu   verbs.MTU
	udp   bool

	shared  atomic.Pointer[link.Shared] // that the port's packets may take; nil: none
	takeNow func(*link.Packet)          // takes what comes that way; nil: deliver does

	rung      atomic.Pointer[uar] // doorbell pages with rung registers
	pending   atomic.Bool         // somebody brought work
	bursts    atomic.Int32        // of packets that are being delivered
	fired     atomic.Bool         // the timer fired, which is brought as work
	overflows atomic.Uint64
	handed    chan struct{} // work for the worker
	closing   chan struct{}
	workerEnd chan struct{}
	schedules []*time.Timer // of port and device faults
	traceFile *os.File      // with traceLog in it; nil: none
	traceLog  *trace.Log
	capture   *pcap.Writer // nil: none

	inboxMu  sync.Mutex // guards inbox; a leaf, taken with and without mu
	inbox    []*link.Packet
	toItself atomic.Int32 // packets that the NIC sent to itself and has not taken

	mu sync.Mutex // guards everything below, and all objects

	arrived    []*link.Packet // taken out of the inbox
	taken      int            // of them
	files      map[*file]bool
	opened     int // files so far
	qps        map[uint32]*qp
	cqs        map[uint32]*cq
	srqs       map[uint32]bool // numbers in use
	pds        map[uint32]bool // the same
	mrs        map[uint32]*mr
	keyIndex   map[uint32]bool // indices of keys in use
	nextQPN    uint32
	nextCQN    uint32
	nextSRQN   uint32
	nextPDN    uint32
	nextKey    uint32
	keyVariant uint32
	pages      map[uint32]*uar // doorbell pages by number

	destinations map[destinationKey]*destination

	ready     []*qp // queue pairs to be served, after those being served
	serving   []*qp
	served    int  // of them
	sent      bool // links are to be flushed
	disturbed *NIC // that was held to pass it messages, and may have work
	timers    timerHeap
	timer     *time.Timer
	timerAt   time.Time // what it was set to; zero once the engine knows that it fired
	now       time.Time // when the engine looked last
	effort    effort
	flushing  map[*qp]bool
	flushAt   time.Time
	flushWait time.Duration

	portUp  bool
	failed  bool
	closed  bool
	faults  Faults
	random  *rand.Rand
	late    map[*cq]bool
	held    map[*cq][]prm.Completion
	holdAll bool

	count    Counters
	protocol rc.Counters // of queue pairs that are gone

	answers map[netip.Addr]bool // who is on the network, as the command in execution has asked

	// Scratch.
	packet    *link.Packet
	arriving  *link.Packet // that a queue pair takes in
	parsed    roce.Packet  // the same
	work      rc.Work      // that is being posted
	header    [ud.HeaderSize]byte
	cqe       [2 * prm.CQESize]byte
	entry     [prm.MaxUnits * prm.Unit]byte
	blueFlame [maxRegister]byte
	found     takenWords
}

var created atomic.Uint64

// New makes a NIC and plugs it in. A nil cfg is the zero Config. The caller
// closes it.
func New(cfg *Config) (*NIC, error) {
	n, err := newNIC(cfg)
	if err != nil {
		return nil, fmt.Errorf("softnic: %w", err)
	}
	return n, nil
}

func newNIC(cfg *Config) (*NIC, error) {
	n := &NIC{portUp: true, network: defaultNetwork, epoch: time.Now(), now: time.Now()}
	if cfg != nil {
		n.cfg = *cfg
	}
	if err := n.configure(); err != nil {
		return nil, err
	}
	if err := n.openFiles(); err != nil {
		return nil, err
	}
	n.files, n.flushing, n.pages = map[*file]bool{}, map[*qp]bool{}, map[uint32]*uar{}
	n.qps, n.cqs, n.mrs = map[uint32]*qp{}, map[uint32]*cq{}, map[uint32]*mr{}
	n.destinations = map[destinationKey]*destination{}
	n.srqs, n.pds = map[uint32]bool{}, map[uint32]bool{}
	n.keyIndex, n.late, n.held = map[uint32]bool{}, map[*cq]bool{}, map[*cq][]prm.Completion{}
	// Numbers start somewhere else on each NIC, so that mixing NICs up shows.
	n.nextQPN, n.nextCQN = firstNumber+rand.Uint32N(1<<23), firstNumber+rand.Uint32N(1<<23)
	n.nextSRQN = firstNumber + rand.Uint32N(1<<23)
	n.nextPDN, n.nextKey = firstNumber+rand.Uint32N(1<<20), firstKeyIndex+rand.Uint32N(1<<23)
	n.keyVariant = rand.Uint32N(256)
	n.handed, n.closing, n.workerEnd = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	n.timer = time.AfterFunc(time.Hour, n.timerFired)
	n.timer.Stop()
	if n.capture == nil {
		n.takeNow = n.take
	}
	if err := n.plugIn(); err != nil {
		return nil, errors.Join(err, n.unplug(), n.closeFiles())
	}
	if err := n.chooseMTU(); err != nil {
		return nil, errors.Join(err, n.unplug(), n.closeFiles())
	}
	n.network.here.add(n)
	go n.worker()
	n.scheduleFaults()
	return n, nil
}

func (n *NIC) configure() error {
	c := &n.cfg
	if c.Name == "" {
		c.Name = fmt.Sprintf("softnic%d", created.Add(1)-1)
	}
	switch c.LinkLayer {
	case verbs.LinkUnspecified:
		c.LinkLayer = verbs.LinkEthernet
	case verbs.LinkEthernet, verbs.LinkInfiniBand:
	default:
		return fmt.Errorf("link layer %v", c.LinkLayer)
	}
	if c.Link > LinkUDP || c.Link == LinkUDP && c.LinkLayer == verbs.LinkInfiniBand {
		return fmt.Errorf("link mode %d of link layer %v", c.Link, c.LinkLayer)
	}
	if c.Unaddressed && (c.LinkLayer == verbs.LinkInfiniBand || c.Addr.IsValid() || c.Link == LinkUDP) {
		return errors.New("a port without addresses is on Ethernet, has no address, and no UDP link")
	}
	if err := checkAddr(c); err != nil {
		return err
	}
	if c.Network != nil {
		n.network = c.Network
	}
	if c.OldKernel {
		c.StaticUAR = true // dynamic pages came with 5.7
	}
	n.lim = c.Limits.withDefaults()
	if err := n.lim.check(); err != nil {
		return err
	}
	n.faults = c.Faults.withDefaults()
	if err := n.faults.check(); err != nil {
		return err
	}
	n.random = rand.New(rand.NewPCG(c.Seed, 0x636f6d706c657465))
	n.log = c.Logger
	n.methods = methodTable(c.OldKernel)
	return nil
}

// openFiles opens what the NIC writes to.
func (n *NIC) openFiles() error {
	if err := n.openCapture(); err != nil {
		return err
	}
	if err := n.openTrace(); err != nil {
		return errors.Join(err, n.closeCapture())
	}
	return nil
}

func (n *NIC) closeFiles() error { return errors.Join(n.closeTrace(), n.closeCapture()) }

// chooseMTU applies the configured MTU, if it fits the links.
func (n *NIC) chooseMTU() error {
	switch m := n.cfg.MTU; {
	case m == 0:
	case !m.Valid() || m > n.mtu:
		return fmt.Errorf("MTU %v, the port's links carry %v", m, n.mtu)
	default:
		n.mtu = m
	}
	return nil
}

// scheduleFaults starts the timers of the faults that come by themselves.
func (n *NIC) scheduleFaults() {
	after := func(d time.Duration, f func()) {
		if d > 0 {
			n.schedules = append(n.schedules, time.AfterFunc(d, f))
		}
	}
	after(n.faults.PortDown, func() { n.SetPort(false) })
	after(n.faults.PortUp, func() { n.SetPort(true) })
	after(n.faults.Fatal, n.Fail)
}

// Close takes the NIC away, as unplugging a card does: open files see what Fail
// makes them see, and all that is left for them is to be closed. It
// returns when nothing of the NIC runs any more; a second call returns
// os.ErrClosed.
func (n *NIC) Close() error {
	n.lock()
	if n.closed {
		n.unlock()
		return os.ErrClosed
	}
	n.closed = true
	n.fail()
	for f := range n.files {
		f.dropContext()
	}
	n.unlock()
	n.network.here.remove(n)
	for _, t := range n.schedules {
		t.Stop()
	}
	close(n.closing)
	<-n.workerEnd
	err := n.unplug()
	n.lock()
	defer n.unlock()
	if n.packet != nil {
		n.packet.Release()
		n.packet = nil
	}
	return errors.Join(err, n.closeFiles())
}

// Name is the device name.
func (n *NIC) Name() string { return n.cfg.Name }

// LinkLayer is what the port speaks.
func (n *NIC) LinkLayer() verbs.LinkLayer { return n.cfg.LinkLayer }

// Addr is the address of an Ethernet port, and invalid for an InfiniBand one and for one
// that is unaddressed.
func (n *NIC) Addr() netip.Addr {
	if n.cfg.LinkLayer == verbs.LinkInfiniBand || n.cfg.Unaddressed {
		return netip.Addr{}
	}
	return n.GID().Addr()
}

// GID is the GID that peers should use: the RoCE v2 one of Addr, or the default
// GID of an InfiniBand port. It is zero for a port that is unaddressed.
func (n *NIC) GID() verbs.GID {
	if n.cfg.Unaddressed {
		return verbs.GID{}
	}
	return n.gids[len(n.gids)-1].gid
}

// LID is the LID of an InfiniBand port, and 0 for an Ethernet one.
func (n *NIC) LID() uint16 { return n.lid }

// MTU is the port's active MTU.
func (n *NIC) MTU() verbs.MTU { return n.mtu }

// UDP reports whether the port reaches other processes by UDP.
func (n *NIC) UDP() bool { return n.udp }

// PortUp reports whether the port is up; that of a NIC that has failed is not.
func (n *NIC) PortUp() bool {
	n.lock()
	defer n.unlock()
	return n.portUp && !n.failed
}

// Counters takes a snapshot.
func (n *NIC) Counters() Counters {
	n.lock()
	defer n.unlock()
	return n.snapshot()
}
