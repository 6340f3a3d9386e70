package bootstrap

import (
	"encoding/binary"
	"fmt"

	"github.com/farwire/farwire/rdma/verbs"
)

// Message is what one side tells the other about its queue pair.
type Message struct {
	Endpoint verbs.Endpoint
	Receives uint32 // receives posted, now or ever; MinReceives to MaxReceives
	Size     uint32 // bytes of each, MinSize to MaxSize

	// First is how many of Receives are posted now, MinReceives to Receives, while more
	// may follow; it is told if both sides have GrowingWindows. 0, also in what the peer
	// of a side without them is taken to have said, is all of them.
	First uint32
}

// Limits of the numbers in a Message. More receives than MaxReceives are taken for
// MaxReceives, and larger ones than MaxSize for MaxSize, as using less is safe.
const (
	MinReceives = 4
	MaxReceives = 1 << 15
	MinSize     = 64
	MaxSize     = 1 << 30
)

// Version is the version of the protocol that this package speaks.
const Version = 1

// Features is a set of optional parts of the protocol.
type Features uint32

// GrowingWindows is the feature of sides that post more receives while they are in use,
// as package conn specifies.
const GrowingWindows Features = 1 << 0

// The layout of messages; see docs/bootstrap.md. All numbers are big endian.
const (
	magic = "FARW"

	kindHello  = 1
	kindReady  = 2
	kindRefuse = 3

	offKind   = 4
	offMin    = 5
	offMax    = 6
	offLength = 8
	lenHeader = 12

	offReadyEcho = 12
	lenReady     = 28

	offRefuseEcho = 12
	offRefuseCode = 28
	offRefuseText = 30
	maxText       = 200

	offFeatures  = 12
	offRequired  = 16
	offNonce     = 20
	offEcho      = 36
	offLinkLayer = 52
	offMTU       = 53
	offLID       = 54
	offQPN       = 56
	offPSN       = 60
	offGID       = 64
	offReceives  = 80
	offSize      = 84
	lenHello     = 88
	offFirst     = 88 // with GrowingWindows
	lenGrowing   = 92

	maxLength = 512 // of any message in any version
)

type nonce [16]byte

// header is the part that is the same in every message of every version.
type header struct {
	kind   uint8
	length int
}

// parseHeader reads a header whose magic has been checked.
func parseHeader(b []byte) (header, error) {
	h := header{b[offKind], int(binary.BigEndian.Uint16(b[offLength:]))}
	if h.length < lenHeader || h.length > maxLength {
		return h, malformed("message of %d bytes", h.length)
	}
	return h, nil
}

func putHeader(b []byte, kind, min, max uint8) {
	copy(b, magic)
	b[offKind], b[offMin], b[offMax] = kind, min, max
	binary.BigEndian.PutUint16(b[offLength:], uint16(len(b)))
}

// hello is a hello message.
type hello struct {
	Message
	min, max           uint8 // versions offered, or both the one chosen
	features, required Features
	nonce, echo        nonce
}

func (h hello) bytes() []byte {
	b := make([]byte, lenHello, lenGrowing)
	if h.features&GrowingWindows != 0 {
		b = binary.BigEndian.AppendUint32(b, h.posted())
	}
	putHeader(b, kindHello, h.min, h.max)
	binary.BigEndian.PutUint32(b[offFeatures:], uint32(h.features))
	binary.BigEndian.PutUint32(b[offRequired:], uint32(h.required))
	copy(b[offNonce:], h.nonce[:])
	copy(b[offEcho:], h.echo[:])
	b[offLinkLayer] = uint8(h.Endpoint.LinkLayer)
	b[offMTU] = uint8(h.Endpoint.MTU)
	binary.BigEndian.PutUint16(b[offLID:], h.Endpoint.LID)
	binary.BigEndian.PutUint32(b[offQPN:], h.Endpoint.QPN)
	binary.BigEndian.PutUint32(b[offPSN:], h.Endpoint.PSN)
	copy(b[offGID:], h.Endpoint.GID[:])
	binary.BigEndian.PutUint32(b[offReceives:], h.Receives)
	binary.BigEndian.PutUint32(b[offSize:], h.Size)
	return b
}

