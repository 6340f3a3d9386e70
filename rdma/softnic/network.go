package softnic

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/farwire/farwire/internal/link"
)

// Network is a network in memory, into which ports are plugged. NICs on one
// Network reach each other without the operating system; Ethernet ports by their
// addresses, InfiniBand ports by their LIDs. It is safe for concurrent use.
type Network struct {
	links *link.Switch

	mu   sync.Mutex
	lids map[uint16]bool // taken
}

// NewNetwork returns a network with nothing plugged in.
func NewNetwork() *Network {
	return &Network{links: link.NewSwitch(), lids: map[uint16]bool{}}
}

// defaultNetwork is the one that NICs of the process share unless told otherwise.
var defaultNetwork = NewNetwork()

// maxLID is the largest unicast LID.
const maxLID = 0xbfff

var errNoLID = errors.New("no free LID")

// takeLID gives out the smallest free LID.
func (n *Network) takeLID() (uint16, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for lid := uint16(1); lid <= maxLID; lid++ {
		if !n.lids[lid] {
			n.lids[lid] = true
			return lid, nil
		}
	}
	return 0, errNoLID
}

func (n *Network) giveLID(lid uint16) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.lids, lid)
}

// lidAddr is the address an InfiniBand port has on the in-memory network, of a
// private prefix of this package's own.
func lidAddr(lid uint16) netip.Addr {
	a := [16]byte{0xfd, 'f', 'a', 'r', 'w', 'i', 'r', 'e'}
	binary.BigEndian.PutUint16(a[14:], lid)
	return netip.AddrFrom16(a)
}

// addrLID is the LID of which lidAddr made an address.
func addrLID(addr netip.Addr) uint16 {
	a := addr.As16()
	return binary.BigEndian.Uint16(a[14:])
}

// randomLoopback is an address of 127.0.0.0/8 outside 127.0.0.0/24.
func randomLoopback() netip.Addr {
	v := rand.Uint32()
	return netip.AddrFrom4([4]byte{127, byte(v>>16)%255 + 1, byte(v >> 8), byte(v)%254 + 1})
}
