package uapi

import (
	"encoding/binary"
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// errnoOf returns the errno that err carries.
func errnoOf(t *testing.T, err error) syscall.Errno {
	t.Helper()
	var e *RequestError
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Reason)
	require.Contains(t, e.Error(), e.Errno.Error())
	return e.Errno
}

func put16(b []byte, v uint16) { binary.NativeEndian.PutUint16(b, v) }

// invokeWrite builds a well-formed QUERY_PORT through INVOKE_WRITE.
func invokeWrite(mem []byte) []byte {
	var c Command
	begin(&c, mem)
	c.Const(AttrWriteCmd, CmdQueryPort)
	c.In(AttrCoreIn, Bytes(&QueryPort{PortNum: 1}))
	c.Out(AttrCoreOut, Size[QueryPortResp]())
	c.In(AttrUHWIn, []byte{1})
	c.Out(AttrUHWOut, 4)
	b, err := c.Bytes()
	if err != nil {
		panic(err)
	}
	return b
}

func TestParse(t *testing.T) {
	b := invokeWrite(make([]byte, 1024))
	r, err := Parse(b)
	require.NoError(t, err)
	require.Equal(t, uint16(ObjectDevice), r.Object())
	require.Equal(t, uint16(MethodInvokeWrite), r.Method())
	require.Equal(t, uint32(DriverMLX5), r.Driver())
	require.Equal(t, 5, r.NumAttrs())
	a := r.At(0)
	require.Equal(t, uint16(AttrWriteCmd), a.ID())
	require.Equal(t, 8, a.Len())
	require.True(t, a.Mandatory())
	require.Equal(t, uint64(CmdQueryPort), a.Data())
	require.Len(t, a.Inline(), 8)
	require.Equal(t, []byte{1}, r.Find(AttrUHWIn).Inline())
	require.Nil(t, r.Find(77))
	require.Panics(t, func() { r.At(5) })

	r, err = Parse(append(b[:len(b):len(b)], 1, 2, 3))
	require.NoError(t, err, "bytes after the command are not its")
	require.Equal(t, 5, r.NumAttrs())
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b []byte) []byte
		want  syscall.Errno
	}{
		"empty":            {func(b []byte) []byte { return nil }, syscall.EFAULT},
		"half a header":    {func(b []byte) []byte { return b[:23] }, syscall.EFAULT},
		"cut attribute":    {func(b []byte) []byte { return b[:len(b)-1] }, syscall.EFAULT},
		"length too short": {func(b []byte) []byte { put16(b, uint16(len(b)-1)); return b }, syscall.EINVAL},
		"length too long":  {func(b []byte) []byte { put16(b, uint16(len(b)+16)); return b }, syscall.EINVAL},
		"length of none":   {func(b []byte) []byte { put16(b, 0); return b }, syscall.EINVAL},
		"too many": {func([]byte) []byte {
			b := make([]byte, HeaderSize+AttrSize*255)
			put16(b, uint16(len(b)))
			put16(b[hdrNumAttrs:], 255)
			return b
		}, syscall.EINVAL},
		"count overflows":      {func(b []byte) []byte { put16(b[hdrNumAttrs:], math.MaxUint16); return b }, syscall.EINVAL},
		"first reserved word":  {func(b []byte) []byte { b[15] = 1; return b }, syscall.EPROTONOSUPPORT},
		"second reserved word": {func(b []byte) []byte { b[20] = 1; return b }, syscall.EPROTONOSUPPORT},
		"length before reserved": {func(b []byte) []byte {
			put16(b, 0)
			b[20] = 1
			return b
		}, syscall.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.spoil(invokeWrite(make([]byte, 1024))))
			require.Equal(t, c.want, errnoOf(t, err))
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestParseMost(t *testing.T) {
	b := make([]byte, HeaderSize+AttrSize*254)
	put16(b, uint16(len(b)))
	put16(b[hdrNumAttrs:], 254)
	r, err := Parse(b)
	require.NoError(t, err)
	require.Equal(t, 254, r.NumAttrs())
}

func TestAbsentAttr(t *testing.T) {
	var a Attr
	require.Zero(t, a.ID())
	require.Zero(t, a.Len())
	require.Zero(t, a.Flags())
	require.Zero(t, a.Data())
	require.Zero(t, a.Reserved())
	require.False(t, a.Mandatory())
	require.Nil(t, a.Inline())
	dst := []byte{1, 2}
	require.NoError(t, a.CopyIn(nil, dst))
	require.Equal(t, []byte{0, 0}, dst)
	require.NoError(t, a.CopyCore(nil, dst))
	require.NoError(t, a.CopyOut(nil, dst))
}

// memory is a process's memory: bytes at base.
type memory struct{ b []byte }

var errBadAddress = errors.New("bad address")

func (m memory) at(addr uint64, n int) ([]byte, error) {
	if addr < base || addr-base > uint64(len(m.b)) || uint64(n) > uint64(len(m.b))-(addr-base) {
		return nil, errBadAddress
	}
	return m.b[addr-base:][:n], nil
}

func (m memory) Read(addr uint64, p []byte) error {
	b, err := m.at(addr, len(p))
	copy(p, b)
	return err
}

func (m memory) Write(addr uint64, p []byte) error {
	b, err := m.at(addr, len(p))
	copy(b, p)
	return err
}

func TestCopyIn(t *testing.T) {
	mem := memory{make([]byte, 4096)}
	var c Command
	begin(&c, mem.b)
	c.In(0, []byte{1, 2, 3})
	c.In(1, []byte("a longer input"))
	b, _ := c.Bytes()
	r, _ := Parse(b)

	dst := []byte{9, 9, 9, 9, 9}
	require.NoError(t, r.At(0).CopyIn(mem, dst))
	require.Equal(t, []byte{1, 2, 3, 0, 0}, dst, "shorter input is zero-extended")
	require.NoError(t, r.At(0).CopyIn(mem, dst[:2]))
	require.Equal(t, []byte{1, 2}, dst[:2])
	long := make([]byte, 20)
	require.NoError(t, r.At(1).CopyIn(mem, long))
	require.Equal(t, "a longer input\x00\x00\x00\x00\x00\x00", string(long))
	require.NoError(t, r.At(1).CopyIn(mem, nil))

	r.At(1).SetData(1)
	require.Equal(t, syscall.EFAULT, errnoOf(t, r.At(1).CopyIn(mem, long)))
	require.Equal(t, syscall.EFAULT, errnoOf(t, r.At(1).CopyCore(mem, long)))
}

func TestCopyCoreTail(t *testing.T) {
	mem := memory{make([]byte, 8192)}
	in := make([]byte, 600) // longer than the piece the tail is read in
	in[0] = 1
	var c Command
	begin(&c, mem.b)
	c.In(0, in)
	c.In(1, []byte{1, 0, 0, 2})
	b, _ := c.Bytes()
	r, _ := Parse(b)

	dst := make([]byte, 16)
	require.NoError(t, r.At(0).CopyCore(mem, dst))
	require.Equal(t, byte(1), dst[0])
	mem.b[payload+599] = 1
	require.Equal(t, syscall.EOPNOTSUPP, errnoOf(t, r.At(0).CopyCore(mem, dst)))
	require.NoError(t, r.At(0).CopyIn(mem, dst), "a driver's request has no such rule")

	require.NoError(t, r.At(1).CopyCore(mem, dst[:4]))
	require.Equal(t, syscall.EOPNOTSUPP, errnoOf(t, r.At(1).CopyCore(mem, dst[:3])), "inline tail")

	short := memory{mem.b[:payload+300]}
	mem.b[payload+599] = 0
	require.Equal(t, syscall.EOPNOTSUPP, errnoOf(t, r.At(0).CopyCore(short, dst)), "unreadable tail")
}

func TestCopyOut(t *testing.T) {
	mem := memory{make([]byte, 4096)}
	var c Command
	begin(&c, mem.b)
	out := c.Out(0, 700)
	small := c.Out(1, 2)
	c.Out(2, 0)
	b, _ := c.Bytes()
	r, _ := Parse(b)
	for i := range out {
		out[i] = 0xff
	}
	require.NoError(t, r.At(0).CopyOut(mem, []byte{1, 2, 3}))
	want := make([]byte, 700)
	copy(want, []byte{1, 2, 3})
	require.Equal(t, want, out, "the rest is zeroed")
	require.Equal(t, uint16(FlagMandatory|FlagValidOutput), r.At(0).Flags())

	require.NoError(t, r.At(1).CopyOut(mem, []byte{1, 2, 3}))
	require.Equal(t, []byte{1, 2}, small)
	require.NoError(t, r.At(2).CopyOut(mem, []byte{1}))

	bad := memory{mem.b[:payload+100]}
	r.At(0).SetData(base + payload)
	put16(r.At(0)[attrFlags:], 0)
	require.Equal(t, syscall.EFAULT, errnoOf(t, r.At(0).CopyOut(bad, make([]byte, 700))))
	require.Equal(t, syscall.EFAULT, errnoOf(t, r.At(0).CopyOut(bad, []byte{1})), "in the zeros")
	require.Zero(t, r.At(0).Flags(), "not valid after a fault")
}
