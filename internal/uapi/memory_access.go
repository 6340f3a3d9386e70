package uapi

import "syscall"

// Memory is the memory of the process that issued a command. Read and Write
// copy all of p or return an error; which bytes were copied then is unspecified.
type Memory interface {
	Read(addr uint64, p []byte) error
	Write(addr uint64, p []byte) error
}

// CopyIn copies the attribute's input into dst, as much as both have, and
// zeroes the rest of dst. An absent attribute leaves dst zero. The error is
// EFAULT.
func (a Attr) CopyIn(mem Memory, dst []byte) error {
	n := min(a.Len(), len(dst))
	clear(dst[n:])
	if n == 0 {
		return nil
	}
	if in := a.Inline(); in != nil {
		copy(dst, in)
		return nil
	}
	if err := mem.Read(a.Data(), dst[:n]); err != nil {
		return refuse(syscall.EFAULT, "read %d bytes at %#x: %v", n, a.Data(), err)
	}
	return nil
}

// CopyCore is CopyIn for a core structure: input longer than dst is refused with
// EOPNOTSUPP unless the excess is zero (Linux uverbs_request).
func (a Attr) CopyCore(mem Memory, dst []byte) error {
	if err := a.CopyIn(mem, dst); err != nil {
		return err
	}
	if a.Len() > len(dst) && !a.zeroTail(mem, len(dst)) {
		return refuse(syscall.EOPNOTSUPP, "input of %d bytes is not zero beyond %d", a.Len(), len(dst))
	}
	return nil
}

// CopyOut writes src to the attribute's output, as much as fits, fills the rest
// of the output with zeros, and marks the output valid (Linux
// uverbs_copy_to_struct_or_zero). An absent attribute is not an error. The error
// is EFAULT.
func (a Attr) CopyOut(mem Memory, src []byte) error {
	if a == nil {
		return nil
	}
	n := min(a.Len(), len(src))
	if err := a.write(mem, 0, src[:n]); err != nil {
		return err
	}
	for n < a.Len() {
		k := min(a.Len()-n, len(zeros))
		if err := a.write(mem, n, zeros[:k]); err != nil {
			return err
		}
		n += k
	}
	a.SetValid()
	return nil
}

var zeros [256]byte

func (a Attr) write(mem Memory, off int, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if err := mem.Write(a.Data()+uint64(off), p); err != nil {
		return refuse(syscall.EFAULT, "write %d bytes at %#x: %v", len(p), a.Data()+uint64(off), err)
	}
	return nil
}

// zeroTail reports whether the input is zero from byte from on. Input that
// cannot be read is not.
func (a Attr) zeroTail(mem Memory, from int) bool {
	if in := a.Inline(); in != nil {
		return allZero(in[min(from, len(in)):])
	}
	var buf [256]byte
	for off := from; off < a.Len(); off += len(buf) {
		part := buf[:min(len(buf), a.Len()-off)]
		if mem.Read(a.Data()+uint64(off), part) != nil || !allZero(part) {
			return false
		}
	}
	return true
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
