package softnic_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// lane is one queue pair of a stressed device, with its own completion queue
// and region.
type lane struct {
	done *cq.Queue
	pair *qp.Pair
	mr   *region.Region
}

const (
	laneSlots = 16
	slotBytes = 8192
)

func newLane(t *testing.T, nic *mlx5.NIC) *lane {
	l := &lane{}
	var err error
	l.done, err = cq.New(nic, 4*laneSlots)
	require.NoError(t, err)
	l.pair, err = qp.New(l.done, qp.Config{Sends: laneSlots, Receives: laneSlots})
	require.NoError(t, err)
	l.mr, err = region.Alloc(nic, region.Local, 2*laneSlots*slotBytes)
	require.NoError(t, err)
	return l
}

func (l *lane) close(t *testing.T) {
	require.NoError(t, l.pair.Destroy())
	require.NoError(t, l.done.Close())
	require.NoError(t, l.mr.Close())
}

// run sends messages and checks those that arrive, both at once, until all of
// both are done. Nothing holds a sender back whose peer is late with its
// receives: that is for the NICs to sort out.
func (l *lane) run(t *testing.T, messages int, ready, start *sync.WaitGroup) {
	receive := func(slot int) {
		require.NoError(t, l.pair.Receive(uint64(slot), l.mr.Local(slot*slotBytes, slotBytes)))
	}
	for i := range laneSlots {
		receive(i)
	}
	ready.Done()
	start.Wait()
	size := func(i int) int { return 8 + i*1777%(slotBytes-8) }
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	sent, acked, got := 0, 0, 0
	for acked < messages || got < messages {
		for sent < messages && sent-acked < laneSlots {
			at := (laneSlots + sent%laneSlots) * slotBytes
			binary.BigEndian.PutUint64(l.mr.Bytes()[at:], uint64(sent))
			l.mr.Bytes()[at+size(sent)-1] = byte(sent)
			require.NoError(t, l.pair.Post(qp.Entry{Op: qp.Send, Local: l.mr.Local(at, size(sent)), Signaled: true}))
			sent++
		}
		l.pair.Ring()
		var c [32]cq.Completion
		n, err := l.done.Poll(c[:])
		require.NoError(t, err)
		if n == 0 {
			require.NoError(t, l.done.Wait(ctx))
		}
		for _, c := range c[:n] {
			require.NoError(t, c.Err())
			if c.Ring == qp.Sends {
				acked++
				continue
			}
			b := l.mr.Bytes()[int(c.ID)*slotBytes:][:c.Bytes]
			require.EqualValues(t, got, binary.BigEndian.Uint64(b))
			require.EqualValues(t, size(got), c.Bytes)
			if size(got) > 8 {
				require.Equal(t, byte(got), b[len(b)-1])
			}
			receive(int(c.ID))
			got++
		}
	}
}

// Many queue pairs of two devices at once, each with its own goroutine, over
// good and bad links: every message arrives once, whole and in order.
func TestStress(t *testing.T) {
	messages := 400
	if testing.Short() {
		messages = 50
	}
	for name, cfg := range map[string]softnic.Config{
		"memory":     {Link: softnic.LinkMemory},
		"InfiniBand": {LinkLayer: verbs.LinkInfiniBand},
		"static":     {Link: softnic.LinkMemory, StaticUAR: true, OldCQE: true},
		"bad link": {Link: softnic.LinkMemory, Seed: 7, Faults: softnic.Faults{Loss: 0.01, Duplicate: 0.01,
			Reorder: 0.02, Corrupt: 0.001, Delay: 100 * time.Microsecond, Late: 0.05, LateBy: 200 * time.Microsecond}},
		"UDP":           {Link: softnic.LinkUDP, NoSharedMemory: true},
		"shared memory": {Link: softnic.LinkUDP},
	} {
		t.Run(name, func(t *testing.T) {
			var softs [2]*softnic.NIC
			var nics [2]*mlx5.NIC
			network := softnic.NewNetwork()
			for i := range nics {
				cfg := cfg
				if cfg.Network = network; cfg.Link == softnic.LinkUDP {
					cfg.Network = softnic.NewNetwork() // nothing in common but UDP
				}
				softs[i] = newNIC(t, cfg)
				file, err := softs[i].Open()
				require.NoError(t, err)
				nics[i], err = mlx5.OpenFile(file, mlx5.Config{})
				require.NoError(t, err)
			}
			var ready, start, all sync.WaitGroup
			start.Add(1)
			var lanes []*lane
			for range 8 {
				a, b := newLane(t, nics[0]), newLane(t, nics[1])
				require.NoError(t, a.pair.Connect(region.Local, b.pair.Endpoint()))
				require.NoError(t, b.pair.Connect(region.Local, a.pair.Endpoint()))
				lanes = append(lanes, a, b)
			}
			for _, l := range lanes {
				ready.Add(1)
				all.Go(func() { l.run(t, messages, &ready, &start) })
			}
			ready.Wait()
			start.Done()
			all.Wait()
			for _, l := range lanes {
				l.close(t)
			}
			for i := range nics {
				require.NoError(t, nics[i].Close())
				c := softs[i].Counters()
				require.Zero(t, c.BadDoorbells, "%+v", c)
				require.Zero(t, c.ErrorCompletions+c.Overruns, "%+v", c)
				if cfg.Faults.Loss == 0 {
					require.Zero(t, c.DropICRC+c.DropMalformed+c.DropSize+c.DropTransport+c.DropOverflow, "%+v", c)
				}
			}
		})
	}
}

// Opening and closing again and again leaves nothing behind.
func TestReopen(t *testing.T) {
	mappings, bytes := hostmem.Live()
	for range 50 {
		soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork()})
		require.NoError(t, err)
		for range 2 {
			file, err := soft.Open()
			require.NoError(t, err)
			nic, err := mlx5.OpenFile(file, mlx5.Config{})
			require.NoError(t, err)
			l := newLane(t, nic)
			require.NoError(t, l.pair.Connect(region.Local, l.pair.Endpoint()))
			l.close(t)
			require.NoError(t, nic.Close())
		}
		c := soft.Counters()
		require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.EventFiles, "%+v", c)
		require.NoError(t, soft.Close())
	}
	m, b := hostmem.Live()
	require.Equal(t, mappings, m)
	require.Equal(t, bytes, b)
}

// A device that goes away ends every wait of its driver.
func TestUnplugged(t *testing.T) {
	for name, unplug := range map[string]func(*softnic.NIC){
		"fails":  (*softnic.NIC).Fail,
		"closed": func(n *softnic.NIC) { _ = n.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork()})
			require.NoError(t, err)
			file, err := soft.Open()
			require.NoError(t, err)
			nic, err := mlx5.OpenFile(file, mlx5.Config{})
			require.NoError(t, err)
			l := newLane(t, nic)
			require.NoError(t, l.pair.Connect(region.Local, l.pair.Endpoint()))
			waiting := make(chan error)
			go func() { waiting <- l.done.Wait(context.Background()) }()
			unplug(soft)
			require.ErrorIs(t, <-waiting, verbs.ErrDeviceFatal)
			_ = l.pair.Destroy()
			_ = l.done.Close()
			_ = l.mr.Close()
			_ = nic.Close()
			_ = soft.Close()
			c := soft.Counters()
			require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.EventFiles, "%+v", c)
		})
	}
}
