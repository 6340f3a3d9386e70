package uapi

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var testTable = NewTable(append(CoreMethods(), Method{"TEST", 0x1000, 0x1000, []Spec{
	newObject(0x1000),
	mandatory(constant(0x1001)),
	out(0x1002, 4),
	structure(in(0x1003, 20)),
	structure(out(0x1004, 8)),
	flags(0x1005),
	atLeast(in(0x1006, 0), 4),
	structure(in(0x1007, 4)),
}})...)

// testCommand builds a command of the test method with its mandatory attributes
// and what more adds.
func testCommand(mem []byte, more func(c *Command)) Request {
	var c Command
	c.Begin(mem, base, 0x1000, 0x1000, DriverMLX5)
	c.NewObject(0x1000)
	c.Const(0x1001, 1)
	if more != nil {
		more(&c)
	}
	b, err := c.Bytes()
	if err != nil {
		panic(err)
	}
	r, err := Parse(b)
	if err != nil {
		panic(err)
	}
	return r
}

func TestMatch(t *testing.T) {
	ones := make([]byte, 24)
	ones[23] = 1
	for name, c := range map[string]struct {
		more  func(c *Command)
		spoil func(r Request)
		want  syscall.Errno // 0: accepted
	}{
		"least":                          {},
		"unknown optional":               {more: func(c *Command) { c.Const(0x77, 1); c.Optional() }},
		"unknown optional twice":         {more: func(c *Command) { c.Const(0x77, 1); c.Optional(); c.Const(0x77, 1); c.Optional() }},
		"unknown mandatory":              {more: func(c *Command) { c.Const(0x77, 1) }, want: syscall.EPROTONOSUPPORT},
		"known optional twice":           {more: func(c *Command) { c.Const(0x1001, 1); c.Optional() }, want: syscall.EINVAL},
		"duplicate":                      {more: func(c *Command) { c.Const(0x1001, 1) }, want: syscall.EINVAL},
		"duplicate comes before unknown": {more: func(c *Command) { c.Const(0x1001, 1); c.Const(0x77, 1) }, want: syscall.EINVAL},
		"unknown comes before duplicate": {more: func(c *Command) { c.Const(0x77, 1); c.Const(0x1001, 1) }, want: syscall.EPROTONOSUPPORT},
		"constant of four bytes":         {spoil: func(r Request) { put16(r.At(1)[attrLen:], 4) }, want: syscall.EINVAL},
		"object with a length":           {spoil: func(r Request) { put16(r.At(0)[attrLen:], 4) }, want: syscall.EINVAL},
		"object's reserved word":         {spoil: func(r Request) { put16(r.At(0)[attrReserved:], 1) }, want: syscall.EINVAL},
		"input's reserved word":          {spoil: func(r Request) { put16(r.At(1)[attrReserved:], 1) }, want: syscall.EINVAL},
		"unknown's reserved word": {
			more:  func(c *Command) { c.Const(0x77, 1); c.Optional() },
			spoil: func(r Request) { put16(r.At(2)[attrReserved:], 1) },
		},
		"output":                  {more: func(c *Command) { c.Out(0x1002, 4) }},
		"output too short":        {more: func(c *Command) { c.Out(0x1002, 3) }, want: syscall.EINVAL},
		"output too long":         {more: func(c *Command) { c.Out(0x1002, 8) }, want: syscall.EINVAL},
		"structure":               {more: func(c *Command) { c.In(0x1003, make([]byte, 20)) }},
		"structure too short":     {more: func(c *Command) { c.In(0x1003, make([]byte, 16)) }, want: syscall.EINVAL},
		"structure, zero tail":    {more: func(c *Command) { c.In(0x1003, make([]byte, 24)) }},
		"structure, tail":         {more: func(c *Command) { c.In(0x1003, ones) }, want: syscall.EOPNOTSUPP},
		"structure, inline tail":  {more: func(c *Command) { c.In(0x1007, []byte{1, 1, 1, 1, 0, 0, 1, 0}) }, want: syscall.EOPNOTSUPP},
		"structure, inline zeros": {more: func(c *Command) { c.In(0x1007, []byte{1, 1, 1, 1, 0, 0, 0, 0}) }},
		"structure, bad address": {
			more:  func(c *Command) { c.In(0x1003, make([]byte, 24)) },
			spoil: func(r Request) { r.At(2).SetData(8) },
			want:  syscall.EOPNOTSUPP,
		},
		"output structure":           {more: func(c *Command) { c.Out(0x1004, 8) }},
		"output structure longer":    {more: func(c *Command) { c.Out(0x1004, 80)[79] = 1 }},
		"output structure too short": {more: func(c *Command) { c.Out(0x1004, 7) }, want: syscall.EINVAL},
		"flags of four":              {more: func(c *Command) { c.In(0x1005, make([]byte, 4)) }},
		"flags of eight":             {more: func(c *Command) { c.In(0x1005, make([]byte, 8)) }},
		"flags of seven":             {more: func(c *Command) { c.In(0x1005, make([]byte, 7)) }, want: syscall.EINVAL},
		"flags of two":               {more: func(c *Command) { c.In(0x1005, make([]byte, 2)) }, want: syscall.EINVAL},
		"flags of nine":              {more: func(c *Command) { c.In(0x1005, make([]byte, 9)) }, want: syscall.EINVAL},
		"open-ended":                 {more: func(c *Command) { c.In(0x1006, ones) }},
		"open-ended too short":       {more: func(c *Command) { c.In(0x1006, ones[:3]) }, want: syscall.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memory{make([]byte, 4096)}
			r := testCommand(mem.b, c.more)
			if c.spoil != nil {
				c.spoil(r)
			}
			m, err := testTable.Match(r, DriverMLX5, mem)
			if c.want == 0 {
				require.NoError(t, err)
				require.Equal(t, "TEST", m.Name)
				return
			}
			require.Equal(t, c.want, errnoOf(t, err), err)
			require.Nil(t, m)
		})
	}
}

