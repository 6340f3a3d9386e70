package bootstrap

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSilence(t *testing.T) {
	hello := hello{Message: message(nil), min: 1, max: 1}.bytes()
	for name, send := range map[string]func(net.Conn){
		"silence":           func(net.Conn) {},
		"half a hello":      func(nc net.Conn) { nc.Write(hello[:40]) },
		"one byte a second": func(nc net.Conn) { trickle(nc, hello) },
		"hello, no more":    func(nc net.Conn) { nc.Write(hello); io.Copy(io.Discard, nc) },
	} {
		for _, dial := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					near, far := net.Pipe()
					sent := make(chan bool)
					go func() {
						defer close(sent)
						if dial {
							io.ReadFull(far, make([]byte, lenHello))
						}
						send(far)
					}()
					start := time.Now()
					err := run(context.Background(), near, dial)
					if dial && name == "hello, no more" {
						requireRefused(t, err, CodeSession, false)
					} else {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.Equal(t, 5*time.Second, time.Since(start))
					}
					near.Close()
					far.Close()
					<-sent
				})
			})
		}
	}
}

func trickle(nc net.Conn, b []byte) {
	for i := range b {
		if _, err := nc.Write(b[i : i+1]); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

func TestPeerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		start := time.Now()
		require.ErrorIs(t, run(context.Background(), near, true), os.ErrDeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
		near.Close()
		far.Close()

		near, far = net.Pipe()
		bad := hello{Message: message(nil), min: 7, max: 9}.bytes()
		go far.Write(bad)
		start = time.Now()
		requireRefused(t, run(context.Background(), near, false), CodeVersion, false)
		require.Equal(t, 5*time.Second, time.Since(start))
		near.Close()
		far.Close()
	})
}

func TestJunk(t *testing.T) {
	for name, junk := range map[string]string{
		"http":     "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"tls":      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"one byte": "G",
		"ssh":      "SSH-2.0-x",
		"late":     "FARX",
	} {
		t.Run(name, func(t *testing.T) {
			for _, dial := range []bool{true, false} {
				near, far := net.Pipe()
				heard := make(chan []byte)
				go func() {
					if dial {
						io.ReadFull(far, make([]byte, lenHello))
					}
					far.Write([]byte(junk))
					b, _ := io.ReadAll(far)
					heard <- b
				}()
				require.ErrorIs(t, run(context.Background(), near, dial), ErrMagic)
				near.Close()
				require.Empty(t, <-heard)
				far.Close()
			}
		})
	}
}

func TestCut(t *testing.T) {
	for n := range lenHello {
		near, far := net.Pipe()
		go func() {
			far.Write(hello{Message: message(nil), min: 1, max: 1}.bytes()[:n])
			far.Close()
		}()
		err := run(context.Background(), near, false)
		if n == 0 {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		}
		near.Close()
	}
	for n := range lenReady {
		near, far := net.Pipe()
		go func() {
			far.Write(hello{Message: message(nil), min: 1, max: 1}.bytes())
			b := make([]byte, lenHello)
			io.ReadFull(far, b)
			far.Write(readyBytes(nonce(b[offNonce:]))[:n])
			far.Close()
		}()
		require.Error(t, run(context.Background(), near, false), "%d bytes", n)
		near.Close()
	}
}

