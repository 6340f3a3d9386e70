package softnic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/farwire/farwire/internal/link"
)

// Network is a network in memory, into which ports are plugged. NICs on one
// Network reach each other without the operating system; Ethernet ports by their
// addresses, InfiniBand ports by their LIDs. It is safe for concurrent use.
//
// NICs of several processes share a Network when one of them serves it and the others
// join it, each over a connection of its own, such as a Unix socket. Packets then cross
// the server's process, but for those between NICs of one process.
type Network struct {
	links *link.Switch
	trunk *link.Trunk // to the network's other part, nil of a network that is here
	here  neighbors   // the NICs of this process
}

// NewNetwork returns a network with nothing plugged in.
func NewNetwork() *Network { return &Network{links: link.NewSwitch()} }

// JoinNetwork returns the network that another process serves at the other end of conn,
// which is then the network's. The label must be the one that is served: it tells kinds
// of networks apart. NICs on the network have no UDP link. The caller closes the network,
// after its NICs.
func JoinNetwork(conn net.Conn, label string) (*Network, error) {
	trunk, err := link.NewTrunk(conn, label)
	if err != nil {
		return nil, fmt.Errorf("join network: %w", err)
	}
	return &Network{links: link.NewSwitch(), trunk: trunk}, nil
}

// Serve lets a process that has the other end of conn join the network. It returns when
// that process leaves or ctx ends, with nil, or with what went wrong; the process's NICs
// are then off the network, and conn is closed. ErrJoined is returned for a network that
// was joined itself. A label has at most 64 bytes.
func (n *Network) Serve(ctx context.Context, conn net.Conn, label string) error {
	if n.trunk != nil {
		return errors.Join(ErrJoined, conn.Close())
	}
	if err := n.links.Serve(ctx, conn, label); err != nil {
		return fmt.Errorf("serve network: %w", err)
	}
	return nil
}

// ErrJoined is returned for what can be done only in the process a network is in.
var ErrJoined = errors.New("the network is another process's")

// Done is closed when a joined network has been closed or the process that served it is
// gone: packets to its NICs, and to those of others who joined it, are lost. It is nil
// for a network that was not joined.
func (n *Network) Done() <-chan struct{} {
	if n.trunk == nil {
		return nil
	}
	return n.trunk.Done()
}

// Close leaves a network that was joined, once what was sent is on its way. A network
// that was not joined needs no closing.
func (n *Network) Close() error {
	if n.trunk == nil {
		return nil
	}
	return n.trunk.Close()
}

// join puts a link with this address on the network.
func (n *Network) join(addr netip.Addr, r link.Receiver) (link.Link, error) {
	if n.trunk == nil {
		return n.links.Join(addr, r)
	}
	return link.Route(n.links, func(r link.Receiver) (link.Link, error) { return n.trunk.Join(addr, r) }, r)
}

// has reports whether anybody on the network has the address. On a network that was
// joined it asks the process that has it, which may take long.
func (n *Network) has(addr netip.Addr) bool {
	return n.links.Has(addr) || n.trunk != nil && n.trunk.Has(addr)
}

// unknownError is why a command cannot be judged yet: another process has to be asked
// whether somebody has the address.
type unknownError struct{ addr netip.Addr }

func (e *unknownError) Error() string { return "whether " + e.addr.String() + " is there is not known" }

// known reports whether anybody on the network has the address that a command names, or
// fails with an unknownError, after which asking comes back. NIC.mu is held.
func (n *NIC) known(addr netip.Addr) (there bool, err error) {
	if n.network.trunk == nil || n.network.links.Has(addr) {
		return n.network.has(addr), nil
	}
	there, asked := n.answers[addr]
	if !asked {
		return false, &unknownError{addr}
	}
	return there, nil
}

// asking executes a command. Where it has to know who is on a network of another
// process it is abandoned, before it has done anything, and executed again once that has
// answered: the NIC goes on with its work meanwhile. NIC.mu is held, but for that time.
func (n *NIC) asking(execute func() error) error {
	var answers map[netip.Addr]bool
	for {
		n.answers = answers
		err := execute()
		n.answers = nil
		var unknown *unknownError
		if !errors.As(err, &unknown) {
			return err
		}
		n.unlock()
		there := n.network.has(unknown.addr)
		n.lock()
		if answers == nil {
			answers = map[netip.Addr]bool{}
		}
		answers[unknown.addr] = there
	}
}

// defaultNetwork is the one that NICs of the process share unless told otherwise.
var defaultNetwork = NewNetwork()

// maxLID is the largest unicast LID.
const maxLID = 0xbfff

var errNoLID = errors.New("no free LID")

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
