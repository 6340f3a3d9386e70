package roce

// Reason is why a packet is no good. It is an error, and a small number that can
// index counters (NumReasons of them). Converting it to an error does not allocate.
type Reason uint8

// Reasons, in the order in which they are looked for.
const (
	ReasonNone       Reason = iota // no reason: a good packet; never returned as an error
	ReasonShort                    // no room for a BTH
	ReasonVersion                  // a transport header version other than 0
	ReasonCongestion               // a congestion notification, well formed or not
	ReasonTransport                // not the transport that was asked for
	ReasonOpcode                   // a reserved or unsupported operation
	ReasonHeaders                  // no room for the extended headers
	ReasonPad                      // pad count impossible or not allowed with this opcode
	ReasonLength                   // payload and pad are not a multiple of 4 bytes
	ReasonPayload                  // a payload that no MTU allows with this opcode

	// NumReasons is the size of an array indexed by Reason.
	NumReasons = int(iota)
)

var reasons = [NumReasons]string{
	ReasonNone:       "no error",
	ReasonShort:      "packet shorter than its base transport header",
	ReasonVersion:    "unknown transport header version",
	ReasonCongestion: "congestion notification",
	ReasonTransport:  "transport is another",
	ReasonOpcode:     "unsupported opcode",
	ReasonHeaders:    "packet shorter than its extended headers",
	ReasonPad:        "bad pad count",
	ReasonLength:     "length is not a multiple of 4",
	ReasonPayload:    "payload length does not fit the opcode",
}

// Error returns the reason in words.
func (r Reason) Error() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown reason"
}
