package conn

// Stats counts what a connection has done so far.
type Stats struct {
	MessagesSent     uint64 // posted, data and control
	MessagesReceived uint64
	BytesSent        uint64 // taken from the caller
	BytesReceived    uint64 // arrived from the peer
	BytesCopied      uint64 // between the memory of callers and buffers, or from buffer to buffer
	Controls         uint64 // control messages sent
	Probes           uint64 // messages sent only to see whether the peer is there
	Coalesced        uint64 // writes that joined a message with bytes of earlier ones
	CreditWaits      uint64 // times a writer waited and the peer had given no credit
	Spins            uint64 // rounds of polling by blocked calls
	Parks            uint64 // times a blocked call went to sleep
	LeasesRefused    uint64 // times there was no memory for one more buffer

	Receives, Sends int // message buffers that the connection has now
}

// Stats returns the counts at this moment. It works on closed connections too.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Receives, s.Sends = c.in.have(), c.out.have()
	return s
}
