package link

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// trunkConn is one end's connection: a bounded queue of frames, and the goroutine that
// writes them. Reading is its owner's.
type trunkConn struct {
	conn  net.Conn
	in    *bufio.Reader
	queue chan trunkFrame
	stop  chan struct{} // closed: write what is queued, and end
	ended chan struct{} // closed: nothing is written any more
}

// trunkFrame is a packet or, where that is nil, a whole frame.
type trunkFrame struct {
	packet *Packet
	frame  []byte
}

const (
	// trunkQueue is how many frames wait for the writer. Packets that find no room are
	// lost: waiting for it would let two ends wait for each other.
	trunkQueue = 1 << 12

	// trunkBuffer is the bytes that are read and written at once.
	trunkBuffer = 1 << 16

	// trunkPatience is how long a peer may take to greet, or to take what is still
	// written when the trunk ends.
	trunkPatience = 5 * time.Second

	// roomPatience is how long a peer may leave no room in the queue for what must not
	// be lost.
	roomPatience = 20 * time.Second
)

func newTrunkConn(conn net.Conn) *trunkConn {
	c := &trunkConn{
		conn: conn, in: bufio.NewReaderSize(conn, trunkBuffer), queue: make(chan trunkFrame, trunkQueue),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go c.write()
	return c
}

// write writes frames until the trunk ends. After an error the connection is closed, so
// that the reader ends too.
func (c *trunkConn) write() {
	defer close(c.ended)
	out := bufio.NewWriterSize(c.conn, trunkBuffer)
	var scratch [frameHead + maxFrame]byte
	for {
		f, ok := c.next(out)
		if !ok {
			return
		}
		if f.packet != nil {
			f.frame = appendPacket(scratch[:0], f.packet)
			f.packet.Release()
		}
		if _, err := out.Write(f.frame); err != nil {
			_ = c.conn.Close()
			return
		}
	}
}

// next waits for a frame to be written. Before it waits what was written goes out.
func (c *trunkConn) next(out *bufio.Writer) (f trunkFrame, ok bool) {
	select {
	case f = <-c.queue:
		return f, true
	default:
	}
	if err := out.Flush(); err != nil {
		_ = c.conn.Close()
		return f, false
	}
	select {
	case f = <-c.queue:
		return f, true
	case <-c.stop:
	}
	// What was queued while the flush took its time goes out as well.
	select {
	case f = <-c.queue:
		return f, true
	default:
		return f, false
	}
}

// push queues a packet and takes it, or reports that there is no room.
func (c *trunkConn) push(p *Packet) bool {
	select {
	case <-c.ended:
		return false
	default:
	}
	select {
	case c.queue <- trunkFrame{packet: p}:
		return true
	default:
		return false
	}
}

// put queues a frame, and waits for room. A peer that makes none for long has its
// connection closed.
func (c *trunkConn) put(frame []byte) error {
	late := time.NewTimer(roomPatience)
	defer late.Stop()
	select {
	case c.queue <- trunkFrame{frame: frame}:
		return nil
	case <-c.ended:
		return net.ErrClosed
	case <-late.C:
		_ = c.conn.Close()
		return fmt.Errorf("peer takes nothing: %w", os.ErrDeadlineExceeded)
	}
}

// greet exchanges hellos.
func (c *trunkConn) greet(label string) error {
	if len(label) > maxLabel {
		return fmt.Errorf("label of %d bytes, more than %d", len(label), maxLabel)
	}
	hello := trunkVersion + label
	if err := c.put(append(appendFrame(nil, frameHello, len(hello)), hello...)); err != nil {
		return err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(trunkPatience)); err != nil {
		return err
	}
	kind, body, err := readFrame(c.in)
	if err != nil {
		return fmt.Errorf("hello: %w", noEOF(err))
	}
	theirs, ok := strings.CutPrefix(string(body), trunkVersion)
	if kind != frameHello || !ok || len(theirs) > maxLabel {
		return fmt.Errorf("hello: frame %d of %d bytes: %w", kind, len(body), ErrTrunk)
	}
	if theirs != label {
		return fmt.Errorf("%w: %q there, %q here", ErrLabel, theirs, label)
	}
	return c.conn.SetReadDeadline(time.Time{})
}

// ErrLabel means that the ends of a trunk are not meant for each other.
var ErrLabel = errors.New("another kind of network")

// noEOF makes an end where none may be an error as such.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// end writes what is queued, as far as the peer takes it soon, and closes the
// connection. Nobody may put any more.
func (c *trunkConn) end() {
	_ = c.conn.SetWriteDeadline(time.Now().Add(trunkPatience))
	close(c.stop)
	<-c.ended
	_ = c.conn.Close()
}
