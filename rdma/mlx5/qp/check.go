package qp

import "github.com/farwire/farwire/rdma/internal/nic"

// bounds is what may be posted.
func (l *Limits) bounds() nic.Bounds {
	return nic.Bounds{
		SendSegments: l.SendSegments, ReadSegments: l.ReadSegments, ReceiveSegments: l.ReceiveSegments,
		Inline: l.Inline, Message: l.Message, Atomics: l.Atomics,
	}
}
