package conn

import (
	"errors"
	"fmt"
	"net"
)

// ErrReturned is inside the error of a buffer that was given back already.
var ErrReturned = errors.New("buffer was given back")

// errAllReserved is why nothing can be reserved: one buffer is for those who write.
var errAllReserved = errors.New("all send buffers but one are reserved")

// lease tells whether a buffer is still lent to the one who asks. Each buffer counts how
// often it was given back, so that a lease is good until then and never again.
type lease struct {
	c     *Conn
	buf   int
	turns *[]uint64 // by buffer; guarded by Conn.mu
	turn  uint64
}

// good reports whether the buffer is still lent. Called with mu held.
func (l *lease) good() bool { return (*l.turns)[l.buf] == l.turn }

// end gives the lease up; false if that was done before. Called with mu held.
func (l *lease) end() bool {
	if !l.good() {
		return false
	}
	(*l.turns)[l.buf]++
	return true
}

// Received is a message of the peer in the memory that the NIC wrote it to. Copies of it
// are the same message. Its methods may be called by many goroutines at once. The zero
// Received has been given back.
type Received struct {
	lease
	span span
}

// Borrow takes the next bytes out of the stream without copying them: those of a message,
// or what reads have left of it. It blocks like Read, and obeys the same deadline. Several
// messages may be borrowed at once and given back in any order. The peer can go on as long
// as fewer than half of Config.Receives less [Reserve] are, and may have to wait while
// more are. After Close what is borrowed stays readable, and the connection's memory
// registered, until it is given back.
func (c *Conn) Borrow() (Received, error) {
	s, err := c.borrow()
	if err != nil {
		return Received{}, c.opError("read", err)
	}
	return Received{lease{c, s.slot, &c.in.turns, c.in.turns[s.slot]}, s}, nil
}

// Bytes are the bytes, at least one. They must not be written to, nor used in any way
// after Release: the NIC may write the next message there. After Release Bytes is nil.
func (r Received) Bytes() []byte {
	if r.c == nil {
		return nil
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if !r.good() {
		return nil
	}
	return r.c.in.bytes(r.span)
}

// Release gives the memory back, so that the peer may send more. A second call does
// nothing and returns an error with ErrReturned inside.
func (r Received) Release() error {
	if r.c == nil {
		return opError("release", ErrReturned)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if !r.end() {
		return r.c.opError("release", ErrReturned)
	}
	r.span.start = r.span.end
	r.c.giveBack(r.span)
	return nil
}

// Reserved is registered memory that a message is sent from. Copies of it are the same
// memory. Its methods may be called by many goroutines at once. The zero Reserved has been
// given back.
type Reserved struct{ lease }

// Reserve takes a free buffer for the caller to fill and to send without a copy. It blocks
// like Write while all buffers are on their way, and obeys the same deadline. All but one
// of Config.Sends may be reserved at once; one more is an error. After Close, or when the
// connection has failed, a reserved buffer may still be written to, and keeps the
// connection's memory registered until it is given back.
func (c *Conn) Reserve() (Reserved, error) {
	i, ok, err := c.reserve()
	if err == nil && !ok {
		err = errAllReserved
	}
	if err != nil {
		return Reserved{}, c.opError("write", err)
	}
	return Reserved{lease{c, i, &c.out.turns, c.out.turns[i]}}, nil
}

// Bytes is the memory, as much as goes into one message. It must not be used in any way
// after Send or Release: then Bytes is nil.
func (r Reserved) Bytes() []byte {
	if r.c == nil {
		return nil
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if !r.good() {
		return nil
	}
	return r.c.out.bufs[r.buf].Bytes[:r.c.out.size:r.c.out.size]
}

// Send writes the first n bytes to the stream, behind all that was written before, and
// gives the buffer back, also if it fails. Few bytes behind others that have not left yet
// are copied to those, to share their message. A count out of range is an error, and so
// is a buffer that was given back, with ErrReturned inside; then nothing is done.
func (r Reserved) Send(n int) error {
	if r.c == nil {
		return opError("write", ErrReturned)
	}
	return r.c.opError("write", r.send(n))
}

func (r *Reserved) send(n int) error {
	if n < 0 || n > r.c.out.size {
		return fmt.Errorf("%d bytes of a buffer of %d", n, r.c.out.size)
	}
	r.c.mu.Lock()
	mine := r.end()
	r.c.mu.Unlock()
	if !mine {
		return ErrReturned
	}
	return r.c.commit(r.buf, n)
}

// Release gives the buffer back without sending. A second call, or one after Send, does
// nothing and returns an error with ErrReturned inside.
func (r Reserved) Release() error {
	if r.c == nil {
		return opError("release", ErrReturned)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if !r.end() {
		return r.c.opError("release", ErrReturned)
	}
	r.c.unreserve(r.buf)
	return nil
}

// opError is an error of a buffer of no connection.
func opError(op string, err error) error { return &net.OpError{Op: op, Net: Network, Err: err} }
