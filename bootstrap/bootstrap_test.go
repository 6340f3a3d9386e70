package bootstrap

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message(change func(*Message)) Message {
	m := Message{
		Endpoint: verbs.Endpoint{
			QPN: 0x11, PSN: 0xabcdef, LinkLayer: verbs.LinkEthernet, MTU: verbs.MTU1024,
			GID: verbs.GIDFrom(netip.MustParseAddr("10.0.0.1")),
		},
		Receives: 16,
		Size:     16384,
	}
	if change != nil {
		change(&m)
	}
	return m
}

// outcome is what one side of an exchange ended with.
type outcome struct {
	r     Result
	err   error
	heard Message // given to the callback
}

// exchange runs both sides over a pipe.
func exchange(x, y Exchange, dialer, listener Message) (d, l outcome) {
	near, far := net.Pipe()
	done := make(chan outcome)
	go func() {
		var o outcome
		o.r, o.err = y.Accept(context.Background(), far, func(peer Message) (Message, error) {
			o.heard = peer
			return listener, nil
		})
		if o.err != nil {
			far.Close()
		}
		done <- o
	}()
	d.r, d.err = x.Dial(context.Background(), near, dialer, func(peer Message) error {
		d.heard = peer
		return nil
	})
	if d.err != nil {
		near.Close()
	}
	l = <-done
	near.Close()
	far.Close()
	return d, l
}

func TestExchange(t *testing.T) {
	dialer := message(nil)
	listener := message(func(m *Message) {
		m.Endpoint.QPN, m.Endpoint.PSN, m.Endpoint.MTU = 0x22, 1, verbs.MTU4096
		m.Receives, m.Size = 64, 4096
	})
	d, l := exchange(Exchange{Features: 3}, Exchange{Features: 6}, dialer, listener)
	require.NoError(t, d.err)
	require.NoError(t, l.err)

	wantListener := listener
	wantListener.Endpoint.MTU = verbs.MTU1024
	require.Equal(t, Result{Peer: wantListener, Version: 1, Features: 2}, d.r)
	require.Equal(t, wantListener, d.heard)
	wantDialer := dialer
	require.Equal(t, wantDialer, l.heard)
	wantDialer.Size = 4096
	require.Equal(t, Result{Peer: wantDialer, Version: 1, Features: 2}, l.r)
}

// TestAnswerIsLowered: what the listener says has the dialer's smaller values already.
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

func TestRefusals(t *testing.T) {
	good := message(nil)
	infiniBand := message(func(m *Message) { m.Endpoint.LinkLayer, m.Endpoint.LID = verbs.LinkInfiniBand, 7 })
	for name, c := range map[string]struct {
		x, y     Exchange
		listener Message
		code     Code
		dialer   bool // it is the dialer that refuses
	}{
		"dialer requires":   {Exchange{Features: 1, Required: 1}, Exchange{}, good, CodeFeatures, false},
		"listener requires": {Exchange{}, Exchange{Features: 1, Required: 1}, good, CodeFeatures, false},
		"link layers":       {Exchange{}, Exchange{}, infiniBand, CodeEndpoint, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, l := exchange(c.x, c.y, good, c.listener)
			requireRefused(t, d.err, c.code, true)
			requireRefused(t, l.err, c.code, false)
		})
	}
}

func requireRefused(t *testing.T, err error, code Code, remote bool) {
	t.Helper()
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, code, refused.Code, "%v", err)
	require.Equal(t, remote, refused.Remote)
	require.ErrorContains(t, err, "bootstrap: ")
	require.ErrorContains(t, err, code.String())
}

// TestCallbacks: what the functions of either side return is told to the other, as far
// as it is meant for it.
func TestCallbacks(t *testing.T) {
	cause := errors.New("secret")
	for name, c := range map[string]struct {
		err  error
		code Code
		text string
	}{
		"plain":  {cause, CodeResources, ""},
		"chosen": {&RefusedError{Code: CodeBusy, Text: "come back\nlater", Err: cause}, CodeBusy, "come back?later"},
		"long":   {&RefusedError{Code: 99, Text: strings.Repeat("x", 1000)}, 99, strings.Repeat("x", 200)},
	} {
		for _, dialer := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				near, far := net.Pipe()
				errs := make(chan error)
				var fromListener, fromDialer error
				if dialer {
					fromDialer = c.err
				} else {
					fromListener = c.err
				}
				go func() {
					_, err := Exchange{}.Accept(context.Background(), far, func(Message) (Message, error) { return message(nil), fromListener })
					errs <- err
				}()
				_, dialErr := Exchange{}.Dial(context.Background(), near, message(nil), func(Message) error { return fromDialer })
				near.Close()
				failed, told := <-errs, dialErr
				far.Close()
				if dialer {
					failed, told = told, failed
				}
				require.ErrorIs(t, failed, c.err)
				requireRefused(t, told, c.code, true)
				var refused *RefusedError
				require.ErrorAs(t, told, &refused)
				require.Equal(t, c.text, refused.Text)
				require.NotContains(t, told.Error(), "secret")
			})
		}
	}
}

