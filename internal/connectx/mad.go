package connectx

import "github.com/farwire/farwire/internal/ifc"

// A management datagram (IBTA volume 1, 13.4.3, and 14.2.1 for those of subnet management).
const (
	madClass     = 1
	madMethod    = 3
	madStatus    = 4
	madAttribute = 16
	madData      = 64
	madDataSize  = 64

	classByLID   = 0x01 // of subnet management
	classByRoute = 0x81
	methodGet    = 0x01
	methodSet    = 0x02
	madResponse  = 0x80
	methodAnswer = methodGet | madResponse // to methodSet too

	madUnsupported = 0x000c // method and attribute, as a status
	madBadField    = 0x001c // value of a field
)

// Attributes of a node and its port (14.2.5), and where their fields are.
const (
	attributeDescription = 0x10
	attributeNode        = 0x11
	attributePort        = 0x15

	nodeType       = 2 // after the versions of the datagrams
	nodePorts      = 3
	nodeSystem     = 4 // GUIDs
	nodeGUID       = 12
	nodePort       = 20
	nodePartitions = 28
	nodeDevice     = 30
	nodeVendor     = 36 // with the number of the port in the first byte

	portGIDPrefix  = 0
	portLID        = 16
	portManager    = 18
	portCapability = 20
	portNumber     = 28
	portWidths     = 29 // enabled, supported, active
	portState      = 32 // and supported speeds, in the upper half
	portPhysical   = 33 // in the upper half; the lower is what a port without link does
	portSpeeds     = 35 // active, enabled
	portMTU        = 36 // of the neighbour, in the upper half
	portLanes      = 37 // in the upper half
	portMaxMTU     = 41 // in the lower half
)

const (
	nodeIsAdapter    = 1
	defaultGIDPrefix = 0xfe80 << 48
	speedsOfPort     = 1 // what PortInfo has fields for
	physicalKeep     = 0 // what it is
)

// mad answers management datagrams to the device. It has agents for what a subnet's manager
// and ibportstate ask of a node and its port, and for nothing else.
func (d *Device) mad(r *request) error {
	answer := r.out[ifc.MAD:][:ifc.MADSize]
	copy(answer, r.in[ifc.MAD:])
	status := uint16(madUnsupported)
	method, class := answer[madMethod], answer[madClass]
	answer[madMethod] |= madResponse
	if infiniBand(d.nic) && (class == classByLID || class == classByRoute) && (method == methodGet || method == methodSet) {
		answer[madMethod] = methodAnswer
		status = d.manage(method == methodSet, be.Uint16(answer[madAttribute:]), answer[madData:][:madDataSize])
	}
	be.PutUint16(answer[madStatus:], status)
	return nil
}

// manage is a subnet's management: it reads an attribute or, for the port's, sets it first.
func (d *Device) manage(set bool, attribute uint16, b []byte) (status uint16) {
	if set && attribute != attributePort {
		return madUnsupported
	}
	if set {
		switch b[portPhysical] >> 4 {
		case physicalKeep:
		case physicalPolling:
			d.setPort(true)
		case physicalDisabled:
			d.setPort(false)
		default:
			return madBadField
		}
	}
	clear(b)
	g := d.function.GUID()
	switch attribute {
	case attributeDescription:
		copy(b, d.nic.Name())
	case attributeNode:
		b[0], b[1], b[nodeType], b[nodePorts] = 1, 1, nodeIsAdapter, 1
		copy(b[nodeSystem:], g[:])
		copy(b[nodeGUID:], g[:])
		copy(b[nodePort:], g[:])
		be.PutUint16(b[nodePartitions:], 1)
		be.PutUint16(b[nodeDevice:], deviceConnectX5)
		be.PutUint32(b[nodeVendor:], 1<<24|vendorOUI)
	case attributePort:
		d.putPort(b)
	default:
		return madUnsupported
	}
	return 0
}

// putPort writes the port's attributes (PortInfo).
func (d *Device) putPort(b []byte) {
	be.PutUint64(b[portGIDPrefix:], defaultGIDPrefix)
	be.PutUint16(b[portLID:], d.nic.LID())
	be.PutUint16(b[portManager:], d.nic.LID()) // there is no subnet manager
	be.PutUint32(b[portCapability:], capCM)
	b[portNumber] = 1
	b[portWidths], b[portWidths+1], b[portWidths+2] = widthOneFour, widthOneFour, widthFour
	state, physical := d.portState()
	b[portState] = speedsOfPort<<4 | state
	b[portPhysical] = physical<<4 | physicalPolling
	b[portSpeeds] = speedsOfPort<<4 | speedsOfPort
	b[portMTU] = byte(d.nic.MTU()) << 4
	b[portLanes] = virtualLanes << 4
	b[portMaxMTU] = byte(d.nic.MTU())
}
