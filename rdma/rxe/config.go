package rxe

import (
	"fmt"

	"github.com/farwire/farwire/internal/rxeabi"
	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/verbs"
)

// PairConfig is how large a queue pair is.
type PairConfig struct {
	Sends    int // entries of the send ring, at least 1
	Receives int // receives of the receive ring; 0 takes no messages

	SendSegments    int // segments of an entry; 0 is 1
	ReceiveSegments int // segments of a receive; 0 is 1
	Inline          int // inline bytes of an entry; the kernel knows how many it takes

	// ReceiveQueue is where receives complete; nil is where entries do. It must be
	// of the same NIC.
	ReceiveQueue *Queue
}

// PairLimits is what a queue pair holds: at least what was asked for.
type PairLimits struct {
	Sends, Receives int
	SendSegments    int
	ReadSegments    int // segments of a read
	ReceiveSegments int
	Inline          int
	Message         uint32 // bytes of an entry, or of a receive
	Atomics         bool   // atomics may be posted
}

// caps checks c against the NIC and is what the kernel is asked for. It makes rings
// of no receives, too.
func (c PairConfig) caps(l Limits) (verbs.QPCap, error) {
	if c.Sends < 1 || c.Receives < 0 || c.SendSegments < 0 || c.ReceiveSegments < 0 || c.Inline < 0 {
		return verbs.QPCap{}, fmt.Errorf("sends, receives, segments or inline bytes out of range: %+v", c)
	}
	for _, b := range []struct {
		what    string
		n, most int
	}{
		{"sends", c.Sends, l.Work},
		{"receives", c.Receives, l.Work},
		{"segments of an entry", c.SendSegments, l.Segments},
		{"segments of a receive", c.ReceiveSegments, l.Segments},
	} {
		if b.n > b.most {
			return verbs.QPCap{}, fmt.Errorf("%d %s is more than %d", b.n, b.what, b.most)
		}
	}
	return verbs.QPCap{
		SendWR: uint32(c.Sends), RecvWR: uint32(max(1, c.Receives)),
		SendSGE: uint32(max(1, c.SendSegments)), RecvSGE: uint32(max(1, c.ReceiveSegments)),
		Inline: uint32(c.Inline),
	}, nil
}

// limits is what the queue pair of c holds, as the kernel granted it and as the slots
// of its rings do.
func (c PairConfig) limits(l Limits, granted verbs.QPCap, sends, receives *ring) PairLimits {
	entry := sends.size() - rxeabi.Size[rxeabi.SendEntry]()
	receive := receives.size() - rxeabi.Size[rxeabi.ReceiveEntry]()
	segment := rxeabi.Size[rxeabi.Segment]()
	p := PairLimits{
		Sends: c.Sends, Receives: c.Receives,
		SendSegments:    min(int(granted.SendSGE), entry/segment, l.Segments),
		ReceiveSegments: min(int(granted.RecvSGE), receive/segment, l.Segments),
		Inline:          min(int(granted.Inline), entry),
		Message:         l.Message, Atomics: l.Atomics,
	}
	p.ReadSegments = min(p.SendSegments, max(1, l.ReadSegments))
	return p
}

func (l *PairLimits) bounds() nic.Bounds {
	return nic.Bounds{
		SendSegments: l.SendSegments, ReadSegments: l.ReadSegments, ReceiveSegments: l.ReceiveSegments,
		Inline: l.Inline, Message: l.Message, Atomics: l.Atomics,
	}
}
