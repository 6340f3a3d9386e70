package link

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Trunk is a way to a Switch of another process, which serves its other end. Links that
// join through it are on that switch. All methods are safe for concurrent use.
type Trunk struct {
	*trunkConn
	readEnd chan struct{}
	close   sync.Once

	asking sync.Mutex // held for a question and its answer
	answer chan byte

	mu    sync.Mutex
	asked *question // for which there is no answer yet
	links map[netip.Addr]*trunkLink

	failed error // set when readEnd is closed
}

// question is what the other end is asked about an address. The link is the one that
// wants it, or nil.
type question struct{ link *trunkLink }

// answerPatience is how long the other end may take to answer.
const answerPatience = 20 * time.Second

// NewTrunk is the trunk over conn, which is then the trunk's. See Switch.Serve for the
// label.
func NewTrunk(conn net.Conn, label string) (*Trunk, error) {
	t := &Trunk{
		trunkConn: newTrunkConn(conn), readEnd: make(chan struct{}),
		answer: make(chan byte, 1), links: map[netip.Addr]*trunkLink{},
	}
	if err := t.greet(label); err != nil {
		t.end()
		return nil, fmt.Errorf("trunk: %w", err)
	}
	go t.read()
	return t, nil
}

// Done is closed when the trunk has ended, also by the other end. Its links then have
// lost their network: what they send is dropped.
func (t *Trunk) Done() <-chan struct{} { return t.readEnd }

// Close ends the trunk, once what was sent is on its way, and waits until no receiver of
// its links runs any more. Links stay their owners', to be closed.
func (t *Trunk) Close() error {
	t.close.Do(t.end)
	<-t.readEnd
	return nil
}

// Join puts a link with this address on the other end's switch. It fails as Switch.Join
// does, and when the trunk has ended.
func (t *Trunk) Join(addr netip.Addr, r Receiver) (Link, error) {
	l, err := t.join(addr, r)
	if err != nil {
		return nil, fmt.Errorf("join network as %v: %w", addr, err)
	}
	return l, nil
}

func (t *Trunk) join(addr netip.Addr, r Receiver) (*trunkLink, error) {
	addr, err := usable(addr)
	if err != nil {
		return nil, err
	}
	l := &trunkLink{end: newEnd(addr, r), trunk: t}
	answer, err := t.ask(frameJoin, addr, l)
	if err == nil {
		err = joinError(answer)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Has asks whether a link with this address is on the other end's switch. It is false
// when the trunk has ended.
func (t *Trunk) Has(addr netip.Addr) bool {
	answer, err := t.ask(frameHas, addr.Unmap(), nil)
	return err == nil && answer == answerInUse
}

// ask asks the other end a question about an address, for a link or for none. A trunk
// whose other end does not answer ends.
func (t *Trunk) ask(kind uint8, addr netip.Addr, l *trunkLink) (answer byte, err error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	select {
	case <-t.readEnd: // perhaps with an answer that nobody took
		return 0, t.failed
	default:
	}
	t.mu.Lock()
	t.asked = &question{l}
	t.mu.Unlock()
	if err := t.put(addrFrame(kind, addr)); err != nil {
		return 0, err
	}
	late := time.NewTimer(answerPatience)
	defer late.Stop()
	select {
	case answer = <-t.answer:
		return answer, nil
	case <-late.C:
		_ = t.conn.Close()
	case <-t.readEnd:
	}
	<-t.readEnd
	return 0, t.failed
}

func joinError(answer byte) error {
	switch answer {
	case answerDone:
		return nil
	case answerInUse:
		return ErrAddrInUse
	case answerBadAddr:
		return ErrAddr
	}
	return fmt.Errorf("refused: %d links or more", maxTrunkLinks)
}

func (t *Trunk) read() {
	defer close(t.readEnd)
	for {
		kind, body, err := readFrame(t.in)
		switch {
		case err != nil:
		case kind == frameAnswer:
			err = t.answered(body)
		case kind == framePacket:
			err = t.arrive(body)
		default:
			err = fmt.Errorf("frame of kind %d: %w", kind, ErrTrunk)
		}
		if err != nil {
			t.failed = fmt.Errorf("the network has ended: %w", noEOF(err))
			_ = t.conn.Close() // so that the writer ends too
			return
		}
	}
}

// answered takes the answer to a question. From here on packets come for a link that
// joined.
func (t *Trunk) answered(body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked == nil || len(body) != 1 {
		return fmt.Errorf("answer of %d bytes: %w", len(body), ErrTrunk)
	}
	if l := t.asked.link; l != nil && body[0] == answerDone {
		t.links[l.addr] = l
	}
	t.asked = nil
	t.answer <- body[0]
	return nil
}

// arrive gives a packet to its link, which may have been closed meanwhile.
func (t *Trunk) arrive(body []byte) error {
	p, err := parsePacket(body)
	if err != nil {
		return err
	}
	t.mu.Lock()
	l := t.links[p.Dst]
	t.mu.Unlock()
	if l == nil || !l.gate.enter() {
		p.Release()
		return nil
	}
	defer l.gate.leave()
	l.deliver(p)
	return nil
}
