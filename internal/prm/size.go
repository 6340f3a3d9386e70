package prm

import "math/bits"

// Head is the length of a send queue entry before its data: the control segment
// and the remote address segment that all but SENDs have. An atomic has a segment
// more, but only one of data, and fits a block.
const Head = 2 * Unit

// SendSize is the length, in bytes and whole blocks, of the largest entry of a
// send queue whose entries have at most segments data segments or inline bytes.
// An entry must be at most MaxUnits long, and no longer than the NIC's limit.
func SendSize(segments, inline int) int {
	data := segments * Unit
	if inline > 0 {
		data = max(data, InlineUnits(inline)*Unit)
	}
	return (Head + data + Block - 1) &^ (Block - 1)
}

// ReceiveShift is the log2 of the stride, in bytes, of a receive queue whose
// entries have at most segments data segments.
func ReceiveShift(segments int) int {
	return bits.Len(uint(max(segments, 1)*Unit - 1))
}

// SharedStride is the distance, in bytes, of the entries of a shared receive queue,
// each a link and at most segments data segments.
func SharedStride(segments int) uint32 {
	return uint32(max(2*Unit, 1<<ReceiveShift(1+segments)))
}
