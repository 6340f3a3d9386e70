package ifc

// EventSize is the size of an entry of an event queue (linux/mlx5/device.h, struct
// mlx5_eqe); its last byte holds the owner bit.
const EventSize = 64

// Event is the type of an entry: its byte 1 (linux/mlx5/device.h, enum mlx5_event).
type Event uint8

const (
	EventCompletion  Event = 0x00
	EventEstablished Event = 0x02 // COMM_EST
	EventCQError     Event = 0x04
	EventQPFatal     Event = 0x05 // WQ_CATAS_ERROR
	EventPort        Event = 0x09
	EventCommand     Event = 0x0a
	EventPages       Event = 0x0b
	EventQPRequest   Event = 0x10 // WQ_INVAL_REQ_ERROR
	EventQPAccess    Event = 0x11 // WQ_ACCESS_ERROR
	EventSRQFatal    Event = 0x12
	EventLastReceive Event = 0x13 // SRQ_LAST_WQE
	EventSRQLimit    Event = 0x14 // SRQ_RQ_LIMIT
)

// Where an entry has what it is about (linux/mlx5/device.h, struct mlx5_eqe and union
// ev_data).
const (
	EventType       = 1
	EventSubtype    = 3
	EventData       = 32
	EventOwner      = 63
	EventCQ         = EventData + 24 // of a completion
	EventErrorCQ    = EventData + 0
	EventSender     = EventData + 20 // of a queue pair's or a shared receive queue's event
	EventNumber     = EventData + 24
	EventPortNumber = EventData + 8 // high four bits
	EventCommands   = EventData + 0 // a bit for each slot
)

// Subtypes of EventPort (linux/mlx5/port.h).
const (
	PortDown = 1
	PortUp   = 4
)
