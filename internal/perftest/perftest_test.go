package perftest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a record that ib_atomic_bw sent, and what it says; short is one of
// ib_write_bw on InfiniBand.
const (
	seen  = "0000:0010:1f58a9:a29cf1:69641a55:000055bba6668000:00:00:00:00:00:00:00:00:00:00:ff:ff:7f:0a:9a:e9:00000000:\x00"
	short = "0002:0001:fd4eca:1a3b6f:5c81a8e4:00007f74cca40000:00000000\x00"
)

var (
	seenRecord = Record{Reads: 16, QPN: 0x1f58a9, PSN: 0xa29cf1, RKey: 0x69641a55, Addr: 0x55bba6668000,
		GID: [16]byte{10: 0xff, 0xff, 0x7f, 0x0a, 0x9a, 0xe9}}
	shortSaid = Record{LID: 2, Reads: 1, QPN: 0xfd4eca, PSN: 0x1a3b6f, RKey: 0x5c81a8e4, Addr: 0x7f74cca40000}
)

func TestRecord(t *testing.T) {
	for _, c := range []struct {
		text   string
		global bool
		want   Record
	}{{seen, true, seenRecord}, {short, false, shortSaid}} {
		r, err := ParseRecord([]byte(c.text), c.global)
		require.NoError(t, err)
		require.Equal(t, c.want, r)
		b, err := r.Append(nil, c.global)
		require.NoError(t, err)
		require.Equal(t, c.text, string(b))

		_, err = ParseRecord([]byte(c.text), !c.global)
		require.ErrorIs(t, err, ErrRecord)
		for i := range c.text {
			b := []byte(c.text)
			b[i] = 'x'
			_, err := ParseRecord(b, c.global)
			require.ErrorIs(t, err, ErrRecord, "%q", b)
		}
	}
	for _, r := range []Record{{QPN: 1 << 24}, {PSN: 1 << 24}} {
		_, err := r.Append(nil, false)
		require.ErrorContains(t, err, "24 bits")
	}
}

// ends is the two ends of a connection.
func ends(t *testing.T, global bool) (client, server *Exchange) {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return New(a, true, global), New(b, false, global)
}

// both runs one end each, and returns what the client's end got.
func both(t *testing.T, client, server func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- server() }()
	require.NoError(t, client())
	require.NoError(t, <-done)
}

func TestExchange(t *testing.T) {
	client, server := ends(t, true)
	hello := [2]Hello{{4096, 64, 5}, {65536, 128, 3}}
	report := [2]Report{{4096, 20, 313.2, 313.1, 0.08}, {Size: 1}}
	other := Record{LID: 1, QPN: 1<<24 - 1, GID: [16]byte{1, 15: 2}, SRQN: 7}
	play := func(x *Exchange, me int, mine, theirs Record) func() error {
		return func() error {
			h, err := x.Hello(hello[me])
			if err == nil && h != hello[1-me] {
				err = errors.New("another hello")
			}
			r, swapped := x.Swap(mine)
			if swapped == nil && r != theirs {
				swapped = errors.New("another record")
			}
			got, reported := x.Report(report[me])
			if reported == nil && got != report[1-me] {
				reported = errors.New("another report")
			}
			return errors.Join(err, swapped, reported)
		}
	}
	both(t, play(client, 0, seenRecord, other), play(server, 1, other, seenRecord))
}

// script is a peer that has said all it will say, and hears anything.
type script struct {
	io.Reader
	io.Writer
}

func says(text string) *Exchange {
	return New(script{strings.NewReader(text), io.Discard}, true, true)
}

const greeting = "6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "5\x00"

func TestBadPeer(t *testing.T) {
	for n := range len(greeting) {
		_, err := says(greeting[:n]).Hello(Hello{4096, 64, 5})
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "%d bytes: %v", n, err)
	}
	for i, bad := range map[int]byte{0: '5', 3: '7', 4: ' ', 18: 0, 23: 0, 24: '6', 25: '5'} {
		b := []byte(greeting)
		b[i] = bad
		_, err := says(string(b)).Hello(Hello{4096, 64, 5})
		require.ErrorIs(t, err, ErrHello, "%q", b)
	}
	_, err := says(seen[:50]).Swap(seenRecord)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "after 50 of 108 bytes")
	_, err = says(short + short).Swap(seenRecord)
	require.ErrorIs(t, err, ErrRecord)
	_, err = says("12345678").Report(Report{})
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, says("").Finish(seenRecord), io.EOF)
	_, err = says(seen).Swap(Record{QPN: 1 << 31})
	require.ErrorContains(t, err, "24 bits")
}

// A peer that is gone is noticed whoever's turn it is, and the farewell needs no answer.
func TestGone(t *testing.T) {
	for _, client := range []bool{true, false} {
		a, b := net.Pipe()
		b.Close()
		_, err := New(a, client, false).Hello(Hello{4096, 64, 5})
		require.Error(t, err)
	}
	client, server := ends(t, false)
	go func() {
		_, _ = server.Swap(shortSaid)
		_, _ = io.ReadFull(server.conn, make([]byte, len(farewell)))
	}()
	require.NoError(t, client.Finish(shortSaid))

	client, server = ends(t, false)
	go func() {
		_, _ = server.Swap(shortSaid)
		server.conn.(io.Closer).Close()
	}()
	require.ErrorContains(t, client.Finish(shortSaid), "farewell")

	a, b := net.Pipe()
	go func() {
		_, _ = io.WriteString(b, short)
		b.Close()
	}()
	_, err := New(a, false, false).Swap(shortSaid)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(seen), true)
	f.Add([]byte(short), false)
	f.Fuzz(func(t *testing.T, b []byte, global bool) {
		r, err := ParseRecord(b, global)
		if err != nil {
			require.ErrorIs(t, err, ErrRecord)
			return
		}
		again, err := r.Append(nil, global)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}
