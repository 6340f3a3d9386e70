package rc

import "github.com/farwire/farwire/internal/roce"

// seq is a packet sequence number unfolded: 24 bits go on the wire, the upper
// ones count how often they have wrapped. Two seqs compare like numbers.
type seq uint64

// unfold returns the seq of a first sequence number, with room below it.
func unfold(psn uint32) seq { return 1<<24 | seq(psn&mask24) }

// psn returns what goes on the wire.
func (s seq) psn() uint32 { return uint32(s) & mask24 }

// near returns the seq closest to s that has this sequence number: at most
// 2^23 behind and less than that ahead (section 9.7).
func (s seq) near(psn uint32) seq {
	return s + seq(int64(roce.DiffPSN(psn, s.psn())))
}
