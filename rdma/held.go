package rdma

import "sync"

// held keeps the ports open that the clients of a listener have come to, until the listener is
// closed: to open a device takes longer than all the rest of a handshake, and a stranger who
// knows what to say would have it opened and closed for each of his. It is safe for
// concurrent use; a nil one keeps nothing.
type held struct {
	mu    sync.Mutex
	ports map[*port]bool
}

// keep keeps a port that its caller has acquired. Those whose device has failed are let go.
func (h *held) keep(p *port) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports[p] {
		return
	}
	for old := range h.ports {
		if old.nic.Err() != nil {
			old.release()
			delete(h.ports, old)
		}
	}
	p.share()
	if h.ports == nil {
		h.ports = map[*port]bool{}
	}
	h.ports[p] = true
}

// release lets all go. Nothing is kept afterwards.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.ports {
		p.release()
	}
	h.ports = nil
}
