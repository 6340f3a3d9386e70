package uapi

import (
	"encoding/hex"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const base = 0x7f0000001000

// hexOf writes b as lines of 8 bytes: a header is three, an attribute two.
func hexOf(b []byte) string {
	var lines []string
	for ; len(b) > 0; b = b[min(8, len(b)):] {
		lines = append(lines, hex.EncodeToString(b[:min(8, len(b))]))
	}
	return strings.Join(lines, "\n")
}

func lines(s ...string) string { return strings.Join(s, "\n") }

// littleEndian skips a test of exact bytes where they would be others.
func littleEndian(t *testing.T) {
	switch runtime.GOARCH {
	case "amd64", "arm64":
	default:
		t.Skip("exact bytes are checked on little-endian hosts:", runtime.GOARCH)
	}
}

func begin(c *Command, mem []byte) { c.Begin(mem, base, ObjectDevice, MethodInvokeWrite, DriverMLX5) }

func TestCommandBytes(t *testing.T) {
	littleEndian(t)
	mem := make([]byte, 1024)
	var c Command
	c.Begin(mem, base, 0x1008, 0x1000, DriverMLX5)
	h := c.NewObject(0x1000)
	c.Const(0x1001, 1)
	out := c.Out(0x1002, 12)
	c.In(3, []byte{1, 2, 3})
	c.In(4, []byte("nine byte"))
	c.Object(5, 7)
	c.In(6, nil)
	c.Optional()
	b, err := c.Bytes()
	require.NoError(t, err)
	require.Equal(t, lines(
		"8800081000100700", "0000000000000000", "0100000000000000", // header: 24 + 7*16 bytes
		"0010000001000000", "0000000000000000", // new object
		"0110080001000000", "0100000000000000", // constant
		"02100c0001000000", "00120000007f0000", // output at the first payload byte
		"0300030001000000", "0102030000000000", // inline input
		"0400090001000000", "10120000007f0000", // input after the output, aligned
		"0500000001000000", "0700000000000000", // object
		"0600000000000000", "0000000000000000", // optional
	), hexOf(b))
	require.Equal(t, "nine byte", string(mem[payload+16:payload+25]))
	require.Len(t, out, 12)
	require.Equal(t, len(b), cap(b))

	Attr(b[HeaderSize:][:AttrSize]).SetData(99) // as the kernel would
	require.Equal(t, uint64(99), c.Data(h))
	mem[payload] = 5
	require.Equal(t, byte(5), out[0])
}

func TestCommandReusesDirtyMemory(t *testing.T) {
	mem := make([]byte, 1024)
	for i := range mem {
		mem[i] = 0xff
	}
	var c Command
	begin(&c, mem)
	c.Const(AttrWriteCmd, CmdQueryDevice)
	out := c.Out(AttrCoreOut, 8)
	b, err := c.Bytes()
	require.NoError(t, err)
	require.Equal(t, make([]byte, 8), out)
	r, err := Parse(b)
	require.NoError(t, err)
	require.Equal(t, 2, r.NumAttrs())
	for i := range r.NumAttrs() {
		require.Zero(t, r.At(i).Reserved())
	}
}

func TestCommandInlineLimit(t *testing.T) {
	mem := make([]byte, 1024)
	var c Command
	begin(&c, mem)
	c.In(0, make([]byte, 8))
	c.In(1, make([]byte, 9))
	b, _ := c.Bytes()
	r, err := Parse(b)
	require.NoError(t, err)
	require.Len(t, r.At(0).Inline(), 8)
	require.Nil(t, r.At(1).Inline())
	require.Equal(t, uint64(base+payload), r.At(1).Data())
}

func TestCommandNoSpace(t *testing.T) {
	for name, build := range map[string]func(c *Command){
		"memory smaller than the header": func(c *Command) { begin(c, make([]byte, payload-1)) },
		"input":                          func(c *Command) { begin(c, make([]byte, payload+8)); c.In(1, make([]byte, 9)) },
		"output":                         func(c *Command) { begin(c, make([]byte, payload+8)); c.Out(1, 9) },
		"second output": func(c *Command) {
			begin(c, make([]byte, payload+8))
			c.Out(1, 5)
			c.Out(2, 1)
		},
		"length over 16 bits": func(c *Command) { begin(c, make([]byte, 1<<18)); c.Out(1, 1<<16) },
		"attributes": func(c *Command) {
			begin(c, make([]byte, 1024))
			for i := range MaxAttrs + 1 {
				c.Const(uint16(i), 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c Command
			build(&c)
			_, err := c.Bytes()
			require.ErrorIs(t, err, ErrNoSpace)
			require.Nil(t, c.Out(9, 1), "no output once in error")
			c.In(9, make([]byte, 20))
			c.Const(9, 1)
			c.Optional()
			_, err = c.Bytes()
			require.ErrorIs(t, err, ErrNoSpace, "the error stays")
		})
	}
}

func TestCommandFits(t *testing.T) {
	var c Command
	begin(&c, make([]byte, Room(9, 3, 0)))
	c.In(1, make([]byte, 9))
	require.NotNil(t, c.Out(2, 3))
	require.NotNil(t, c.Out(3, 0))
	for i := c.attrs; i < MaxAttrs; i++ {
		c.Const(uint16(i), 1)
	}
	_, err := c.Bytes()
	require.NoError(t, err)
}

func TestCommandDataPanics(t *testing.T) {
	var c Command
	begin(&c, make([]byte, 1024))
	require.Panics(t, func() { c.Data(0) })
	i := c.NewObject(1)
	require.Zero(t, c.Data(i))
	require.Panics(t, func() { c.Data(1) })
	require.Panics(t, func() { c.Data(-1) })
}

func TestBytesAliases(t *testing.T) {
	var v AllocPDResp
	Bytes(&v)[0] = 1
	require.NotZero(t, v.PDHandle)
	require.Len(t, Bytes(&v), 4)
	require.Equal(t, 304, Size[ExQueryDeviceResp]())
}
