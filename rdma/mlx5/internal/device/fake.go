package device

import (
	"github.com/farwire/farwire/rdma/internal/ledger"
	"github.com/farwire/farwire/rdma/internal/nic"
)

// Fake is a device with no NIC, whose completions have entries of that version:
// for tests of what reads them.
func Fake(cqeVersion uint8) *Device {
	d := &Device{Device: &nic.Device{}}
	d.caps.CQEVersion = cqeVersion
	return d
}

// SetPair makes completions with key find p. It is for tests; CreateQP does it
// otherwise.
func (d *Device) SetPair(key Key, p *ledger.Pair) { d.pairs.Set(uint32(key), p) }
