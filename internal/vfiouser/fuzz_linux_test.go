package vfiouser

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzServe sends what it likes to a server, after a version was agreed on. The
// server may hang up, but not fall over.
func FuzzServe(f *testing.F) {
	message := func(command uint16, body []byte) []byte {
		h := header{id: 1, command: command, size: uint32(headerSize + len(body))}
		return append(h.append(nil), body...)
	}
	for command, body := range map[uint16][]byte{
		cmdVersion: version(0, 1), cmdDMAMap: mapBody(3, 0, 0, page), cmdDMAUnmap: unmapBody(0, 0, page),
		cmdGetInfo: make([]byte, deviceInfoSize), cmdRegionInfo: make([]byte, regionInfoSize), cmdIRQInfo: words(16, 0, 2, 0),
		cmdSetIRQs: words(20, irqDataNone|irqActionTrigger, irqMSIX, 0, 4), cmdRegionRead: accessBody(BAR0, 0, 8),
		cmdRegionWrite: accessBody(ConfigSpace, 4, 2, 1, 2), cmdReset: nil,
	} {
		f.Add(message(command, body))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		here, there := socketpair(t)
		s, err := New(there, exampleConfig())
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Serve(&recorder{}) }()
		go func() {
			_, _ = here.Write(message(cmdVersion, version(0, 1)))
			_, _ = here.Write(stream)
			_ = here.CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, here)
		err = <-done
		_ = here.Close()
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
		}
	})
}
