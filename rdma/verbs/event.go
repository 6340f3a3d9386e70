package verbs

import (
	"fmt"

	"github.com/farwire/farwire/internal/uapi"
)

// EventType is the kind of an asynchronous event (ib_verbs.h, enum
// ib_event_type).
type EventType uint32

// The events. Those of a queue pair, completion queue or shared receive queue
// carry its user handle, those of a port its number.
const (
	EventCQError            EventType = 0
	EventQPFatal            EventType = 1
	EventQPRequestError     EventType = 2
	EventQPAccessError      EventType = 3
	EventCommEstablished    EventType = 4 // first packet arrived in RTR; harmless
	EventSQDrained          EventType = 5
	EventPathMigrated       EventType = 6
	EventPathMigrationError EventType = 7
	EventDeviceFatal        EventType = 8 // the device is gone or dead
	EventPortActive         EventType = 9
	EventPortError          EventType = 10
	EventLIDChange          EventType = 11
	EventPKeyChange         EventType = 12
	EventSMChange           EventType = 13
	EventSRQError           EventType = 14
	EventSRQLimit           EventType = 15
	EventLastWQEReached     EventType = 16
	EventClientReregister   EventType = 17
	EventGIDChange          EventType = 18
	EventWQFatal            EventType = 19
)

var eventNames = []string{
	"CQ error", "QP fatal", "QP request error", "QP access error", "communication established",
	"send queue drained", "path migrated", "path migration error", "device fatal", "port active",
	"port error", "LID change", "P_Key change", "subnet manager change", "SRQ error",
	"SRQ limit reached", "last WQE reached", "client reregister", "GID change", "WQ fatal",
}

// String returns the event in words.
func (t EventType) String() string { return name(int(t), eventNames, "event") }

// IsPort reports whether the event is about a port, so that Event.Element is a
// port number.
func (t EventType) IsPort() bool {
	switch t {
	case EventPortActive, EventPortError, EventLIDChange, EventPKeyChange, EventSMChange,
		EventClientReregister, EventGIDChange:
		return true
	}
	return false
}

// An Event is one asynchronous event.
type Event struct {
	Type    EventType
	Element uint64 // user handle of the object, or the port
}

// Sizes of the records that event files deliver, one for each Read.
const (
	CompEventSize  = 8
	AsyncEventSize = 16
)

// ParseEvent parses one record of the asynchronous event file.
func ParseEvent(b []byte) (Event, error) {
	var r uapi.AsyncEvent
	if len(b) != AsyncEventSize {
		return Event{}, fmt.Errorf("async event of %d bytes, not %d", len(b), AsyncEventSize)
	}
	copy(uapi.Bytes(&r), b)
	return Event{Type: EventType(r.EventType), Element: r.Element}, nil
}

// ParseCompEvent parses one record of a completion channel and returns the user
// handle of the completion queue.
func ParseCompEvent(b []byte) (uint64, error) {
	var r uapi.CompEvent
	if len(b) != CompEventSize {
		return 0, fmt.Errorf("completion event of %d bytes, not %d", len(b), CompEventSize)
	}
	copy(uapi.Bytes(&r), b)
	return r.CQHandle, nil
}
