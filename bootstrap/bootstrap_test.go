package bootstrap

import (
	"context"
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
		"plain":  {cause, CodeOther, ""},
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
	requireRefused(t, d.err, CodeOther, true)
	require.ErrorContains(t, l.err, "local")
	d, l = exchange(Exchange{}, Exchange{}, bad, message(nil))
	require.ErrorContains(t, d.err, "local")
	require.Error(t, l.err)
}

// TestSilence: whatever little comes, both sides end at the deadline, or at the

// context's.

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

// TestPeerDoesNotRead: writing has a deadline too, and so has a refusal.

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

// TestCut closes the stream after every byte of every message.

// TestReadsNoFurther: what follows the exchange on the stream is left there.

// TestHostile changes one thing in an otherwise good hello.

// TestLonger: a hello of a later version that also speaks this one is understood.

// TestWrongSession: an answer that belongs to another attempt is not applied.

// TestNonces: they differ.

// TestLayout compares with the example of docs/bootstrap.md.

// FuzzStream feeds both sides anything: they end, with an error unless it is a good

// exchange, and a refusal's text is fit to print.

// TestPeerVanishes: the stream ends in the middle of the exchange.

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
