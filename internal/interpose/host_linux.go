//go:build amd64 || arm64

package interpose

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/farwire/farwire/rdma/softnic"
)

// Host is a machine's worth of software NICs, on which programs run. All methods
// are safe for concurrent use.
type Host struct {
	log    *slog.Logger
	sysfs  string // the tree's folder
	nodes  map[string]*device
	watch  *watcher
	poller *poller

	mu        sync.Mutex
	files     map[uint64]*deviceFile
	nextFile  uint64
	processes []*Process
	closed    bool
}

// device is a NIC as the programs see it.
type device struct {
	nic   *softnic.NIC
	minor uint32
}

// Device numbers of the first 32 user-verbs nodes (Linux uverbs_main.c).
const (
	major      = 231
	firstMinor = 192
	maxDevices = 32
)

// maxNode is the longest path of a device node, of those that New makes up.
const maxNode = 32

// New makes a host of NICs, whose names must be of the form mlx5_0; the NICs stay
// the caller's. A nil log is none. The caller closes the host before the NICs.
func New(nics []*softnic.NIC, log *slog.Logger) (*Host, error) {
	h, err := newHost(nics, log)
	if err != nil {
		return nil, fmt.Errorf("software NIC host: %w", err)
	}
	return h, nil
}

func newHost(nics []*softnic.NIC, log *slog.Logger) (*Host, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	if len(nics) == 0 || len(nics) > maxDevices {
		return nil, fmt.Errorf("%d NICs, not 1 to %d", len(nics), maxDevices)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Host{log: log, nodes: map[string]*device{}, files: map[uint64]*deviceFile{}}
	for i, nic := range nics {
		d := &device{nic, firstMinor + uint32(i)}
		h.nodes[fmt.Sprintf("/dev/infiniband/uverbs%d", i)] = d
		h.nodes[fmt.Sprintf("/dev/char/%d:%d", major, d.minor)] = d
	}
	var err error
	if h.sysfs, err = makeSysfs(nics); err != nil {
		return nil, err
	}
	if h.watch, err = newWatcher(h.fileEnded); err != nil {
		_ = os.RemoveAll(h.sysfs)
		return nil, err
	}
	h.poller = newPoller()
	return h, nil
}

// env is what programs need in their environment.
func (h *Host) env() []string { return []string{"SYSFS_PATH=" + h.sysfs} }

// add takes a program in, unless the host is closed.
func (h *Host) add(p *Process) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	h.processes = append(h.processes, p)
	return nil
}

func (h *Host) remove(p *Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.processes = slices.DeleteFunc(h.processes, func(q *Process) bool { return q == p })
}

// Close ends what is left of the programs' files and removes the sysfs tree.
// Programs that still run lose their devices. A second call returns
// os.ErrClosed.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return os.ErrClosed
	}
	h.closed = true
	processes := slices.Clone(h.processes)
	h.mu.Unlock()
	for _, p := range processes {
		p.endLoop()
	}
	errs := []error{h.watch.close()}
	h.mu.Lock()
	files := maps.Clone(h.files)
	h.mu.Unlock()
	for _, f := range files {
		h.fileEnded(f.id)
	}
	h.poller.close()
	return errors.Join(append(errs, os.RemoveAll(h.sysfs))...)
}
