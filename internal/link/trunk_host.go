package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// maxTrunkLinks is how many links a trunk may have.
const maxTrunkLinks = 256

// Serve puts the links of the trunk at the other end of conn on the switch, and returns
// when that trunk has ended or ctx has, with the error that ended it otherwise. What is
// on its way to the trunk is then still delivered, unless the other end does not take it
// for seconds; the links are off the switch, and conn is closed. The ends must name
// the same label, of at most 64 bytes, or both fail with ErrLabel.
func (s *Switch) Serve(ctx context.Context, conn net.Conn, label string) error {
	h := &trunkHost{net: s, trunkConn: newTrunkConn(conn), ports: map[netip.Addr]*port{}}
	defer h.end()
	defer h.leave()
	defer context.AfterFunc(ctx, h.interrupt)()
	err := h.greet(label)
	if err == nil && ctx.Err() == nil { // greeting may have undone the interruption
		err = h.serve()
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("serve trunk: %w", err)
}

// trunkHost is the far end of a trunk.
type trunkHost struct {
	*trunkConn
	net   *Switch
	ports map[netip.Addr]*port // that stand for the trunk's links
}

// interrupt ends reading at once and writing soon.
func (h *trunkHost) interrupt() {
	_ = h.conn.SetReadDeadline(time.Unix(0, 1))
	_ = h.conn.SetWriteDeadline(time.Now().Add(trunkPatience))
}

func (h *trunkHost) leave() {
	for _, p := range h.ports {
		_ = p.Close()
	}
}

func (h *trunkHost) serve() error {
	for {
		kind, body, err := readFrame(h.in)
		if err != nil {
			return err
		}
		switch kind {
		case frameJoin:
			err = h.joinFor(body)
		case frameHas:
			err = h.hasFor(body)
		case frameLeave:
			err = h.leaveFor(body)
		case framePacket:
			err = h.forward(body)
		default:
			err = fmt.Errorf("frame of kind %d: %w", kind, ErrTrunk)
		}
		if err != nil {
			return err
		}
	}
}

// joinFor puts a port on the switch that sends what it gets through the trunk.
func (h *trunkHost) joinFor(body []byte) error {
	addr, err := parseAddr(body)
	if err != nil {
		return err
	}
	answer := byte(answerTooMany)
	if len(h.ports) < maxTrunkLinks {
		p, err := h.net.join(addr, func(p *Packet) {
			if !h.push(p) {
				p.Release()
			}
		})
		switch {
		case err == nil:
			h.ports[p.addr] = p
			answer = answerDone
		case errors.Is(err, ErrAddrInUse):
			answer = answerInUse
		default:
			answer = answerBadAddr
		}
	}
	return h.answer(answer)
}

func (h *trunkHost) hasFor(body []byte) error {
	addr, err := parseAddr(body)
	if err != nil {
		return err
	}
	if h.net.Has(addr) {
		return h.answer(answerInUse)
	}
	return h.answer(answerDone)
}

func (h *trunkHost) answer(a byte) error {
	return h.put(append(appendFrame(nil, frameAnswer, 1), a))
}

func (h *trunkHost) leaveFor(body []byte) error {
	addr, err := parseAddr(body)
	if err != nil {
		return err
	}
	if p := h.ports[addr]; p != nil {
		delete(h.ports, addr)
		return p.Close()
	}
	return nil
}

// forward sends a packet for the link it is from, which may have left meanwhile.
func (h *trunkHost) forward(body []byte) error {
	pkt, err := parsePacket(body)
	if err != nil {
		return err
	}
	if p := h.ports[pkt.Src]; p != nil {
		p.Send(pkt)
	} else {
		pkt.Release()
	}
	return nil
}