func TestHostile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		code   Code
	}{
		"too short":      {func(b []byte) []byte { b[offLength+1] = lenHello - 1; return b[:lenHello-1] }, CodeMalformed},
		"tiny length":    {func(b []byte) []byte { b[offLength+1] = lenHeader - 1; return b[:lenHeader] }, CodeMalformed},
		"huge length":    {func(b []byte) []byte { b[offLength] = 0xff; return b[:lenHeader] }, CodeMalformed},
		"kind":           {func(b []byte) []byte { b[offKind] = kindReady; return b }, CodeMalformed},
		"unknown kind":   {func(b []byte) []byte { b[offKind] = 77; return b }, CodeMalformed},
		"range":          {func(b []byte) []byte { b[offMin], b[offMax] = 2, 1; return b }, CodeMalformed},
		"newer":          {func(b []byte) []byte { b[offMin], b[offMax] = 2, 3; return b }, CodeVersion},
		"older":          {func(b []byte) []byte { b[offMin], b[offMax] = 0, 0; return b }, CodeVersion},
		"receives":       {func(b []byte) []byte { b[offReceives+3] = MinReceives - 1; return b }, CodeMalformed},
		"size":           {func(b []byte) []byte { clear(b[offSize:lenHello]); return b }, CodeMalformed},
		"qpn":            {func(b []byte) []byte { b[offQPN] = 1; return b }, CodeEndpoint},
		"psn":            {func(b []byte) []byte { b[offPSN] = 1; return b }, CodeEndpoint},
		"mtu":            {func(b []byte) []byte { b[offMTU] = 6; return b }, CodeEndpoint},
		"link layer":     {func(b []byte) []byte { b[offLinkLayer] = 9; return b }, CodeEndpoint},
		"no gid":         {func(b []byte) []byte { clear(b[offGID:offReceives]); return b }, CodeEndpoint},
		"refusal, short": {func([]byte) []byte { return refuseBytes(nonce{}, 1, "")[:offRefuseText-1] }, CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.change(hello{Message: message(nil), min: 1, max: 1}.bytes())
			if strings.HasPrefix(name, "refusal") {
				b[offLength+1] = byte(len(b))
			}
			near, far := net.Pipe()
			told := make(chan error)
			go func() {
				far.Write(b)
				s := session{nc: far}
				_, err := s.receive(kindHello)
				told <- err
			}()
			requireRefused(t, run(context.Background(), near, false), c.code, false)
			var refused *RefusedError
			require.ErrorAs(t, <-told, &refused)
			require.True(t, refused.Remote)
			require.Equal(t, c.code, refused.Code)
			near.Close()
			far.Close()
		})
	}
}

func TestWrongSession(t *testing.T) {
	for name, change := range map[string]func(*hello){
		"stale echo":         func(h *hello) { h.echo[3]++ },
		"version not chosen": func(h *hello) { h.max = 2 },
		"unasked feature":    func(h *hello) { h.features = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			told := make(chan error)
			go func() {
				answer(far, change)
				s := session{nc: far}
				_, err := s.receive(kindReady)
				told <- err
			}()
			called := false
			_, err := Exchange{}.Dial(context.Background(), near, message(nil), func(Message) error { called = true; return nil })
			require.Error(t, err)
			require.False(t, called, "nothing must be connected")
			var refused *RefusedError
			require.ErrorAs(t, <-told, &refused)
			require.True(t, refused.Remote)
			near.Close()
			far.Close()
		})
	}
	near, far := net.Pipe()
	go func() {
		far.Write(hello{Message: message(nil), min: 1, max: 1}.bytes())
		io.ReadFull(far, make([]byte, lenHello))
		far.Write(readyBytes(nonce{1}))
		io.Copy(io.Discard, far)
	}()
	requireRefused(t, run(context.Background(), near, false), CodeSession, false)
	near.Close()
	far.Close()
}

func TestShortReady(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		far.Write(hello{Message: message(nil), min: 1, max: 1}.bytes())
		io.ReadFull(far, make([]byte, lenHello))
		b := readyBytes(nonce{})[:lenReady-1]
		b[offLength+1]--
		far.Write(b)
		io.Copy(io.Discard, far)
	}()
	requireRefused(t, run(context.Background(), near, false), CodeMalformed, false)
	near.Close()
	far.Close()
}

func FuzzStream(f *testing.F) {
	f.Add(hello{Message: message(nil), min: 1, max: 1}.bytes(), true)
	f.Add(refuseBytes(nonce{}, CodeBusy, "a\x00b\xffc"), false)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), true)
	f.Fuzz(func(t *testing.T, in []byte, dial bool) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		go func() {
			far.Write(in)
			far.Close()
		}()
		err := run(context.Background(), near, dial)
		near.Close()
		require.Error(t, err, "no input can know the nonce")
		require.NotContains(t, err.Error(), "\x00")
	})
}

func TestPeerVanishes(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		far.Write(hello{Message: message(nil), min: 1, max: 1}.bytes())
		far.Close()
	}()
	require.ErrorIs(t, run(context.Background(), near, false), io.ErrClosedPipe)
	near.Close()

	near, far = net.Pipe()
	go func() {
		answer(far, nil)
		far.Close()
	}()
	require.ErrorIs(t, run(context.Background(), near, true), io.ErrClosedPipe)
	near.Close()

	require.ErrorIs(t, run(context.Background(), near, true), io.ErrClosedPipe)
}

func TestFeatureWithheld(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		answer(far, nil)
		io.Copy(io.Discard, far)
	}()
	x := Exchange{Features: 2, Required: 2}
	_, err := x.Dial(context.Background(), near, message(nil), nil)
	requireRefused(t, err, CodeFeatures, false)
	near.Close()
	far.Close()
}
