package connectx

import (
	"encoding/binary"
	"sync"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic"
)

// entry is an entry of an event queue.
type entry [ifc.EventSize]byte

// eventQueue is a ring of entries in guest memory, of which the device is the
// producer, with an interrupt vector.
type eventQueue struct {
	mem    *span
	log    uint // of the number of entries
	vector int
	mask   uint64 // events it takes, a bit for each type
	kept   kept

	produced uint32
	consumed uint32 // 24 bits
	armed    bool
	lost     bool // entries, for want of room
}

// eventQueues are a device's. They have a lock of their own, a leaf, because entries
// are made with the NIC locked.
type eventQueues struct {
	mu     sync.Mutex
	queues [maxEQs]*eventQueue
	raise  func(vector int)
}

// maxEQs is how many event queues there are at most. Number 0 is not given out.
const maxEQs = 64

func (e *eventQueues) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues = [maxEQs]*eventQueue{}
}

// add gives a queue its number; false if there is none left.
func (e *eventQueues) add(q *eventQueue) (number int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := 1; i < maxEQs; i++ {
		if e.queues[i] == nil {
			e.queues[i] = q
			return i, true
		}
	}
	return 0, false
}

// get is the queue with a number, or nil.
func (e *eventQueues) get(number uint32) *eventQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	if number >= maxEQs {
		return nil
	}
	return e.queues[number]
}

func (e *eventQueues) remove(number uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[number] = nil
}

// update takes the driver's index, and arms the queue.
func (e *eventQueues) update(number uint8, index uint32, arm bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if int(number) >= maxEQs || e.queues[number] == nil {
		return
	}
	q := e.queues[number]
	q.consumed = index
	switch {
	case !arm:
	case q.produced&maxNumber != index: // something came since the driver looked
		q.armed = false
		e.raise(q.vector)
	default:
		q.armed = true
	}
}

// post makes an entry in the queue that takes such events, if there is one.
func (e *eventQueues) post(v *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.taker(ifc.Event(v[ifc.EventType])); q != nil {
		e.put(q, v)
	}
}

// complete makes the entry of a completion queue's event.
func (e *eventQueues) complete(number uint32, cqn uint32) {
	var v entry
	v[ifc.EventType] = byte(ifc.EventCompletion)
	be.PutUint32(v[ifc.EventCQ:], cqn)
	e.mu.Lock()
	defer e.mu.Unlock()
	if number < maxEQs && e.queues[number] != nil {
		e.put(e.queues[number], &v)
	}
}

// commandsAnnounced reports whether there is a queue for the ends of commands.
func (e *eventQueues) commandsAnnounced() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.taker(ifc.EventCommand) != nil
}

func (e *eventQueues) announceCommand(slot int) {
	var v entry
	v[ifc.EventType] = byte(ifc.EventCommand)
	be.PutUint32(v[ifc.EventCommands:], 1<<slot)
	e.post(&v)
}

// taker is the queue that takes events of a type. e.mu is held.
func (e *eventQueues) taker(t ifc.Event) *eventQueue {
	for _, q := range e.queues {
		if q != nil && q.mask>>t&1 != 0 {
			return q
		}
	}
	return nil
}

// put makes an entry: its last word, with the owner bit, last. e.mu is held.
func (e *eventQueues) put(q *eventQueue, v *entry) {
	size := uint32(1) << q.log
	if (q.produced-q.consumed)&maxNumber >= size {
		q.lost = true
		return
	}
	at := uint64(q.produced&(size-1)) * ifc.EventSize
	v[ifc.EventOwner] = byte(q.produced>>q.log) & 1
	const last = ifc.EventSize - 4
	if q.mem.Write(at, v[:last]) != nil || !q.mem.Store32(at+last, binary.NativeEndian.Uint32(v[last:])) {
		q.lost = true
		return
	}
	q.produced++
	if q.armed {
		q.armed = false
		e.raise(q.vector)
	}
}

// asyncTypes are the entries for the NIC's asynchronous events.
var asyncTypes = map[uint32]ifc.Event{
	uapi.EventCQErr:            ifc.EventCQError,
	uapi.EventQPFatal:          ifc.EventQPFatal,
	uapi.EventQPReqErr:         ifc.EventQPRequest,
	uapi.EventQPAccessErr:      ifc.EventQPAccess,
	uapi.EventCommEst:          ifc.EventEstablished,
	uapi.EventPortActive:       ifc.EventPort,
	uapi.EventPortErr:          ifc.EventPort,
	uapi.EventSRQErr:           ifc.EventSRQFatal,
	uapi.EventSRQLimitReached:  ifc.EventSRQLimit,
	uapi.EventQPLastWQEReached: ifc.EventLastReceive,
}

// entryOf is the entry for an event of the NIC; ok is false if there is none.
func entryOf(a softnic.FunctionEvent) (v entry, ok bool) {
	t, ok := asyncTypes[a.Kind]
	v[ifc.EventType] = byte(t)
	switch t {
	case ifc.EventPort:
		v[ifc.EventSubtype] = ifc.PortDown
		if a.Kind == uapi.EventPortActive {
			v[ifc.EventSubtype] = ifc.PortUp
		}
		v[ifc.EventPortNumber] = byte(a.Number) << 4
	case ifc.EventCQError:
		be.PutUint32(v[ifc.EventErrorCQ:], a.Number)
	default:
		be.PutUint32(v[ifc.EventNumber:], a.Number)
	}
	return v, ok
}

// createEQ makes an event queue.
func (d *Device) createEQ(r *request) error {
	c := r.in[ifc.Context:]
	q := &eventQueue{log: uint(ifc.EventQueue.LogSize.Get(c)), vector: int(ifc.EventQueue.Vector.Get(c)), mask: be.Uint64(r.in[ifc.EventMask:])}
	switch {
	case q.log > logMaxEQSize:
		return refuse(ifc.BadSize, "event queue of 1<<%d entries", q.log)
	case q.vector >= Vectors:
		return refuse(ifc.BadParameter, "interrupt vector %d", q.vector)
	case ifc.EventQueue.PageOffset.Get(c) != 0:
		return refuse(ifc.BadParameter, "event queue within a page")
	}
	var err error
	if q.mem, err = d.pages(r, ifc.EventQueue.LogPage.Get(c), 0, ifc.EventSize<<q.log); err != nil {
		return err
	}
	number, ok := d.events.add(q)
	if !ok {
		return refuse(ifc.ExceedsLimit, "%d event queues", maxEQs-1)
	}
	q.kept = kept{len(q.mem.pages), [contextSize]byte(c)}
	d.budget -= int64(q.kept.pages)
	r.answer(uint32(number))
	return nil
}

func (d *Device) destroyEQ(r *request) error {
	number := r.object() & 0xff
	q := d.events.get(number)
	if q == nil {
		return refuse(ifc.BadResource, "no event queue %d", number)
	}
	d.events.remove(number)
	d.budget += int64(q.kept.pages)
	return nil
}
