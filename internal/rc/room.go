package rc

// room is what the owner lets a requester put on its way, so that many queue pairs do
// not send what their receiver, which they do not know of each other, cannot hold.
type room struct {
	bounded bool
	more    seq  // packets
	held    bool // the next packet had no room
}

// SetRoom lets the requester put n packets more on their way, and no more until it is
// called again; without it the window alone is the bound. The n-th asks for an
// acknowledgement, so that room comes back. The answer to a READ counts as packets, and
// what is sent again as well.
func (q *QP) SetRoom(n int) { q.request.room = room{bounded: true, more: seq(max(n, 0))} }

// Held reports whether, since SetRoom, a packet could have been sent but for room.
func (q *QP) Held() bool { return q.request.held }

// Outstanding is how many packets are under way: sent, the answers asked for by READs
// too, and not acknowledged.
func (q *QP) Outstanding() int {
	if q.state != ReadyToSend {
		return 0
	}
	return int(q.request.next - q.request.oldest)
}

func (r *room) hasRoom(n seq) bool {
	if r.bounded && n > r.more {
		r.held = true
		return false
	}
	return true
}

// isLast says that no packet may follow the next one.
func (r *room) isLast() bool { return r.bounded && r.more == 1 }

func (r *room) take(n seq) { r.more -= n }
