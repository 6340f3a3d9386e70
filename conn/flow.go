package conn

// Fields of the immediate data; see the package comment.
const (
	immFIN      = 1 << 31
	immSTOP     = 1 << 30
	immPROBE    = 1 << 29
	immReserved = 0x1f << 24
)

// flow is what one side knows about the credits of both directions. It decides what
// may be sent and checks what is received, and does no I/O. See the package comment.
type flow struct {
	window, widest   int // receives of the peer that data may use: at first, and ever
	first, own, most int // receives of ours that the peer's data may use: at first, now, and ever

	sent, granted     uint16 // data messages sent; counted by the peer, or granted before they are sent
	ctlSent, ctlKnown uint8  // control messages sent; of these, counted by the peer

	arrived, freed, reported uint16 // data messages received; receives posted since the first; last told
	ctlSeen, ctlReported     uint8  // control messages received; last told
	lastReport               uint8  // ctlSent after the last control message that had to report grants

	finWanted, finSent, finSeen    bool
	stopWanted, stopSent, stopSeen bool
}

// newFlow is the flow of a side that posts receives[0] and may come to post receives[1],
// with a peer of which the same is known.
func newFlow(receives, peer [2]int) flow {
	return flow{
		window: peer[0] - Reserve, widest: peer[1] - Reserve,
		first: receives[0] - Reserve, own: receives[0] - Reserve, most: receives[1] - Reserve,
	}
}

// credits returns how many data messages may be sent now.
func (f *flow) credits() int {
	if f.finSent || f.stopSeen {
		return 0
	}
	return f.window - f.unaccounted()
}

// unaccounted is how many data messages were sent beyond those granted; negative if the
// peer has granted more than were sent, which only one whose window has grown does.
func (f *flow) unaccounted() int { return int(int16(f.sent - f.granted)) }

// sendData counts one data message, which needs a credit, and returns its immediate
// data. last says that no data is left after it.
func (f *flow) sendData(last bool) uint32 {
	f.sent++
	return f.imm(last)
}

// sendProbe counts a message that says nothing, for which there must be a credit and no
// reason to send another, and returns its immediate data.
func (f *flow) sendProbe() uint32 { return f.sendData(false) | immPROBE }

// controlDue reports whether a control message must be sent. dataLeft says that
// there is data to send before a FIN.
func (f *flow) controlDue(dataLeft bool) bool {
	return f.finWanted && !f.finSent && !dataLeft || f.stopDue() || f.reportDue()
}

// controlAllowed reports whether the peer has a receive for a control message.
func (f *flow) controlAllowed() bool { return f.ctlSent-f.ctlKnown < Reserve }

// sendControl counts one control message and returns its immediate data.
func (f *flow) sendControl(dataLeft bool) uint32 {
	f.ctlSent++
	if f.reportDue() {
		f.lastReport = f.ctlSent
	}
	return f.imm(!dataLeft)
}

// receive checks and counts a message of n bytes.
func (f *flow) receive(n int, imm uint32) error {
	grants, controls := uint16(imm)-f.granted, uint8(imm>>16)-f.ctlKnown
	data := isData(n, imm)
	switch {
	case imm&immReserved != 0:
		return &ProtocolError{Reason: "unknown bits in immediate data"}
	case int(grants) > f.unaccounted()+f.widest-f.window:
		return &ProtocolError{Reason: "grants for data never sent"}
	case controls > f.ctlSent-f.ctlKnown:
		return &ProtocolError{Reason: "count of control messages never sent"}
	case imm&immFIN != 0 && f.finSeen, imm&immSTOP != 0 && f.stopSeen:
		return &ProtocolError{Reason: "a flag said twice"}
	case imm&immPROBE != 0 && n > 0:
		return &ProtocolError{Reason: "a probe with payload"}
	case data && f.finSeen:
		return &ProtocolError{Reason: "data after the end of the stream"}
	case data && f.room() <= 0:
		return &ProtocolError{Reason: "data without credit"}
	case !data && f.ctlSeen-f.ctlReported >= Reserve:
		return &ProtocolError{Reason: "control message without credit"}
	}
	f.granted += grants
	f.ctlKnown += controls
	f.finSeen = f.finSeen || imm&immFIN != 0
	f.stopSeen = f.stopSeen || imm&immSTOP != 0
	if data {
		f.arrived++
	} else {
		f.ctlSeen++
	}
	return nil
}

// isData reports whether a message of n bytes takes a credit for data.
func isData(n int, imm uint32) bool { return n > 0 || imm&immPROBE != 0 }

// room returns how many receives for data are posted.
func (f *flow) room() int { return f.first - int(int16(f.arrived-f.freed)) }

// starved reports whether the peer cannot send data, as far as it has been told.
func (f *flow) starved() bool { return int(int16(f.arrived-f.reported)) >= f.first }

// free counts a receive that held data and has been posted again.
func (f *flow) free() { f.freed++ }

// shrink reports whether a receive that held data is to be kept instead, since there are
// more than at first, and counts that.
func (f *flow) shrink() bool {
	if f.own == f.first {
		return false
	}
	f.own--
	return true
}

// mayGrow reports whether n more receives may be posted now. A report must be due then,
// and no other on its way: the package comment says why.
func (f *flow) mayGrow(n int) bool {
	if f.finSeen || f.stopSent || f.own+n > f.most {
		return false
	}
	if f.reportDue() {
		return true
	}
	onWay := f.lastReport - f.ctlKnown
	return (onWay == 0 || onWay > Reserve) && int(f.freed-f.reported)+n > (f.own+n)/2
}

// grow counts n more receives that have been posted.
func (f *flow) grow(n int) {
	f.own += n
	f.freed += uint16(n)
}

// stopDue reports whether STOP must be said. Once the peer has said FIN it is pointless.
func (f *flow) stopDue() bool { return f.stopWanted && !f.stopSent && !f.finSeen }

func (f *flow) reportDue() bool {
	return int(f.freed-f.reported) > f.own/2 && !f.finSeen && !f.stopSent
}

// imm returns the immediate data of the next message and takes note of what it says.
func (f *flow) imm(last bool) uint32 {
	v := uint32(f.ctlSeen)<<16 | uint32(f.freed)
	f.reported, f.ctlReported = f.freed, f.ctlSeen
	if f.finWanted && !f.finSent && last {
		f.finSent = true
		v |= immFIN
	}
	if f.stopDue() {
		f.stopSent = true
		v |= immSTOP
	}
	return v
}
