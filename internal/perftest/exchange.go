package perftest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Version is the one that both ends must have.
const Version = "6.06"

// Exchange is one end of a connection. Its methods block until the peer has said
// the same; deadlines are the connection's. They are not safe for concurrent use.
type Exchange struct {
	conn   io.ReadWriter
	client bool
	global bool
}

// New is the client's end of a connection or the server's. Records have GIDs if
// global is set, which both ends know: those of RoCE have, those of InfiniBand have
// if the program was given a GID index (-x).
func New(conn io.ReadWriter, client, global bool) *Exchange {
	return &Exchange{conn, client, global}
}

// Hello is what the ends agree on. Both use the smaller MTU.
type Hello struct {
	Cycle     uint32 // bytes of memory in which messages of up to half of it move on, a page
	CacheLine uint32 // by how much at least
	MTU       uint8  // path MTU, 1 for 256 bytes to 5 for 4096
}

// ErrHello is returned for a peer of another version, or one that says nonsense.
var ErrHello = errors.New("not a greeting of version " + Version)

// versionSize is the bytes of a version, of which the first zero is the end.
const versionSize = 16

// Hello exchanges versions and what the ends agree on, and returns the peer's.
func (x *Exchange) Hello(mine Hello) (peer Hello, err error) {
	fail := func(err error) (Hello, error) { return Hello{}, fmt.Errorf("perftest hello: %w", err) }
	var version [versionSize]byte
	copy(version[:], Version)
	got, err := x.swap(version[:])
	if err != nil {
		return fail(err)
	}
	if [versionSize]byte(got) != version {
		return fail(fmt.Errorf("%q: %w", got, ErrHello))
	}
	for _, field := range []struct {
		mine uint32
		peer *uint32
	}{{mine.Cycle, &peer.Cycle}, {mine.CacheLine, &peer.CacheLine}} {
		if got, err = x.swap(binary.BigEndian.AppendUint32(nil, field.mine)); err != nil {
			return fail(err)
		}
		*field.peer = binary.BigEndian.Uint32(got)
	}
	if got, err = x.swap([]byte{'0' + mine.MTU, 0}); err != nil {
		return fail(err)
	}
	if got[0] < '1' || got[0] > '5' || got[1] != 0 || peer.Cycle == 0 || peer.CacheLine == 0 {
		return fail(fmt.Errorf("cycle %d, cache line %d, MTU %q: %w", peer.Cycle, peer.CacheLine, got, ErrHello))
	}
	peer.MTU = got[0] - '0'
	return peer, nil
}

// Swap exchanges records and returns the peer's.
func (x *Exchange) Swap(mine Record) (Record, error) {
	b, err := mine.Append(nil, x.global)
	if err == nil {
		b, err = x.swap(b)
	}
	if err != nil {
		return Record{}, fmt.Errorf("perftest record: %w", err)
	}
	r, err := ParseRecord(b, x.global)
	if err != nil {
		return Record{}, fmt.Errorf("perftest record: %w", err)
	}
	return r, nil
}

// Report is what an end measured. That of an end that measured nothing, such as a
// server whose client alone sends, has any values.
type Report struct {
	Size       uint64 // bytes of a message
	Iterations uint64
	Peak       float64 // MiB/s or what the program was asked for
	Average    float64
	Rate       float64 // millions of messages a second
}

// Report exchanges reports and returns the peer's.
func (x *Exchange) Report(mine Report) (peer Report, err error) {
	words := [...]uint64{mine.Size, mine.Iterations,
		math.Float64bits(mine.Peak), math.Float64bits(mine.Average), math.Float64bits(mine.Rate)}
	for i, w := range words {
		b, err := x.swap(binary.BigEndian.AppendUint64(nil, w))
		if err != nil {
			return Report{}, fmt.Errorf("perftest report: %w", err)
		}
		words[i] = binary.BigEndian.Uint64(b)
	}
	return Report{words[0], words[1],
		math.Float64frombits(words[2]), math.Float64frombits(words[3]), math.Float64frombits(words[4])}, nil
}

// farewell is the last message. An end sends it and closes: whether the peer's is
// still to be had depends on who was first.
const farewell = "done\x00"

// Finish exchanges records for the last time and takes leave. The caller closes the
// connection.
func (x *Exchange) Finish(mine Record) error {
	if _, err := x.Swap(mine); err != nil {
		return err
	}
	if _, err := io.WriteString(x.conn, farewell); err != nil {
		return fmt.Errorf("perftest farewell: %w", err)
	}
	return nil
}

// swap sends a message and receives one of the same size, the client in this order.
// A program takes a message by one read, so it must come in one piece.
func (x *Exchange) swap(mine []byte) (theirs []byte, err error) {
	theirs = make([]byte, len(mine))
	if x.client {
		if _, err := x.conn.Write(mine); err != nil {
			return nil, err
		}
	}
	if n, err := io.ReadFull(x.conn, theirs); err != nil {
		return nil, fmt.Errorf("after %d of %d bytes: %w", n, len(theirs), err)
	}
	if !x.client {
		if _, err := x.conn.Write(mine); err != nil {
			return nil, err
		}
	}
	return theirs, nil
}
