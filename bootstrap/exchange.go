package bootstrap

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
)

// DefaultTimeout bounds an exchange whose Timeout is zero.
const DefaultTimeout = 10 * time.Second

// Exchange is how to run exchanges. The zero Exchange is ready for use, and one value
// may serve any number of them at once.
type Exchange struct {
	// Timeout bounds the whole exchange, however little bytes trickle in. 0 means
	// DefaultTimeout. The context may end it earlier.
	Timeout time.Duration

	// Features are offered to the peer. Required are those of them without which the
	// exchange is refused.
	Features, Required Features
}

// Result is what both sides have agreed on.
type Result struct {
	Peer     Message
	Version  uint8
	Features Features
}

// Dial introduces local to the listener at the other end of nc. connect is called with
// what the listener said, its MTU and Size being the smaller of both sides': it must
// connect the queue pair and post local.Receives receives before it returns; if peer.First
// is not 0, local.First of them are enough.
//
// If Dial fails the listener knows or finds nc closed: nc is the caller's to close, and
// so is what connect made. Once it succeeds nc has no deadline that Dial set and no
// unread byte of the exchange.
func (x Exchange) Dial(ctx context.Context, nc net.Conn, local Message, connect func(peer Message) error) (Result, error) {
	var r Result
	err := x.run(ctx, nc, func(s *session) (err error) {
		r, err = s.dial(x, local, connect)
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("bootstrap: %w", err)
	}
	return r, nil
}

// Accept is the listener's side of Dial. answer is called with what the dialer said: it
// must make a queue pair, connect it, post its receives as for Dial, and return what the dialer is
// to be told, of which MTU and Size are lowered to the dialer's if these are smaller.
func (x Exchange) Accept(ctx context.Context, nc net.Conn, answer func(peer Message) (Message, error)) (Result, error) {
	var r Result
	err := x.run(ctx, nc, func(s *session) (err error) {
		r, err = s.accept(x, answer)
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("bootstrap: %w", err)
	}
	return r, nil
}

// run runs one side, within the deadline, and tells the peer if it fails.
func (x Exchange) run(ctx context.Context, nc net.Conn, side func(*session) error) error {
	timeout := x.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		nc.SetDeadline(time.Unix(1, 0))
	})
	s := &session{nc: nc}
	rand.Read(s.nonce[:])
	err := side(s)
	if err != nil && ctx.Err() == nil {
		if refused := asRefused(err); refused != nil && !s.broken {
			s.send(refuseBytes(s.peer, refused.Code, refused.Text))
		}
	}
	if !stop() {
		<-stopped
		if err == nil {
			err = ctx.Err()
		}
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// session is one exchange under way.
type session struct {
	nc     net.Conn
	nonce  nonce // ours
	peer   nonce // the peer's, once known
	broken bool  // nc has failed
}

func (s *session) dial(x Exchange, local Message, connect func(Message) error) (Result, error) {
	if err := local.validate(); err != nil {
		return Result{}, fmt.Errorf("local: %v", err)
	}
	own := hello{Message: local, min: Version, max: Version, features: x.Features, required: x.Required, nonce: s.nonce}
	if err := s.send(own.bytes()); err != nil {
		return Result{}, err
	}
	theirs, err := s.receiveHello()
	if err != nil {
		return Result{}, err
	}
	switch {
	case theirs.echo != s.nonce:
		return Result{}, &RefusedError{Code: CodeSession, Text: "the answer is to another hello"}
	case theirs.min != Version || theirs.max != Version:
		return Result{}, &RefusedError{Code: CodeVersion, Text: fmt.Sprintf("the answer chose versions %d to %d", theirs.min, theirs.max)}
	case theirs.features&^x.Features != 0:
		return Result{}, &RefusedError{Code: CodeFeatures, Text: "the answer has features that were not offered"}
	}
	r, err := x.agree(local, theirs)
	if err != nil {
		return Result{}, err
	}
	if err := connect(r.Peer); err != nil {
		return Result{}, fmt.Errorf("connect: %w", err)
	}
	return r, s.send(readyBytes(s.peer))
}

func (s *session) accept(x Exchange, answer func(Message) (Message, error)) (Result, error) {
	theirs, err := s.receiveHello()
	if err != nil {
		return Result{}, err
	}
	if missing := (theirs.required &^ x.Features) | (x.Required &^ theirs.features); missing != 0 {
		return Result{}, &RefusedError{Code: CodeFeatures, Text: fmt.Sprintf("features %#x", uint32(missing))}
	}
	if x.Features&GrowingWindows == 0 {
		theirs.First = 0
	}
	local, err := answer(theirs.Message)
	if err != nil {
		return Result{}, fmt.Errorf("answer: %w", err)
	}
	if err := local.validate(); err != nil {
		return Result{}, fmt.Errorf("local: %v", err)
	}
	r, err := x.agree(local, theirs)
	if err != nil {
		return Result{}, err
	}
	local.Endpoint.MTU, local.Size = r.Peer.Endpoint.MTU, r.Peer.Size
	own := hello{Message: local, min: Version, max: Version, features: r.Features, required: x.Required, nonce: s.nonce, echo: s.peer}
	if err := s.send(own.bytes()); err != nil {
		return Result{}, err
	}
	b, err := s.receive(kindReady)
	if err != nil {
		return Result{}, err
	}
	echo, err := parseReady(b)
	if err == nil && echo != s.nonce {
		err = &RefusedError{Code: CodeSession, Text: "the ready is to another hello"}
	}
	return r, err
}

// agree returns what follows from both hellos.
func (x Exchange) agree(local Message, theirs hello) (Result, error) {
	r := Result{Peer: theirs.Message, Version: Version, Features: x.Features & theirs.features}
	if local.Endpoint.LinkLayer != theirs.Endpoint.LinkLayer {
		return r, &RefusedError{Code: CodeEndpoint, Text: fmt.Sprintf("link layers %v and %v", local.Endpoint.LinkLayer, theirs.Endpoint.LinkLayer)}
	}
	if missing := x.Required &^ r.Features; missing != 0 {
		return r, &RefusedError{Code: CodeFeatures, Text: fmt.Sprintf("features %#x", uint32(missing))}
	}
	r.Peer.Endpoint.MTU = verbs.MTU(min(uint8(local.Endpoint.MTU), uint8(theirs.Endpoint.MTU)))
	r.Peer.Size = min(local.Size, theirs.Size)
	return r, nil
}

func (s *session) receiveHello() (hello, error) {
	b, err := s.receive(kindHello)
	if err != nil {
		return hello{}, err
	}
	// The nonce is there in every version, if the message is long enough.
	if len(b) >= offEcho {
		s.peer = nonce(b[offNonce:])
	}
	if b[offMin] > b[offMax] {
		return hello{}, malformed("versions %d to %d", b[offMin], b[offMax])
	}
	if b[offMin] > Version || b[offMax] < Version {
		text := fmt.Sprintf("versions %d to %d; this side speaks %d", b[offMin], b[offMax], Version)
		return hello{}, &RefusedError{Code: CodeVersion, Text: text}
	}
	return parseHello(b)
}

// receive reads one whole message, which must be of the given kind, and no byte more.
// A refusal is returned as an error.
func (s *session) receive(kind uint8) ([]byte, error) {
	b := make([]byte, maxLength)
	if err := s.readHeader(b[:lenHeader]); err != nil {
		return nil, err
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	b = b[:h.length]
	if _, err := io.ReadFull(s.nc, b[lenHeader:]); err != nil {
		s.broken = true
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read message: %w", err)
	}
	switch h.kind {
	case kind:
		return b, nil
	case kindRefuse:
		return nil, parseRefuse(b)
	}
	return nil, malformed("message of kind %d, want %d", h.kind, kind)
}

// readHeader fills b, but stops as soon as it cannot be a header: a client of another
// protocol may never send that many bytes.
func (s *session) readHeader(b []byte) error {
	for n := 0; n < len(b); {
		m, err := s.nc.Read(b[n:])
		n += m
		if k := min(n, len(magic)); string(b[:k]) != magic[:k] {
			return ErrMagic
		}
		if err != nil && n < len(b) {
			s.broken = true
			if err == io.EOF && n > 0 {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read message: %w", err)
		}
	}
	return nil
}

func (s *session) send(b []byte) error {
	if _, err := s.nc.Write(b); err != nil {
		s.broken = true
		return fmt.Errorf("write message: %w", err)
	}
	return nil
}
