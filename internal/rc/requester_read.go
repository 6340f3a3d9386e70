package rc

// A READ is asked for in pieces, one request each, so that no more of its answer
// is under way than the window has room for: a peer sends what it is asked for as
// fast as it can, and what the asker's socket cannot hold is lost. To the peer the
// pieces are READs of their own, in order, and each counts among those it may keep.
// When an answer breaks off, the rest of its piece is asked for and no more than
// that: a repeated request must lie within one that the peer remembers
// (section 9.7.5).

// askable is how many packets of answer the request for packet r.packet of t asks for:
// to the end of the piece.
func (r *requester) askable(t *task) uint32 {
	return min(r.piece-r.packet%r.piece, t.packets-r.packet)
}

// beginsPiece says that packet s of t is the first of a piece.
func (r *requester) beginsPiece(t *task, s seq) bool { return uint32(s-t.first)%r.piece == 0 }

// endsAnswer says that packet s of t is the last of the answer to one request.
func (r *requester) endsAnswer(t *task, s seq) bool {
	return s == t.end()-1 || r.beginsPiece(t, s+1)
}
