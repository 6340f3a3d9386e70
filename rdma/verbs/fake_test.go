package verbs

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/stretchr/testify/require"
)

// A script is a File that expects commands in order, checks each against the
// kernel's rules and the expected text, and answers as told.
type script struct {
	t     *testing.T
	mu    sync.Mutex
	steps []step

	eventsErr error
	events    []int // descriptors taken over
	mapErr    error
	maps      []string
	pages     int
	closed    int
	closeErr  error
}

// A step is one expected command in the form of describe, and its answer.
type step struct {
	want  string
	reply map[uint16][]byte // outputs by attribute
	fresh map[uint16]uint64 // handles of new objects by attribute
	err   error
}

var fakeTable = uapi.NewTable(append(uapi.CoreMethods(),
	uapi.Method{Name: "UAR_ALLOC", Object: 0x1008, ID: 0x1000, Attrs: []uapi.Spec{
		{ID: 0x1000, Kind: uapi.NewObject, Mandatory: true},
		{ID: 0x1001, Kind: uapi.In, Min: 8, Max: 8, Mandatory: true},
		{ID: 0x1002, Kind: uapi.Out, Min: 8, Max: 8, Mandatory: true},
	}},
	uapi.Method{Name: "UAR_DESTROY", Object: 0x1008, ID: 0x1001, Attrs: []uapi.Spec{
		{ID: 0x1000, Kind: uapi.Object, Mandatory: true},
	}},
)...)

func newScript(t *testing.T) *script {
	s := &script{t: t}
	t.Cleanup(func() { require.Empty(t, s.steps, "commands that did not come") })
	return s
}

func (s *script) expect(st ...step) { s.steps = append(s.steps, st...) }

// hostMemory reads the memory that commands point to.
type hostMemory struct{}

func (hostMemory) Read(addr uint64, p []byte) error {
	if !hostmem.Mapped(addr, uint64(len(p))) {
		return syscall.EFAULT
	}
	copy(p, hostmem.View(addr, len(p)))
	return nil
}

func (hostMemory) Write(addr uint64, p []byte) error {
	if !hostmem.Mapped(addr, uint64(len(p))) {
		return syscall.EFAULT
	}
	copy(hostmem.View(addr, len(p)), p)
	return nil
}

func (s *script) Ioctl(cmd []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := uapi.Parse(cmd)
	require.NoError(s.t, err)
	m, err := fakeTable.Match(r, r.Driver(), hostMemory{})
	require.NoError(s.t, err)
	s.checkAddresses(cmd, m, r)
	require.NotEmpty(s.t, s.steps, "unexpected command:\n%s", describe(m, r))
	st := s.steps[0]
	s.steps = s.steps[1:]
	require.Equal(s.t, strings.TrimSpace(st.want), describe(m, r))
	if st.err != nil {
		return st.err
	}
	for id, b := range st.reply {
		require.NoError(s.t, r.Find(id).CopyOut(hostMemory{}, b))
	}
	for id, v := range st.fresh {
		r.Find(id).SetData(v)
	}
	return nil
}

// checkAddresses makes sure that the command and all it points to lie in one
// piece of memory outside the Go heap, aligned for the kernel's structures.
func (s *script) checkAddresses(cmd []byte, m *uapi.Method, r uapi.Request) {
	base := hostmem.AddrOf(cmd)
	require.Zero(s.t, base%8)
	for i := range r.NumAttrs() {
		a := r.At(i)
		if spec := specOf(m, a.ID()); spec.Kind == uapi.Out || spec.Kind == uapi.In && a.Inline() == nil {
			require.Zero(s.t, a.Data()%8)
			require.GreaterOrEqual(s.t, a.Data(), base)
			require.Less(s.t, a.Data()-base+uint64(a.Len()), uint64(1<<17), "outside the command's memory")
		}
	}
}

func specOf(m *uapi.Method, id uint16) uapi.Spec {
	for _, s := range m.Attrs {
		if s.ID == id {
			return s
		}
	}
	return uapi.Spec{}
}

// describe writes a command as one line for its method and one for each
// attribute: id, "?" if optional, what it is, and its bytes.
func describe(m *uapi.Method, r uapi.Request) string {
	lines := []string{fmt.Sprintf("%s driver %d", m.Name, r.Driver())}
	for i := range r.NumAttrs() {
		a := r.At(i)
		id := fmt.Sprintf("%#x", a.ID())
		if !a.Mandatory() {
			id += "?"
		}
		switch specOf(m, a.ID()).Kind {
		case uapi.In, uapi.Flags:
			b := make([]byte, a.Len())
			_ = a.CopyIn(hostMemory{}, b)
			lines = append(lines, id+" in "+hex.EncodeToString(b))
		case uapi.Out:
			lines = append(lines, fmt.Sprintf("%s out %d", id, a.Len()))
		case uapi.Object:
			lines = append(lines, fmt.Sprintf("%s object %d", id, a.Data()))
		case uapi.NewObject:
			lines = append(lines, fmt.Sprintf("%s new %d", id, a.Data()))
		}
	}
	return strings.Join(lines, "\n")
}

func (s *script) Map(offset int64, length int) (*Page, error) {
	s.maps = append(s.maps, fmt.Sprintf("%#x+%#x", offset, length))
	if s.mapErr != nil {
		return nil, s.mapErr
	}
	s.pages++
	return NewPage(make([]byte, length), nil, func() error { s.pages--; return nil }), nil
}

func (s *script) Events(fd int) (EventFile, error) {
	s.events = append(s.events, fd)
	if s.eventsErr != nil {
		return nil, s.eventsErr
	}
	return &fakeEvents{}, nil
}

func (s *script) Close() error { s.closed++; return s.closeErr }

type fakeEvents struct {
	closed   int
	closeErr error
}

func (e *fakeEvents) Read([]byte) (int, error)        { return 0, io.EOF }
func (e *fakeEvents) Close() error                    { e.closed++; return e.closeErr }
func (e *fakeEvents) SetReadDeadline(time.Time) error { return nil }

// le is a little-endian encoder for expected replies.
func le(vs ...any) []byte {
	var b []byte
	for _, v := range vs {
		switch v := v.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = append(b, byte(v), byte(v>>8))
		case uint32:
			b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		case uint64:
			b = append(b, le(uint32(v), uint32(v>>32))...)
		default:
			panic("le: type")
		}
	}
	return b
}

// getContext is how every context begins on Linux 5.6 and newer.
var getContext = []step{
	{
		want: `
GET_CONTEXT driver 1
0x0 out 4
0x1 out 8
0x1000 in 0102030405060708090a
0x1001 out 6`,
		reply: map[uint16][]byte{0: le(uint32(3)), 1: le(uint64(1)), 0x1001: []byte("driver")},
	},
	{
		want:  "ASYNC_EVENT_ALLOC driver 1\n0x0 new 0",
		fresh: map[uint16]uint64{0: 41},
	},
}

var driverRequest = []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

// newContext returns a context over s, whose further commands s then expects.
func newContext(t *testing.T, s *script) *Context {
	t.Helper()
	s.expect(getContext...)
	out := make([]byte, 6)
	c, err := NewContext(s, DriverMLX5, driverRequest, out)
	require.NoError(t, err)
	require.Equal(t, "driver", string(out))
	t.Cleanup(func() { _ = c.Close() })
	return c
}
