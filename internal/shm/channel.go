package shm

import (
	"errors"
	"net"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
)

// Channel is a pair of rings with another process. Its user closes it once nobody uses the
// rings.
type Channel struct {
	Out Writer
	In  Reader

	conn *net.UnixConn
	raw  syscall.RawConn
	mem  *hostmem.Memory
	send func(fd uintptr) bool
	wait [64]byte
}

// segmentSize is the memory of a channel: first the ring that the dialling side reads.
const segmentSize = 2 * ringSize

// newChannel takes over the connection and the memory.
func newChannel(conn *net.UnixConn, mem *hostmem.Memory, dialed bool) (*Channel, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Channel{conn: conn, raw: raw, mem: mem, send: sendWake}
	c.In.mem, c.Out.mem = mem.Bytes()[:ringSize], mem.Bytes()[ringSize:]
	if !dialed {
		c.In.mem, c.Out.mem = c.Out.mem, c.In.mem
	}
	c.In.Sleep()
	return c, nil
}

// Wake wakes the other process. It never blocks, and may be called at any time.
func (c *Channel) Wake() { _ = c.raw.Write(c.send) }

// Wait returns nil when the other process has sent wakes since the last call, and blocks
// until then. An error means that the other process is gone or the channel is shut.
func (c *Channel) Wait() error {
	_, err := c.conn.Read(c.wait[:])
	return err
}

// Shut makes Wait return, here and in the other process. The rings can be used until Close.
func (c *Channel) Shut() { _ = c.conn.Close() }

// Close ends the channel.
func (c *Channel) Close() error {
	c.Shut()
	c.Out.mem, c.In.mem = nil, nil
	return c.mem.Free()
}

// Errors of meeting.
var (
	// ErrUser means that the other process is another user's.
	ErrUser = errors.New("the other process is another user's")
	// ErrRefused means that the other process does not want the channel.
	ErrRefused = errors.New("refused by the other process")
	// ErrProtocol means that the other process does not speak as it must.
	ErrProtocol = errors.New("bad message from the other process")
)
