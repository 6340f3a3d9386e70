//go:build amd64 || arm64

package interpose

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// soon bounds waits for what another process or goroutine does.
const soon = 20 * time.Second

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, soon, time.Millisecond, what)
}

// sinkOf is a sink whose reader is this process.
func sinkOf(t *testing.T) (s *eventSink, theirs int, closed chan struct{}) {
	t.Helper()
	f := &deviceFile{memories: map[int]*processMemory{os.Getpid(): nil}, events: map[uint64]*eventSink{}}
	s, theirs, err := newSink(f)
	require.NoError(t, err)
	closed = make(chan struct{})
	s.start(func() { close(closed) })
	t.Cleanup(func() {
		s.Close()
		<-closed
	})
	return s, theirs, closed
}

func record(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// readRecord gives the buffer more room than a record has.
func readRecord(t *testing.T, fd int) uint64 {
	t.Helper()
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	require.NoError(t, err)
	require.Equal(t, 8, n)
	return binary.NativeEndian.Uint64(b[:])
}

func TestSink(t *testing.T) {
	s, theirs, closed := sinkOf(t)
	for v := range uint64(3) {
		s.Put(record(v))
	}
	for v := range uint64(3) {
		require.Equal(t, v, readRecord(t, theirs))
	}
	require.NoError(t, unix.Close(theirs))
	<-closed
	s.Put(record(9)) // nobody reads it
	require.Empty(t, s.file.events)
}

// A program that does not read loses nothing and stops nobody.
func TestSinkFull(t *testing.T) {
	s, theirs, _ := sinkOf(t)
	defer unix.Close(theirs)
	const many = 5000
	for v := range uint64(many) {
		s.Put(record(v))
	}
	for v := range uint64(many) {
		require.Equal(t, v, readRecord(t, theirs))
	}
}

func TestSinkTakeBack(t *testing.T) {
	s, theirs, _ := sinkOf(t)
	defer unix.Close(theirs)
	const many = 3000
	for v := range uint64(many) {
		s.Put(record(v % 3))
	}
	require.Equal(t, many/3, s.TakeBack(func(b []byte) bool { return binary.NativeEndian.Uint64(b) == 1 }))
	for v := range uint64(many / 3) {
		require.Equal(t, uint64(0), readRecord(t, theirs), v)
		require.Equal(t, uint64(2), readRecord(t, theirs), v)
	}
	require.Zero(t, s.TakeBack(func([]byte) bool { return true }))
}

// After the sink's end the program reads what was sent, and then the end.
func TestSinkClose(t *testing.T) {
	s, theirs, closed := sinkOf(t)
	defer unix.Close(theirs)
	s.Put(record(1))
	s.Close()
	s.Close()
	<-closed
	s.Put(record(2))
	require.Equal(t, uint64(1), readRecord(t, theirs))
	n, err := unix.Read(theirs, make([]byte, 16))
	require.NoError(t, err)
	require.Zero(t, n)
}

// The reader's end is in no process that is known: nothing can be taken back.
func TestSinkOfStranger(t *testing.T) {
	s, theirs, _ := sinkOf(t)
	defer unix.Close(theirs)
	s.Put(record(1))
	s.file.memories = map[int]*processMemory{1 << 30: nil}
	require.Zero(t, s.TakeBack(func([]byte) bool { return true }))
	require.Equal(t, uint64(1), readRecord(t, theirs))
}

func TestSocketOf(t *testing.T) {
	_, ok := socketOf(os.Getpid(), 1<<20)
	require.False(t, ok)
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	_, ok = socketOf(os.Getpid(), int(f.Fd()))
	require.False(t, ok)
	require.Negative(t, copyFD(1<<30, 0))
	require.Negative(t, copyFD(os.Getpid(), 1<<20))
}

// A file ends when the last descriptor and the last mapping are gone.
func TestWatcher(t *testing.T) {
	ended := make(chan uint64, 1)
	w, err := newWatcher(func(id uint64) { ended <- id })
	require.NoError(t, err)
	defer func() { require.NoError(t, w.close()) }()
	require.Error(t, w.add("/no/such/file", 1))

	path := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, w.add(path, 42))
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	again, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, unix.Close(again))
	select {
	case <-ended:
		t.Fatal("ended while it was mapped")
	default:
	}
	require.NoError(t, unix.Munmap(m))
	require.Equal(t, uint64(42), <-ended)
}

func TestPause(t *testing.T) {
	last := time.Duration(0)
	for _, idle := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, time.Second, time.Hour} {
		require.GreaterOrEqual(t, pause(idle), last)
		last = pause(idle)
	}
	require.LessOrEqual(t, last, 10*time.Millisecond, "a doorbell after a rest must not wait long")
}
