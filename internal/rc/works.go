package rc

// works is the send queue: a queue of tasks with two more free-running counters,
//
//	head <= current <= begun <= tail
//
// Tasks from head on are not completed. Those before begun have sequence
// numbers. The next packet to send belongs to current, which goes back to an
// earlier task when packets have to be sent again. Tasks from begun to tail
// have never been looked at.
type works struct {
	Queue[task]
	current, begun uint32
}

// A task is a work with its place in the sequence of packets.
type task struct {
	Work
	first   seq    // of its first packet
	packets uint32 // sequence numbers it takes; 0 for OpNop and for a faulty work
	asked   seq    // READ: where the latest request started that was for the rest of a piece
}

// end is the sequence number after the last packet.
func (t *task) end() seq { return t.first + seq(t.packets) }

// isEmpty says that the task needs no packet.
func (t *task) isEmpty() bool { return t.packets == 0 && t.Fault == OK }

// bytes is what a successful completion reports.
func (t *task) bytes() uint32 {
	switch {
	case t.Op == OpNop:
		return 0
	case t.Op.isAtomic():
		return 8
	}
	return t.Length
}

func (w *works) push(x *Work) { *w.Push() = task{Work: *x} }

// step moves current to the next task that has packets to send or is new: after
// going back, a Nop that has had its turn must not hold up its successors.
func (w *works) step() {
	w.current++
	for w.current != w.begun && w.at(w.current).isEmpty() {
		w.current++
	}
}

// clear forgets all tasks.
func (w *works) clear() { w.current, w.begun, w.head = w.tail, w.tail, w.tail }
