package roce

import "fmt"

// Opcode is the first byte of a BTH: three bits of transport, five of operation.
type Opcode uint8

// Opcodes of the reliable connected transport (section 9.2.1, table 38) and the
// congestion notification packet of RoCE v2 (annex A17.9).
const (
	SendFirst              Opcode = 0x00
	SendMiddle             Opcode = 0x01
	SendLast               Opcode = 0x02
	SendLastImmediate      Opcode = 0x03
	SendOnly               Opcode = 0x04
	SendOnlyImmediate      Opcode = 0x05
	WriteFirst             Opcode = 0x06
	WriteMiddle            Opcode = 0x07
	WriteLast              Opcode = 0x08
	WriteLastImmediate     Opcode = 0x09
	WriteOnly              Opcode = 0x0a
	WriteOnlyImmediate     Opcode = 0x0b
	ReadRequest            Opcode = 0x0c
	ReadResponseFirst      Opcode = 0x0d
	ReadResponseMiddle     Opcode = 0x0e
	ReadResponseLast       Opcode = 0x0f
	ReadResponseOnly       Opcode = 0x10
	Acknowledge            Opcode = 0x11
	AtomicAcknowledge      Opcode = 0x12
	CompareSwap            Opcode = 0x13
	FetchAdd               Opcode = 0x14
	SendLastInvalidate     Opcode = 0x16
	SendOnlyInvalidate     Opcode = 0x17
	CongestionNotification Opcode = 0x81

	transportMask Opcode = 0xe0
)

// Transport is the service that a packet belongs to, in the upper three bits of its
// opcode. An Opcode of another service is that of the reliable connection with the
// service's bits.
type Transport uint8

// The services of which this package knows opcodes.
const (
	ReliableConnection   Transport = 0x00
	UnreliableConnection Transport = 0x20 // SEND and WRITE, without invalidation
	Datagram             Transport = 0x60 // unreliable
)

// Opcode returns the opcode in this service of what op is for a reliable connection.
func (t Transport) Opcode(op Opcode) Opcode { return Opcode(t) | op }

// Transport returns the service of the opcode.
func (op Opcode) Transport() Transport { return Transport(op & transportMask) }

// Opcodes of unreliable datagrams.
const (
	DatagramSend          = Opcode(Datagram) | SendOnly
	DatagramSendImmediate = Opcode(Datagram) | SendOnlyImmediate
)

// Kind is what a packet is part of.
type Kind uint8

// Kinds of packets. KindNone is an opcode this package does not know.
const (
	KindNone Kind = iota
	KindSend
	KindWrite
	KindReadRequest
	KindReadResponse
	KindAck
	KindAtomicAck
	KindCompareSwap
	KindFetchAdd
)

// Headers is the set of extended headers a packet has, on the wire in the order
// of the constants (the orders the specification allows never conflict with it).
type Headers uint8

// Extended headers.
const (
	HasRETH Headers = 1 << iota
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasDETH
	HasImmDt
	HasIETH
)

// Size returns the bytes of all headers of the set.
func (h Headers) Size() int { return int(headersSize[h&127]) }

var headersSize = func() (size [128]uint8) {
	each := [7]uint8{RETHSize, AtomicETHSize, AETHSize, AtomicAckETHSize, DETHSize, ImmDtSize, IETHSize}
	for set := range size {
		for bit, n := range each {
			if set>>bit&1 != 0 {
				size[set] += n
			}
		}
	}
	return size
}()

// PayloadRule is how much payload a packet may carry.
type PayloadRule uint8

// Payload rules; MTU is the path MTU of the queue pair.
const (
	NoPayload PayloadRule = iota // nothing
	FullMTU                      // exactly the MTU
	OneToMTU                     // at least a byte
	UpToMTU                      // 0 to the MTU
)

// OK reports whether a payload of n bytes obeys the rule at this path MTU.
func (r PayloadRule) OK(n, mtu int) bool {
	switch r {
	case NoPayload:
		return n == 0
	case FullMTU:
		return n == mtu
	case OneToMTU:
		return 1 <= n && n <= mtu
	default:
		return 0 <= n && n <= mtu
	}
}

// Info is what an opcode says about its packet. First and Last tell the position
// in a message: both is an Only packet, neither is a Middle.
type Info struct {
	Kind    Kind
	Headers Headers
	Payload PayloadRule
	First   bool
	Last    bool
}

// Request reports whether the packet goes from requester to responder.
func (i Info) Request() bool {
	switch i.Kind {
	case KindSend, KindWrite, KindReadRequest, KindCompareSwap, KindFetchAdd:
		return true
	}
	return false
}

