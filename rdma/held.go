package rdma

import (
	"sync"

	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// held keeps the ports open that the clients of a listener have come to, until the listener is
// closed: to open a device takes longer than all the rest of a handshake, and a stranger who
// knows what to say would have it opened and closed for each of his. A device that fails or is
// removed is let go at once. It is safe for concurrent use; a nil one keeps nothing.
type held struct {
	mu    sync.Mutex
	ports map[*port]func() // with what ends the hearing of its events
}

// keep keeps a port that its caller has acquired.
func (h *held) keep(p *port) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports[p] != nil {
		return
	}
	if h.ports == nil {
		h.ports = map[*port]func(){}
	}
	p.share()
	h.ports[p] = p.nic.Events(func(e nic.Event) {
		if e.Type == verbs.EventDeviceFatal {
			go h.drop(p) // to close a device waits for whoever tells of its events
		}
	})
	if p.nic.Err() != nil { // perhaps before anybody listened
		go h.drop(p)
	}
}

// drop lets one go.
func (h *held) drop(p *port) {
	h.mu.Lock()
	silence := h.ports[p]
	delete(h.ports, p)
	h.mu.Unlock()
	if silence != nil {
		silence()
		p.release()
	}
}

// release lets all go. Nothing is kept afterwards.
func (h *held) release() {
	h.mu.Lock()
	ports := h.ports
	h.ports = nil
	h.mu.Unlock()
	for p, silence := range ports {
		silence()
		p.release()
	}
}
