package rdma

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/internal/nic"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Devices are not read again for a moment, where one of them has the address; but at
// once where none has, or when an event says that something has changed.
func TestDevicesAreRemembered(t *testing.T) {
	ours, other := between("198.51.100.4", "198.51.100.9"), between("192.0.2.1", "192.0.2.2")
	for name, change := range map[string]func(*port){
		"for a moment":     func(*port) { time.Sleep(listingAge) },
		"GID event":        func(p *port) { p.heard(nic.Event{Type: verbs.EventGIDChange}) },
		"port event":       func(p *port) { p.heard(nic.Event{Type: verbs.EventPortError}) },
		"device event":     func(p *port) { p.heard(nic.Event{Type: verbs.EventDeviceFatal}) },
		"another's search": func(p *port) { _, _ = p.owner.finder.find("", other) },
	} {
		t.Run(name, func(t *testing.T) {
			f := machineFinder(t, twoCards)
			f.known = &listing{}
			synctest.Test(t, func(t *testing.T) {
				ps := newPorts(func() (*softnic.Config, error) { return &softnic.Config{}, nil })
				ps.finder = f
				find := func(device string) string {
					c, err := ps.finder.find(device, ours)
					require.NoError(t, err)
					return c.Device
				}
				require.Equal(t, "mlx5_0", find(""))
				require.NoError(t, os.RemoveAll(filepath.Join(f.root, "sys")))
				require.Equal(t, "mlx5_0", find(""))
				require.Equal(t, "mlx5_0", find(Hardware))
				_, err := ps.finder.find("mlx5_9", ours)
				require.ErrorIs(t, err, errNoDevice)
				f.known.remember([]verbs.Device{{Name: "mlx5_0"}})
				change(&port{owner: ps})
				require.Equal(t, Soft, find(""))
			})
		})
	}
	require.NotNil(t, system.finder.known)
}
