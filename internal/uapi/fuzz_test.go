package uapi

import (
	"errors"
	"syscall"
	"testing"
)

// FuzzParse feeds commands of any bytes to everything that reads them. Whatever
// comes, each refusal carries one of the errnos that are documented, and what is
// accepted can be read without a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, HeaderSize))
	f.Add(append([]byte(nil), invokeWrite(make([]byte, 1024))...))
	f.Add(append([]byte(nil), testCommand(make([]byte, 1024), func(c *Command) {
		c.In(0x1003, make([]byte, 40))
		c.Out(0x1004, 8)
	}).b...))
	for _, w := range writes {
		var c Command
		begin(&c, make([]byte, 2048))
		c.In(AttrCoreIn, make([]byte, w.In))
		c.Const(AttrWriteCmd, uint64(w.Cmd))
		c.Out(AttrCoreOut, w.Out)
		b, _ := c.Bytes()
		f.Add(append([]byte(nil), b...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			checkRefusal(t, err, syscall.EFAULT, syscall.EINVAL, syscall.EPROTONOSUPPORT)
			return
		}
		mem := memory{append([]byte(nil), b...)}
		m, err := testTable.Match(r, r.Driver(), mem)
		if err != nil {
			checkRefusal(t, err, syscall.EINVAL, syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP)
			return
		}
		for i := range r.NumAttrs() {
			readAttr(t, r.At(i), mem)
		}
		if m.Object == ObjectDevice && m.ID == MethodInvokeWrite {
			if _, err := r.Invoke(); err != nil {
				checkRefusal(t, err, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOSPC)
			}
		}
	})
}

func checkRefusal(t *testing.T, err error, allowed ...syscall.Errno) {
	t.Helper()
	for _, errno := range allowed {
		if errors.Is(err, errno) {
			return
		}
	}
	t.Fatalf("undocumented refusal: %v", err)
}

func readAttr(t *testing.T, a Attr, mem Memory) {
	dst := make([]byte, 100)
	if err := a.CopyCore(mem, dst); err != nil {
		checkRefusal(t, err, syscall.EFAULT, syscall.EOPNOTSUPP)
	}
	if err := a.CopyOut(mem, dst); err != nil {
		checkRefusal(t, err, syscall.EFAULT)
	}
	if in := a.Inline(); len(in) != a.Len() && in != nil {
		t.Fatal("inline bytes are not the attribute's")
	}
}
