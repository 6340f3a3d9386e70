package pciconfig

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Size is how many bytes a configuration space has.
const Size = 4096

// Space is the configuration space of one function. It is safe for concurrent use.
type Space struct {
	initial  [Size]byte
	writable [Size]byte // bits that software may change

	mu     sync.Mutex
	bytes  [Size]byte
	master atomic.Bool // what bytes say of it
}

// Function is what a function says of itself.
type Function struct {
	Vendor, Device                   uint16
	SubsystemVendor, SubsystemDevice uint16
	Revision                         uint8
	Class                            uint32 // base class, subclass and interface: 24 bits
	BARs                             [NumBARs]BAR
	MSIX                             MSIX
}

// NumBARs is how many base address registers there are. One of 64 bits takes two.
const NumBARs = 6

// BAR is a region of memory behind a base address register of 64 bits; it takes the
// next register as well.
type BAR struct {
	Size         uint64 // a power of two, 16 at least; 0: none
	Prefetchable bool
}

// MSIX is where the vectors' table and the array of pending bits are, in bytes from
// the start of a BAR, multiples of 8.
type MSIX struct {
	Vectors        int // 0: no MSI-X, up to 2048
	BAR            int
	Table, Pending uint32
}

// Offsets into the header (linux/pci_regs.h).
const (
	offVendor    = 0x00
	offDevice    = 0x02
	offCommand   = 0x04
	offStatus    = 0x06
	offRevision  = 0x08
	offClass     = 0x09
	offCacheLine = 0x0c
	offBAR       = 0x10
	offSubsystem = 0x2c
	offPointer   = 0x34
	offLine      = 0x3c
	offFirst     = 0x40 // of the capabilities
)

// Bits of the command and status registers.
const (
	commandMemory    = 1 << 1
	commandMaster    = 1 << 2
	commandParity    = 1 << 6
	commandSERR      = 1 << 8
	commandNoINTx    = 1 << 10
	statusCapability = 1 << 4
)

// Bits of a base address register.
const (
	bar64           = 2 << 1
	barPrefetchable = 1 << 3
	barFlags        = 0xf
)

var le = binary.LittleEndian

// New makes the space of a function.
func New(f Function) (*Space, error) {
	s := &Space{}
	b := s.initial[:]
	le.PutUint16(b[offVendor:], f.Vendor)
	le.PutUint16(b[offDevice:], f.Device)
	le.PutUint16(b[offStatus:], statusCapability)
	b[offRevision] = f.Revision
	b[offClass], b[offClass+1], b[offClass+2] = byte(f.Class), byte(f.Class>>8), byte(f.Class>>16)
	le.PutUint16(b[offSubsystem:], f.SubsystemVendor)
	le.PutUint16(b[offSubsystem+2:], f.SubsystemDevice)
	w := s.writable[:]
	le.PutUint16(w[offCommand:], commandMemory|commandMaster|commandParity|commandSERR|commandNoINTx)
	w[offCacheLine], w[offLine] = 0xff, 0xff
	if err := s.putBARs(f.BARs); err != nil {
		return nil, fmt.Errorf("pciconfig: %w", err)
	}
	if err := s.putCapabilities(f); err != nil {
		return nil, fmt.Errorf("pciconfig: %w", err)
	}
	s.Reset()
	return s, nil
}

func (s *Space) putBARs(bars [NumBARs]BAR) error {
	for i := 0; i < NumBARs; i++ {
		v := bars[i]
		if v.Size == 0 {
			continue
		}
		if v.Size < 16 || bits.OnesCount64(v.Size) != 1 || i == NumBARs-1 || bars[i+1].Size != 0 {
			return fmt.Errorf("BAR %d of %d bytes", i, v.Size)
		}
		at := offBAR + 4*i
		flags := uint64(bar64)
		if v.Prefetchable {
			flags |= barPrefetchable
		}
		le.PutUint64(s.initial[at:], flags)
		le.PutUint64(s.writable[at:], ^(v.Size-1)&^barFlags)
		i++
	}
	return nil
}

// Read copies the bytes at off to p; there are zeros behind the end.
func (s *Space) Read(off uint64, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(p)
	if off < Size {
		copy(p, s.bytes[off:])
	}
}

// Write changes the bits that software may change at off.
func (s *Space) Write(off uint64, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, v := range p {
		at := off + uint64(i)
		if at < off || at >= Size {
			return
		}
		w := s.writable[at]
		s.bytes[at] = s.bytes[at]&^w | v&w
		if at == offCommand {
			s.master.Store(s.bytes[at]&commandMaster != 0)
		}
	}
}

// Reset undoes all that was written.
func (s *Space) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes = s.initial
	s.master.Store(false)
}

// MayMaster reports whether the function may access the guest's memory, to raise
// interrupts as well, which are writes (PCI Express Base Specification, 7.5.1.1.3).
func (s *Space) MayMaster() bool { return s.master.Load() }
