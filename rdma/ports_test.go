package rdma

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
)

// A NIC is shared by all that it serves; one whose address is configured serves every
// route, since there can be only one.
func TestOneNICForAnAddress(t *testing.T) {
	here := route{local: addr("127.0.0.1"), remote: addr("127.0.0.1")}
	away := route{local: addr("198.51.100.4"), remote: addr("198.51.100.9")}
	m := newMachine(t, softnic.Config{Addr: addr("127.0.0.9"), Link: softnic.LinkMemory, Network: softnic.NewNetwork()})
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	first, err := m.acquire("", here, logger)
	require.NoError(t, err)
	for _, r := range []route{here, away} {
		p, err := m.acquire("", r, logger)
		require.NoError(t, err)
		require.Same(t, first, p)
		require.NoError(t, p.release())
	}
	require.Equal(t, "127.0.0.9", first.soft.GIDs()[len(first.soft.GIDs())-1].GID.String())
	require.NoError(t, first.release())
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("opened device")), "told once: %s", &log)
	require.Contains(t, log.String(), "both ends are on this machine")
	require.Contains(t, log.String(), "software=true")
}

// Towards other machines the software NIC has the route's address, or says why not.
func TestNICOnTheRoute(t *testing.T) {
	m := newMachine(t, softnic.Config{})
	for local, says := range map[string]string{
		"fe80::1":     "link-local",
		"203.0.113.1": "203.0.113.1", // nobody's
	} {
		_, err := m.acquire("", route{local: addr(local), remote: addr("203.0.113.9")}, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "device soft: ")
		require.ErrorContains(t, err, says)
	}
	require.Empty(t, m.open)
}
