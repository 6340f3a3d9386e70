package bootstrap

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
)

func TestAnswerIsLowered(t *testing.T) {
	near, far := net.Pipe()
	go run(context.Background(), far, false)
	small := message(func(m *Message) { m.Endpoint.MTU, m.Size = verbs.MTU256, MinSize })
	_, err := near.Write(hello{Message: small, min: 1, max: 1}.bytes())
	require.NoError(t, err)
	b := make([]byte, lenHello)
	_, err = io.ReadFull(near, b)
	require.NoError(t, err)
	h, err := parseHello(b)
	require.NoError(t, err)
	require.Equal(t, verbs.MTU256, h.Endpoint.MTU)
	require.Equal(t, uint32(MinSize), h.Size)
	near.Close()
}

func TestReadsNoFurther(t *testing.T) {
	near, far := net.Pipe()
	errs := make(chan error)
	go func() {
		if err := run(context.Background(), far, true); err != nil {
			errs <- err
		}
		_, err := far.Write([]byte("next"))
		errs <- err
	}()
	require.NoError(t, run(context.Background(), near, false))
	b := make([]byte, 4)
	_, err := io.ReadFull(near, b)
	require.NoError(t, err)
	require.NoError(t, <-errs)
	require.Equal(t, "next", string(b))
	near.Close()
	far.Close()
}

func TestLonger(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		b := append(hello{Message: message(nil), min: 1, max: 5}.bytes(), make([]byte, 100)...)
		b[offLength+1] = byte(len(b))
		far.Write(b)
		io.ReadFull(far, b[:lenHello])
		far.Write(readyBytes(nonce(b[offNonce:])))
	}()
	require.NoError(t, run(context.Background(), near, false))
	near.Close()
	far.Close()
}

func TestNonces(t *testing.T) {
	seen := map[nonce]bool{}
	for range 100 {
		near, far := net.Pipe()
		go run(context.Background(), near, true)
		b := make([]byte, lenHello)
		_, err := io.ReadFull(far, b)
		require.NoError(t, err)
		require.False(t, seen[nonce(b[offNonce:])])
		seen[nonce(b[offNonce:])] = true
		far.Close()
	}
}

func TestLayout(t *testing.T) {
	doc, err := os.ReadFile("../docs/bootstrap.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(doc), "## An example")
	require.True(t, ok)
	example = strings.Split(example, "```")[1]
	want, err := hex.DecodeString(strings.Join(strings.Fields(example), ""))
	require.NoError(t, err)
	h := hello{Message: message(nil), min: 1, max: 1}
	for i := range h.nonce {
		h.nonce[i] = byte(i)
	}
	require.Equal(t, hex.Dump(want), hex.Dump(h.bytes()))
}

func FuzzHello(f *testing.F) {
	f.Add(hello{Message: message(nil), min: 1, max: 1}.bytes())
	f.Add(hello{Message: message(nil), min: 1, max: 1, features: GrowingWindows}.bytes())
	f.Add(hello{}.bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		require.NoError(t, h.Endpoint.Validate())
		require.True(t, h.Receives >= MinReceives && h.Receives <= MaxReceives)
		require.True(t, h.Size >= MinSize && h.Size <= MaxSize)
		again, err := parseHello(h.bytes())
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

// How many receives are posted at first is told by those who both know of growing windows,
// and by nobody else: then all are taken to be posted.
func TestGrowingWindows(t *testing.T) {
	growing := Exchange{Features: GrowingWindows}
	dialer := message(func(m *Message) { m.Receives, m.First = 16, 5 })
	listener := message(func(m *Message) { m.Receives, m.First = 32, 7 })
	for _, c := range []struct {
		x, y Exchange
		both bool
	}{{growing, growing, true}, {growing, Exchange{}, false}, {Exchange{}, growing, false}} {
		d, l := exchange(c.x, c.y, dialer, listener)
		require.NoError(t, d.err)
		require.NoError(t, l.err)
		told := func(first uint32) uint32 {
			if c.both {
				return first
			}
			return 0
		}
		require.Equal(t, told(7), d.heard.First)
		require.Equal(t, told(5), l.heard.First)
	}
}

func TestGrowingWindowsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		first uint32
		cut   int
		want  uint32 // 0 is a refusal
	}{
		"none at first":    {first: 0},
		"too few":          {first: MinReceives - 1},
		"more than ever":   {first: 1 << 31, want: 16},
		"no number":        {first: 5, cut: 4},
		"half of a number": {first: 5, cut: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := hello{Message: message(func(m *Message) { m.Receives, m.First = 16, 5 }), min: 1, max: 1, features: GrowingWindows}
			b := h.bytes()
			require.Len(t, b, lenGrowing)
			binary.BigEndian.PutUint32(b[offFirst:], c.first)
			got, err := parseHello(b[:len(b)-c.cut])
			if c.want != 0 {
				require.NoError(t, err)
				require.Equal(t, c.want, got.First)
				return
			}
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, CodeMalformed, refused.Code)
		})
	}
}
