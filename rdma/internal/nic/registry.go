package nic

import "sync"

// registry finds what an event of the kernel is about, by the user handle that
// the object was created with.
type registry struct {
	mu          sync.RWMutex
	last        uint64
	objects     map[uint64]object
	subscribers map[uint64]func(Event)
}

// object is a completion queue or, if it has no owner, a queue pair or a shared receive
// queue.
type object struct {
	owner     CQOwner
	qpn, srqn uint32
}

func (r *registry) init() {
	r.objects = map[uint64]object{}
	r.subscribers = map[uint64]func(Event){}
}

// CQOwner hears of a completion queue. Both methods are called on the device's
// own goroutines and must not block.
type CQOwner interface {
	Completed()          // a completion event was taken from the channel
	Failed(overrun bool) // nothing more will complete: the queue's fault, or the device's
}

// AddCQ returns the user handle to create a completion queue with. owner hears of
// it until Remove returns, and perhaps once more while it returns.
func (d *Device) AddCQ(owner CQOwner) uint64 { return d.registry.add(object{owner: owner}) }

// AddQP returns the user handle to create a queue pair with.
func (d *Device) AddQP() uint64 { return d.registry.add(object{}) }

// NumberQP tells the number of the queue pair that was created with id.
func (d *Device) NumberQP(id uint64, qpn uint32) { d.registry.number(id, object{qpn: qpn}) }

// AddSRQ returns the user handle to create a shared receive queue with.
func (d *Device) AddSRQ() uint64 { return d.registry.add(object{}) }

// NumberSRQ tells the number of the shared receive queue that was created with id.
func (d *Device) NumberSRQ(id uint64, srqn uint32) { d.registry.number(id, object{srqn: srqn}) }

// Remove ends AddCQ, AddQP or AddSRQ.
func (d *Device) Remove(id uint64) { d.registry.remove(id) }

// add returns the object's handle, which is not used again.
func (r *registry) add(o object) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.objects[r.last] = o
	return r.last
}

func (r *registry) number(id uint64, o object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[id] = o
}

func (r *registry) remove(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, id)
}

func (r *registry) get(id uint64) object {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.objects[id]
}

// owners are those of all completion queues.
func (r *registry) owners() (all []CQOwner) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, o := range r.objects {
		if o.owner != nil {
			all = append(all, o.owner)
		}
	}
	return all
}

func (r *registry) subscribe(f func(Event)) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	id := r.last
	r.subscribers[id] = f
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, id)
	}
}

func (r *registry) publish(e Event) {
	r.mu.RLock()
	all := make([]func(Event), 0, len(r.subscribers))
	for _, f := range r.subscribers {
		all = append(all, f)
	}
	r.mu.RUnlock()
	for _, f := range all {
		f(e)
	}
}
