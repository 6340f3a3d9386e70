package conformance

import (
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/softnic/trace"
	"github.com/farwire/farwire/rdma/verbs"
)

// side is a driver on a NIC of its own, which tells what it is told.
type side struct {
	*decoder
	driver interface {
		// do makes a call and returns what it answers. See script.
		do(t *testing.T, call string) string
	}

	mu     sync.Mutex
	told   []*trace.Record
	closed bool

	process *process // that the driver runs in
}

// newSide makes a NIC of the settings, and a side that has no driver yet.
func newSide(t *testing.T, v variant) (*side, *softnic.NIC) {
	cfg, err := softnic.ParseConfig(v.settings)
	require.NoError(t, err)
	s := &side{decoder: newDecoder()}
	cfg.Name, cfg.LinkLayer, cfg.Link, cfg.Network = "mlx5_0", v.layer, softnic.LinkMemory, softnic.NewNetwork()
	cfg.RoCEv2Only = true
	if v.layer == verbs.LinkEthernet {
		cfg.Addr = netip.MustParseAddr("127.0.0.77") // paths name it
	}
	cfg.Trace = s.tell
	nic, err := softnic.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nic.Close()) })
	return s, nic
}

func (s *side) tell(r *trace.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, r.Clone())
	s.closed = s.closed || r.Kind == trace.Close
}

// hasClosed reports whether the device was closed, which the NIC of another process
// may learn later.
func (s *side) hasClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// perform makes the calls of a step and returns what they answered, and what the NIC
// was told meanwhile.
func (s *side) perform(t *testing.T, st step) (answers []string, acts []*act) {
	for _, call := range st.calls {
		answers = append(answers, s.driver.do(t, call))
		// Now, while the driver waits and its memory is as it left it.
		for _, r := range s.take() {
			if a := s.act(t, r); a != nil {
				acts = append(acts, a)
			}
		}
	}
	for _, name := range sortedKeys(s.records) {
		acts = append(acts, s.record(t, name))
	}
	return answers, acts
}

func (s *side) take() []*trace.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	return told
}

// act is what a record tells, or nil if it is no act of the driver's or its
// consequence: when the NIC reads records is its own affair.
func (s *side) act(t *testing.T, r *trace.Record) *act {
	switch r.Kind {
	case trace.Open:
		s.process = newProcess(t, r.Process)
	case trace.Ioctl:
		return s.command(r)
	case trace.Map:
		s.process.pages[r.Number] = r.Offset
		return s.mapping(r)
	case trace.Doorbell:
		if len(r.Bytes) == 0 {
			return nil // the NIC looked once more
		}
		if r.Process != os.Getpid() {
			s.process.settle(t, r, s.rings[s.of("qpn", uint64(qpnOf(r.Bytes)))])
		}
		return s.doorbell(r)
	case trace.Work:
		return s.work(r)
	case trace.Completion:
		return s.completion(r)
	case trace.CompletionEvent, trace.AsyncEvent:
		return s.event(r)
	}
	return nil
}

// unarmed is what the NIC itself stores in the arm word of a new queue of another
// process, in place of 0.
const unarmed = "\xff\xff\xff\xff"

// record is a doorbell record as it lies in the driver's memory.
func (s *side) record(t *testing.T, name string) *act {
	b := s.process.read(t, s.records[name], prm.RecordSize)
	a := &act{what: "record of " + name}
	if strings.HasPrefix(name, "cq") && string(b[4:]) == unarmed {
		clear(b[4:])
	}
	a.add("word 0", "%x", b[:4])
	a.add("word 1", "%x", b[4:])
	return a
}
