package verbs

// QPState is the state of a queue pair (ib_verbs.h, enum ib_qp_state).
//
//	RESET → INIT → RTR → RTS ⇄ SQD
//
// Every state but RESET may go to ERR, every state to RESET; SQE is entered by
// the hardware only, and not by reliable connections.
type QPState uint8

// The states.
const (
	StateReset QPState = 0 // nothing may be posted
	StateInit  QPState = 1 // receives may be posted
	StateRTR   QPState = 2 // ready to receive
	StateRTS   QPState = 3 // ready to send
	StateSQD   QPState = 4 // send queue drained
	StateSQE   QPState = 5 // send queue in error
	StateErr   QPState = 6 // everything posted completes as flushed
)

// String returns the name of the state in capitals.
func (s QPState) String() string {
	return name(int(s), []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, "QP state")
}

// PortState is the logical state of a port (ib_verbs.h, enum ib_port_state).
type PortState uint8

// The port states.
const (
	PortNop         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4
	PortActiveDefer PortState = 5
)

// String returns the name sysfs uses.
func (s PortState) String() string {
	return name(int(s), []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}, "port state")
}

// LinkLayer is what a port speaks (ib_verbs.h, enum rdma_link_layer).
type LinkLayer uint8

// The link layers. Ethernet means RoCE.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

// ParseLinkLayer parses the words of sysfs: InfiniBand, Ethernet. Anything else
// is LinkUnspecified.
func ParseLinkLayer(s string) LinkLayer {
	switch s {
	case "InfiniBand":
		return LinkInfiniBand
	case "Ethernet":
		return LinkEthernet
	}
	return LinkUnspecified
}

// String returns InfiniBand, Ethernet or Unspecified.
func (l LinkLayer) String() string {
	return name(int(l), []string{"Unspecified", "InfiniBand", "Ethernet"}, "link layer")
}