// parseHello reads the version 1 part of a whole hello message. What it returns has
// been checked.
func parseHello(b []byte) (hello, error) {
	if len(b) < lenHello {
		return hello{}, malformed("hello of %d bytes", len(b))
	}
	h := hello{
		Message: Message{
			Endpoint: verbs.Endpoint{
				QPN:       binary.BigEndian.Uint32(b[offQPN:]),
				PSN:       binary.BigEndian.Uint32(b[offPSN:]),
				LinkLayer: verbs.LinkLayer(b[offLinkLayer]),
				LID:       binary.BigEndian.Uint16(b[offLID:]),
				GID:       verbs.GID(b[offGID:]),
				MTU:       verbs.MTU(b[offMTU]),
			},
			Receives: min(binary.BigEndian.Uint32(b[offReceives:]), MaxReceives),
			Size:     min(binary.BigEndian.Uint32(b[offSize:]), MaxSize),
		},
		min:      b[offMin],
		max:      b[offMax],
		features: Features(binary.BigEndian.Uint32(b[offFeatures:])),
		required: Features(binary.BigEndian.Uint32(b[offRequired:])),
		nonce:    nonce(b[offNonce:]),
		echo:     nonce(b[offEcho:]),
	}
	if h.features&GrowingWindows != 0 {
		if len(b) < lenGrowing {
			return hello{}, malformed("hello of %d bytes with growing windows", len(b))
		}
		h.First = min(binary.BigEndian.Uint32(b[offFirst:]), h.Receives)
		if h.First == 0 {
			return hello{}, malformed("no receives at first")
		}
	}
	return h, h.Message.validate()
}

// posted is how many receives are posted now.
func (m Message) posted() uint32 {
	if m.First == 0 {
		return m.Receives
	}
	return m.First
}

func (m Message) validate() error {
	if err := m.Endpoint.Validate(); err != nil {
		return &RefusedError{Code: CodeEndpoint, Text: err.Error(), Err: err}
	}
	if m.Receives < MinReceives || m.Receives > MaxReceives {
		return malformed("%d receives", m.Receives)
	}
	if m.First != 0 && (m.First < MinReceives || m.First > m.Receives) {
		return malformed("%d of %d receives at first", m.First, m.Receives)
	}
	if m.Size < MinSize || m.Size > MaxSize {
		return malformed("receives of %d bytes", m.Size)
	}
	return nil
}

func readyBytes(echo nonce) []byte {
	b := make([]byte, lenReady)
	putHeader(b, kindReady, Version, Version)
	copy(b[offReadyEcho:], echo[:])
	return b
}

func parseReady(b []byte) (echo nonce, err error) {
	if len(b) < lenReady {
		return nonce{}, malformed("ready of %d bytes", len(b))
	}
	return nonce(b[offReadyEcho:]), nil
}

func refuseBytes(echo nonce, code Code, text string) []byte {
	text = text[:min(len(text), maxText)]
	b := make([]byte, offRefuseText+len(text))
	putHeader(b, kindRefuse, Version, Version)
	copy(b[offRefuseEcho:], echo[:])
	binary.BigEndian.PutUint16(b[offRefuseCode:], uint16(code))
	copy(b[offRefuseText:], text)
	return b
}

func parseRefuse(b []byte) error {
	if len(b) < offRefuseText {
		return malformed("refusal of %d bytes", len(b))
	}
	text := b[offRefuseText:]
	return &RefusedError{
		Code:   Code(binary.BigEndian.Uint16(b[offRefuseCode:])),
		Text:   printable(text[:min(len(text), maxText)]),
		Remote: true,
	}
}

func malformed(format string, args ...any) error {
	return &RefusedError{Code: CodeMalformed, Text: fmt.Sprintf(format, args...)}
}
