package mmio

// FromDevice keeps the loads from memory after it behind the atomic load before it: the
// rest of a completion behind its owner bit, and the message behind that.
func FromDevice()
