package link

import "sync/atomic"

// Drop is a reason for which a link dropped a packet; it indexes Counters.Dropped.
type Drop uint8

// Reasons of drops.
const (
	DropUnknown Drop = iota // sent to an address that nobody on this network has
	DropClosed              // sent by a closed link, or still under way when it closed
	DropSize                // too short, too long, or not a multiple of 4 bytes
	DropICRC                // received damaged
	DropSend                // the operating system refused to send it
	DropReceive             // the operating system reported an error in place of a packet

	// NumDrops is the number of reasons.
	NumDrops = int(iota)
)

var drops = [NumDrops]string{
	DropUnknown: "unknown destination",
	DropClosed:  "link closed",
	DropSize:    "bad size",
	DropICRC:    "bad icrc",
	DropSend:    "send error",
	DropReceive: "receive error",
}

// String names the reason.
func (d Drop) String() string {
	if int(d) < len(drops) {
		return drops[d]
	}
	return "unknown reason"
}

// Counters is what a link did, up to one moment. Sent packets left the link,
// Received ones went to the receiver; bytes are those of Buf.
type Counters struct {
	Sent, SentBytes         uint64
	Received, ReceivedBytes uint64
	Dropped                 [NumDrops]uint64
}

// add adds up the counters of links that act as one.
func (c Counters) add(d Counters) Counters {
	c.Sent += d.Sent
	c.SentBytes += d.SentBytes
	c.Received += d.Received
	c.ReceivedBytes += d.ReceivedBytes
	for i := range c.Dropped {
		c.Dropped[i] += d.Dropped[i]
	}
	return c
}

// counters are running Counters.
type counters struct {
	sent, sentBytes         atomic.Uint64
	received, receivedBytes atomic.Uint64
	dropped                 [NumDrops]atomic.Uint64
}

func (c *counters) countSent(n int) {
	c.sent.Add(1)
	c.sentBytes.Add(uint64(n))
}

func (c *counters) countReceived(n int) {
	c.received.Add(1)
	c.receivedBytes.Add(uint64(n))
}

// drop releases the packet and counts it.
func (c *counters) drop(p *Packet, why Drop) {
	c.dropped[why].Add(1)
	p.Release()
}

func (c *counters) snapshot() (s Counters) {
	s.Sent, s.SentBytes = c.sent.Load(), c.sentBytes.Load()
	s.Received, s.ReceivedBytes = c.received.Load(), c.receivedBytes.Load()
	for i := range s.Dropped {
		s.Dropped[i] = c.dropped[i].Load()
	}
	return s
}