func TestLocalInvalid(t *testing.T) {
	bad := message(func(m *Message) { m.Receives = 1 })
	d, l := exchange(Exchange{}, Exchange{}, message(nil), bad)
	requireRefused(t, d.err, CodeResources, true)
	require.ErrorContains(t, l.err, "local")
	d, l = exchange(Exchange{}, Exchange{}, bad, message(nil))
	require.ErrorContains(t, d.err, "local")
	require.Error(t, l.err)
}

// TestSilence: whatever little comes, both sides end at the deadline, or at the
// context's.
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

// run runs one side with a timeout of five seconds.
func run(ctx context.Context, nc net.Conn, dial bool) (err error) {
	x := Exchange{Timeout: 5 * time.Second}
	if dial {
		_, err = x.Dial(ctx, nc, message(nil), func(Message) error { return nil })
	} else {
		_, err = x.Accept(ctx, nc, func(Message) (Message, error) { return message(nil), nil })
	}
	return err
}

func trickle(nc net.Conn, b []byte) {
	for i := range b {
		if _, err := nc.Write(b[i : i+1]); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// TestPeerDoesNotRead: writing has a deadline too, and so has a refusal.
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

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, dial := range []bool{true, false} {
			near, far := net.Pipe()
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			start := time.Now()
			require.ErrorIs(t, run(ctx, near, dial), context.Canceled)
			require.Equal(t, time.Second, time.Since(start))
			require.ErrorIs(t, run(ctx, near, dial), context.Canceled, "done before it began")
			near.Close()
			far.Close()
		}
	})
}

// TestDefaultTimeout, and that a success leaves no deadline behind.
func TestDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		start := time.Now()
		_, err := Exchange{}.Accept(context.Background(), near, nil)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, DefaultTimeout, time.Since(start))
		near.Close()
		far.Close()

		near, far = net.Pipe()
		go run(context.Background(), far, false)
		require.NoError(t, run(context.Background(), near, true))
		time.Sleep(time.Hour)
		go far.Write([]byte{1})
		_, err = near.Read(make([]byte, 1))
		require.NoError(t, err)
		near.Close()
		far.Close()
	})
}

// TestJunk: clients of other protocols get an error at once and no answer.
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

// TestCut closes the stream after every byte of every message.
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

// TestReadsNoFurther: what follows the exchange on the stream is left there.
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

// TestHostile changes one thing in an otherwise good hello.
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

// TestLonger: a hello of a later version that also speaks this one is understood.
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

// TestWrongSession: an answer that belongs to another attempt is not applied.
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

// TestNonces: they differ.
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

// TestLayout compares with the example of docs/bootstrap.md.
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

// FuzzStream feeds both sides anything: they end, with an error unless it is a good
// exchange, and a refusal's text is fit to print.
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

// TestPeerVanishes: the stream ends in the middle of the exchange.
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

// TestCanceledAtTheEnd: the context ends in the very moment of success.
func TestCanceledAtTheEnd(t *testing.T) {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		answer(far, nil)
		io.Copy(io.Discard, far)
	}()
	require.ErrorIs(t, run(ctx, canceler{near, cancel}, true), context.Canceled)
	near.Close()
	far.Close()
}

// canceler cancels once the ready has been written.
type canceler struct {
	net.Conn
	cancel func()
}

func (c canceler) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if len(p) == lenReady {
		c.cancel()
	}
	return n, err
}

// TestFeatureWithheld: the listener's answer lacks what the dialer requires.
func TestFeatureWithheld(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		answer(far, nil)
		io.Copy(io.Discard, far)
	}()
	x := Exchange{Features: 1, Required: 1}
	_, err := x.Dial(context.Background(), near, message(nil), nil)
	requireRefused(t, err, CodeFeatures, false)
	near.Close()
	far.Close()
}

// answer reads a hello and answers it, as change will have it.
func answer(nc net.Conn, change func(*hello)) {
	b := make([]byte, lenHello)
	io.ReadFull(nc, b)
	h := hello{Message: message(nil), min: 1, max: 1, echo: nonce(b[offNonce:])}
	if change != nil {
		change(&h)
	}
	nc.Write(h.bytes())
}
