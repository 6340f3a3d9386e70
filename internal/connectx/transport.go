package connectx

import (
	"encoding/binary"
	"fmt"

	"github.com/farwire/farwire/internal/ifc"
)

// A slot of the command queue (Linux include/linux/mlx5/device.h, struct
// mlx5_cmd_layout).
const (
	slotSize     = 1 << logSlotSize
	slotType     = 0
	slotInLen    = 4
	slotInBox    = 8
	slotIn       = 16
	slotOut      = 32
	slotOutBox   = 48
	slotOutLen   = 56
	slotToken    = 60
	slotOwner    = 63
	slotInline   = 16 // bytes of input and of output in the slot itself
	slotTypePCIe = 7
	slotOwned    = 1 // by the device
)

// A mailbox: a block of a chain of data (struct mlx5_cmd_prot_block).
const (
	boxSize     = 576
	boxData     = 512
	boxNext     = 560
	boxNumber   = 568
	boxToken    = 573
	boxAlign    = 1<<10 - 1
	addressMask = ^uint64(boxAlign)
)

// How long commands may be. The longest are lists of pages: so many bytes are the
// list of a region of 16 GiB.
// The shortest have no more than status and syndrome.
const (
	minLength = 8
	maxInput  = 32<<20 + ifc.Pages
	maxOutput = 64 << 10
)

// slot is a command on its way.
type slot struct {
	addr  uint64
	bytes [slotSize]byte
}

func (s *slot) token() byte { return s.bytes[slotToken] }

// undelivered is why a command is not carried out.
type undelivered struct {
	status ifc.Delivery
	reason string
}

func (e *undelivered) Error() string { return e.reason }

func undeliver(status ifc.Delivery, format string, args ...any) error {
	return &undelivered{status, fmt.Sprintf(format, args...)}
}

// command carries out the command in a slot and hands the slot back. d.mu is held.
func (d *Device) command(number int) {
	s := &slot{addr: d.queue + uint64(number)*slotSize}
	if err := d.guest.Read(s.addr, s.bytes[:]); err != nil {
		d.log.Warn("command queue", "slot", number, "error", err)
		return
	}
	if s.bytes[slotOwner]&slotOwned == 0 {
		d.log.Warn("command slot is not the device's", "slot", number)
		return
	}
	announce := d.events.commandsAnnounced() // CREATE_EQ of the queue for this is not
	status := ifc.Delivered
	if err := d.deliver(s); err != nil {
		status = err.(*undelivered).status
		d.log.Warn("command not delivered", "slot", number, "error", err)
	}
	if err := d.guest.Write(s.addr+slotOut, s.bytes[slotOut:slotOut+slotInline]); err != nil {
		d.log.Warn("command queue", "slot", number, "error", err)
		return
	}
	s.bytes[slotOwner] = byte(status) << 1
	// The driver may poll the last byte of this word.
	d.guest.Store32(s.addr+slotToken, binary.NativeEndian.Uint32(s.bytes[slotToken:]))
	if announce {
		d.events.announceCommand(number)
	}
}

// deliver fetches the input, executes the command and stores the output.
func (d *Device) deliver(s *slot) error {
	b := s.bytes[:]
	in, out := be.Uint32(b[slotInLen:]), be.Uint32(b[slotOutLen:])
	switch {
	case b[slotType] != slotTypePCIe:
		return undeliver(ifc.BadCommandType, "command type %d", b[slotType])
	case in < minLength || in > maxInput:
		return undeliver(ifc.BadInLength, "input of %d bytes", in)
	case out < minLength || out > maxOutput:
		return undeliver(ifc.BadOutLength, "output of %d bytes", out)
	}
	input, err := d.fetch(s, int(in))
	if err != nil {
		return err
	}
	output := make([]byte, max(out, ifc.HeadSize))
	d.execute(input, output)
	return d.store(s, output[:out])
}

// fetch collects the input: what is in the slot, and the rest in its mailboxes. One
// that is shorter than the head of a command is filled up with zeros.
func (d *Device) fetch(s *slot, size int) ([]byte, error) {
	// Memory is taken as blocks are there, so that a length alone takes none.
	input := append([]byte(nil), s.bytes[slotIn:slotIn+slotInline]...)
	if size < slotInline {
		clear(input[size:])
	}
	next := be.Uint64(s.bytes[slotInBox:])
	var box [boxSize]byte
	for number := uint32(0); len(input) < size; number++ {
		at := next & addressMask
		if err := d.guest.Read(at, box[:]); err != nil {
			return nil, undeliver(ifc.BadInPointer, "input mailbox %d: %v", number, err)
		}
		if err := checkBox(&box, number, s.token()); err != nil {
			return nil, err
		}
		input = append(input, box[:min(boxData, size-len(input))]...)
		next = be.Uint64(box[boxNext:])
	}
	return input, nil
}

// store distributes the output to the slot and the mailboxes that the driver has
// chained.
func (d *Device) store(s *slot, output []byte) error {
	output = output[copy(s.bytes[slotOut:slotOut+slotInline], output):]
	next := be.Uint64(s.bytes[slotOutBox:])
	var box [boxSize]byte
	for number := uint32(0); len(output) > 0; number++ {
		at := next & addressMask
		if err := d.guest.Read(at, box[:]); err != nil {
			return undeliver(ifc.BadOutPointer, "output mailbox %d: %v", number, err)
		}
		if err := checkBox(&box, number, s.token()); err != nil {
			return err
		}
		n := min(boxData, len(output))
		if err := d.guest.Write(at, output[:n]); err != nil {
			return undeliver(ifc.BadOutPointer, "output mailbox %d: %v", number, err)
		}
		output = output[n:]
		next = be.Uint64(box[boxNext:])
	}
	return nil
}

func checkBox(box *[boxSize]byte, number uint32, token byte) error {
	switch {
	case be.Uint32(box[boxNumber:]) != number:
		return undeliver(ifc.BadBlockNumber, "mailbox %d where %d belongs", be.Uint32(box[boxNumber:]), number)
	case box[boxToken] != token:
		return undeliver(ifc.BadToken, "mailbox with token %#x of a command with %#x", box[boxToken], token)
	}
	return nil
}