// Immediate reports whether the packet carries immediate data.
func (i Info) Immediate() bool { return i.Headers&HasImmDt != 0 }

// Info returns what the opcode says, with KindNone for every opcode that is not
// in the constants above (FLUSH and ATOMIC WRITE among them).
func (op Opcode) Info() Info { return opcodes[op].Info }

// String returns the name, as in "SEND First".
func (op Opcode) String() string {
	if name := opcodes[op].name; name != "" {
		return name
	}
	return fmt.Sprintf("opcode %#02x", uint8(op))
}

type opcodeEntry struct {
	Info
	name string
}

// opcodes is the table of section 9.2.1: kind, extended headers, payload, place.
var opcodes = func() [256]opcodeEntry {
	t := reliable
	for op := SendFirst; op <= WriteOnlyImmediate; op++ {
		e := reliable[op]
		e.name = "UC " + e.name
		t[UnreliableConnection.Opcode(op)] = e
	}
	return t
}()

// reliable is opcodes without those of the unreliable connection.
var reliable = [256]opcodeEntry{
	SendFirst:          {Info{KindSend, 0, FullMTU, true, false}, "SEND First"},
	SendMiddle:         {Info{KindSend, 0, FullMTU, false, false}, "SEND Middle"},
	SendLast:           {Info{KindSend, 0, OneToMTU, false, true}, "SEND Last"},
	SendLastImmediate:  {Info{KindSend, HasImmDt, OneToMTU, false, true}, "SEND Last with Immediate"},
	SendOnly:           {Info{KindSend, 0, UpToMTU, true, true}, "SEND Only"},
	SendOnlyImmediate:  {Info{KindSend, HasImmDt, UpToMTU, true, true}, "SEND Only with Immediate"},
	SendLastInvalidate: {Info{KindSend, HasIETH, OneToMTU, false, true}, "SEND Last with Invalidate"},
	SendOnlyInvalidate: {Info{KindSend, HasIETH, UpToMTU, true, true}, "SEND Only with Invalidate"},

	WriteFirst:         {Info{KindWrite, HasRETH, FullMTU, true, false}, "RDMA WRITE First"},
	WriteMiddle:        {Info{KindWrite, 0, FullMTU, false, false}, "RDMA WRITE Middle"},
	WriteLast:          {Info{KindWrite, 0, OneToMTU, false, true}, "RDMA WRITE Last"},
	WriteLastImmediate: {Info{KindWrite, HasImmDt, OneToMTU, false, true}, "RDMA WRITE Last with Immediate"},
	WriteOnly:          {Info{KindWrite, HasRETH, UpToMTU, true, true}, "RDMA WRITE Only"},
	WriteOnlyImmediate: {Info{KindWrite, HasRETH | HasImmDt, UpToMTU, true, true}, "RDMA WRITE Only with Immediate"},

	ReadRequest:        {Info{KindReadRequest, HasRETH, NoPayload, true, true}, "RDMA READ Request"},
	ReadResponseFirst:  {Info{KindReadResponse, HasAETH, FullMTU, true, false}, "RDMA READ Response First"},
	ReadResponseMiddle: {Info{KindReadResponse, 0, FullMTU, false, false}, "RDMA READ Response Middle"},
	ReadResponseLast:   {Info{KindReadResponse, HasAETH, OneToMTU, false, true}, "RDMA READ Response Last"},
	ReadResponseOnly:   {Info{KindReadResponse, HasAETH, UpToMTU, true, true}, "RDMA READ Response Only"},

	Acknowledge:       {Info{KindAck, HasAETH, NoPayload, true, true}, "Acknowledge"},
	AtomicAcknowledge: {Info{KindAtomicAck, HasAETH | HasAtomicAckETH, NoPayload, true, true}, "Atomic Acknowledge"},
	CompareSwap:       {Info{KindCompareSwap, HasAtomicETH, NoPayload, true, true}, "Compare and Swap"},
	FetchAdd:          {Info{KindFetchAdd, HasAtomicETH, NoPayload, true, true}, "Fetch and Add"},

	DatagramSend:          {Info{KindSend, HasDETH, UpToMTU, true, true}, "UD SEND Only"},
	DatagramSendImmediate: {Info{KindSend, HasDETH | HasImmDt, UpToMTU, true, true}, "UD SEND Only with Immediate"},

	CongestionNotification: {Info{}, "Congestion Notification"},
}
