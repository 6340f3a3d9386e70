package rc

import "github.com/farwire/farwire/internal/roce"

// read accepts a READ request. The responses are made when they are sent.
func (r *responder) read(p *roce.Packet) *refusal {
	h := p.RETH()
	n := h.Length()
	switch {
	case r.attr.Access&RemoteRead == 0:
		return refuseRight
	case r.answers.full():
		return refuseDepth
	case n > MaxMessage:
		return refuseLength
	case n > 0 && !r.q.host.CheckRemote(h.RKey(), h.VA(), n, RemoteRead):
		return refuseKey
	}
	r.promise(answer{
		first: r.expected,
		end:   r.expected + seq(roce.Packets(n, int(r.q.mtu))),
		whole: span{h.RKey(), h.VA(), n},
	})
	return nil
}

// atomic carries out an atomic operation and keeps its result, which is all that
// a duplicate of the request will ever get.
func (r *responder) atomic(p *roce.Packet) *refusal {
	h, host := p.AtomicETH(), r.q.host
	op := OpCompareSwap
	if p.Info.Kind == roce.KindFetchAdd {
		op = OpFetchAdd
	}
	switch {
	case r.attr.Access&RemoteAtomic == 0:
		return refuseRight
	case r.answers.full():
		return refuseDepth
	case h.VA()%8 != 0:
		return refuseAlignment
	case !host.CheckRemote(h.RKey(), h.VA(), 8, RemoteAtomic):
		return refuseKey
	}
	value, ok := host.Atomic(h.RKey(), h.VA(), op, h.SwapAdd(), h.Compare())
	if !ok {
		return refuseKey
	}
	r.promise(answer{first: r.expected, end: r.expected + 1, atomic: true, value: value})
	return nil
}

// promise keeps the answer to the expected request and moves past it. It will
// acknowledge everything before.
func (r *responder) promise(a answer) {
	r.answers.add(a)
	r.expected = a.end
	r.msn++
	r.verdict = verdict{}
}