func TestMatchMissing(t *testing.T) {
	var c Command
	c.Begin(make([]byte, 1024), base, 0x1000, 0x1000, DriverMLX5)
	c.NewObject(0x1000)
	b, _ := c.Bytes()
	r, _ := Parse(b)
	_, err := testTable.Match(r, DriverMLX5, nil)
	require.Equal(t, syscall.EINVAL, errnoOf(t, err))
	require.ErrorContains(t, err, "0x1001 missing")
}

func TestMatchMethod(t *testing.T) {
	r := testCommand(make([]byte, 1024), nil)
	_, err := testTable.Match(r, DriverRXE, nil)
	require.Equal(t, syscall.EINVAL, errnoOf(t, err), "wrong driver")

	put16(r.b[hdrMethod:], 0x1001)
	_, err = testTable.Match(r, DriverMLX5, nil)
	require.Equal(t, syscall.EPROTONOSUPPORT, errnoOf(t, err), "unknown method")
	_, err = testTable.Match(r, DriverRXE, nil)
	require.Equal(t, syscall.EINVAL, errnoOf(t, err), "the driver id is looked at first")

	put16(r.b[hdrObject:], 0x2000)
	_, err = testTable.Match(r, DriverMLX5, nil)
	require.Equal(t, syscall.EPROTONOSUPPORT, errnoOf(t, err), "unknown object")
}

func TestTableReplaces(t *testing.T) {
	table := NewTable(Method{Name: "old", Object: 1}, Method{Name: "new", Object: 1})
	var c Command
	c.Begin(make([]byte, 1024), base, 1, 0, DriverMLX5)
	b, _ := c.Bytes()
	r, _ := Parse(b)
	m, err := table.Match(r, DriverMLX5, nil)
	require.NoError(t, err)
	require.Equal(t, "new", m.Name)
}

// TestCoreMethods calls every core method with exactly its mandatory attributes,
// then with each of them left out.
func TestCoreMethods(t *testing.T) {
	build := func(m *Method, without int) Request {
		var c Command
		c.Begin(make([]byte, 4096), base, m.Object, m.ID, DriverMLX5)
		for i, s := range m.Attrs {
			if !s.Mandatory || i == without {
				continue
			}
			switch s.Kind {
			case In:
				c.In(s.ID, make([]byte, s.Min))
			case Flags:
				c.In(s.ID, make([]byte, 4))
			case Out:
				c.Out(s.ID, int(s.Min))
			case Object:
				c.Object(s.ID, 1)
			case NewObject:
				c.NewObject(s.ID)
			}
		}
		b, err := c.Bytes()
		require.NoError(t, err)
		r, err := Parse(b)
		require.NoError(t, err)
		return r
	}
	for _, m := range CoreMethods() {
		t.Run(m.Name, func(t *testing.T) {
			got, err := testTable.Match(build(&m, -1), DriverMLX5, nil)
			require.NoError(t, err)
			require.Equal(t, m.Name, got.Name)
			for i, s := range m.Attrs {
				if s.Mandatory {
					_, err := testTable.Match(build(&m, i), DriverMLX5, nil)
					require.Equal(t, syscall.EINVAL, errnoOf(t, err))
				}
			}
		})
	}
}

func TestInvoke(t *testing.T) {
	mem := make([]byte, 1024)
	invoke := func(cmd uint64, in, out int) (Invoke, error) {
		var c Command
		begin(&c, mem)
		c.Const(AttrWriteCmd, cmd)
		if in > 0 {
			c.In(AttrCoreIn, make([]byte, in))
		}
		if out > 0 {
			c.Out(AttrCoreOut, out)
		}
		c.In(AttrUHWIn, []byte{7})
		b, err := c.Bytes()
		require.NoError(t, err)
		r, err := Parse(b)
		require.NoError(t, err)
		_, err = testTable.Match(r, DriverMLX5, nil)
		require.NoError(t, err)
		return r.Invoke()
	}
	for _, w := range writes {
		t.Run(w.Name, func(t *testing.T) {
			inv, err := invoke(uint64(w.Cmd), w.In, w.Out)
			require.NoError(t, err)
			require.Equal(t, w.Name, inv.Name)
			require.Equal(t, w.In, inv.Core.Len())
			require.Equal(t, w.Out, inv.Reply.Len())
			require.Equal(t, []byte{7}, inv.UHWIn.Inline())
			require.Nil(t, inv.UHWOut)

			if w.In > 4 { // four bytes is the least that the attribute can have
				_, err = invoke(uint64(w.Cmd), w.In-1, w.Out)
				require.Equal(t, syscall.ENOSPC, errnoOf(t, err))
			}
			_, err = invoke(uint64(w.Cmd), 0, w.Out)
			require.Equal(t, syscall.ENOSPC, errnoOf(t, err), "no input")
			if w.Out > 0 {
				_, err = invoke(uint64(w.Cmd), w.In, w.Out-1)
				require.Equal(t, syscall.ENOSPC, errnoOf(t, err))
			}
		})
	}
	_, err := invoke(49, 8, 8)
	require.Equal(t, syscall.EOPNOTSUPP, errnoOf(t, err), "unknown command")
	for _, cmd := range []uint64{1 << 32, 0x100, 0x40000001} {
		_, err = invoke(cmd, 8, 8)
		require.Equal(t, syscall.EINVAL, errnoOf(t, err), "%#x", cmd)
	}
	require.Nil(t, WriteOf(49))
}
