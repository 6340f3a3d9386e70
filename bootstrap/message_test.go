package bootstrap

import (
	"context"
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
