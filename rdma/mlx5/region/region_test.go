package region_test

import (
	"math"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func TestMain(m *testing.M) { mlx5test.Main(m) }

var (
	register   = mlx5test.Command{Write: uapi.CmdRegMR}
	deregister = mlx5test.Command{Write: uapi.CmdDeregMR}
)

func open(t *testing.T, c softnic.Config) (*softnic.NIC, *mlx5test.File, *mlx5.NIC) {
	t.Helper()
	soft, file := mlx5test.Open(t, c)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nic.Close()) })
	return soft, file, nic
}

func TestAlloc(t *testing.T) {
	soft, _, nic := open(t, softnic.Config{})
	r, err := region.Alloc(nic, region.RemoteWrite, 5000)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 5000), r.Bytes())
	require.EqualValues(t, 5000, r.Len())
	require.Equal(t, region.RemoteWrite, r.Access())
	if soft != nil {
		require.Equal(t, 1, soft.Counters().MRs)
	}
	addr := hostmem.AddrOf(r.Bytes())
	require.Zero(t, addr%uint64(hostmem.PageSize()))

	require.Equal(t, region.Segment{Addr: addr, Length: 5000, LKey: r.LKey()}, r.Local(0, 5000))
	require.Equal(t, region.Segment{Addr: addr + 4999, Length: 1, LKey: r.LKey()}, r.Local(4999, 1))
	require.Equal(t, region.Segment{Addr: addr + 5000, LKey: r.LKey()}, r.Local(5000, 0))
	target, err := r.Remote(17)
	require.NoError(t, err)
	require.Equal(t, region.Target{Addr: addr + 17, RKey: r.RKey()}, target)
	_, err = r.Remote(5000)
	require.NoError(t, err)

	for _, bad := range [][2]int{{-1, 1}, {0, -1}, {0, 5001}, {5000, 1}, {5001, 0}, {1, math.MaxInt}, {math.MaxInt, 1}, {math.MinInt, math.MinInt}} {
		require.True(t, r.Local(bad[0], bad[1]).Outside(), "%v", bad)
	}
	for _, off := range []int{-1, 5001, math.MaxInt, math.MinInt} {
		_, err := r.Remote(off)
		require.ErrorIs(t, err, region.ErrRange, "%d", off)
	}

	require.ErrorIs(t, nic.Close(), mlx5.ErrBusy)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "again")
	require.True(t, r.Local(0, 1).Outside())
	_, err = r.Remote(0)
	require.ErrorIs(t, err, region.ErrRange)
	if soft != nil {
		require.Zero(t, soft.Counters().MRs)
	}
}

// The access that the kernel is asked for. Relaxed ordering is asked for only
// where writes alone come from peers, and dropped where the kernel does not know
// it.
func TestAccess(t *testing.T) {
	const local, write, read, atomic, relaxed = 1, 2, 4, 8, 1 << 20
	for _, kernel := range []struct {
		config softnic.Config
		known  uint32
	}{{softnic.Config{}, relaxed}, {softnic.Config{OldKernel: true}, 0}} {
		_, file := mlx5test.Open(t, kernel.config)
		nic, err := mlx5.OpenFile(file, mlx5.Config{GIDs: func(uint8) ([]verbs.GIDEntry, error) {
			return []verbs.GIDEntry{{GID: verbs.GID{15: 1}, Type: verbs.GIDTypeRoCEv2}}, nil
		}})
		require.NoError(t, err)
		for i, want := range []uint32{local, local | write | kernel.known, local | write | read | atomic} {
			r, err := region.Alloc(nic, region.Access(i), 1)
			require.NoError(t, err)
			issued := file.Issued(register)
			request := issued[len(issued)-1].Core
			require.Equal(t, want, uint32(request[36])|uint32(request[38])<<16, "%v", region.Access(i))
			require.NoError(t, r.Close())
		}
		_, err = region.Alloc(nic, 3, 1)
		require.ErrorIs(t, err, region.ErrAccess)
		require.NoError(t, nic.Close())
	}
	require.Equal(t, []verbs.Access{0, write, write | read | atomic},
		[]verbs.Access{region.Local.Peer(), region.RemoteWrite.Peer(), region.RemoteReadWrite.Peer()})
	require.Equal(t, "local, remote write, remote read and write, Access(3)",
		region.Local.String()+", "+region.RemoteWrite.String()+", "+region.RemoteReadWrite.String()+", "+region.Access(3).String())
}

func TestRegister(t *testing.T) {
	soft, _, nic := open(t, softnic.Config{})
	mem, err := hostmem.Alloc(10_000)
	require.NoError(t, err)
	r, err := region.Register(nic, region.Local, mem.Bytes()[100:9000])
	require.NoError(t, err)
	require.Equal(t, region.Segment{Addr: mem.Addr() + 101, Length: 8899, LKey: r.LKey()}, r.Local(1, 8899))
	require.NoError(t, r.Close())
	if soft != nil {
		require.Zero(t, soft.Counters().MRs)
	}
	mem.Bytes()[0] = 1 // the memory is still the caller's
	require.NoError(t, mem.Free())
}

// Memory of the Go heap is kept from the collector for as long as it is
// registered.
func TestRegisterGoMemory(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	collected := make(chan struct{})
	make1 := func() *region.Region {
		buf := make([]byte, 8192)
		copy(buf, "from the Go heap")
		runtime.AddCleanup(&buf[0], func(struct{}) { close(collected) }, struct{}{})
		r, err := region.Register(h.NIC, region.RemoteReadWrite, buf)
		require.NoError(t, err)
		return r
	}
	r := make1()
	segment := r.Local(0, 16)
	closeIt := r.Close
	r = nil
	runtime.GC()
	runtime.GC()
	select {
	case <-collected:
		t.Fatal("the NIC's memory was collected")
	default:
	}
	p := h.Pair(qp.Config{Sends: 1})
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	require.NoError(t, p.Post(qp.Entry{Op: qp.Write, Local: segment, Remote: h.Target(0), Signaled: true}))
	p.Ring()
	err := h.Poll(1)[0].Err()
	require.NoError(t, err)
	require.Equal(t, "from the Go heap", string(h.MR.Bytes()[:16]))
	require.NoError(t, closeIt())
}

func TestRefusals(t *testing.T) {
	_, file, nic := open(t, softnic.Config{})
	before, _ := hostmem.Live()
	_, err := region.Register(nic, region.Local, nil)
	require.ErrorIs(t, err, region.ErrEmpty)
	_, err = region.Dmabuf(nic, region.Local, 0, 0, 0)
	require.ErrorIs(t, err, region.ErrEmpty)
	_, err = region.Alloc(nic, region.Local, 0)
	require.ErrorContains(t, err, "not a positive size")
	file.Refuse(register, syscall.ENOMEM, 0)
	_, err = region.Alloc(nic, region.Local, 4096)
	require.ErrorIs(t, err, verbs.ErrLockedMemory)
	_, err = region.Register(nic, region.Local, make([]byte, 16))
	require.ErrorIs(t, err, verbs.ErrLockedMemory)
	after, _ := hostmem.Live()
	require.Equal(t, before, after)
	require.NoError(t, nic.Close())
	_, err = region.Alloc(nic, region.Local, 4096)
	require.ErrorIs(t, err, mlx5.ErrClosed)
}

// What the kernel still holds is kept until the NIC closes.
func TestDeregisterRefused(t *testing.T) {
	_, file, nic := open(t, softnic.Config{})
	before, _ := hostmem.Live()
	r, err := region.Alloc(nic, region.Local, 4096)
	require.NoError(t, err)
	file.Refuse(deregister, syscall.EBUSY, 0)
	require.ErrorIs(t, r.Close(), syscall.EBUSY)
	require.NoError(t, r.Close(), "it counts as closed")
	require.True(t, r.Local(0, 1).Outside())
	r.Bytes()[0] = 1 // still mapped
	require.NoError(t, nic.Close())
	after, _ := hostmem.Live()
	require.Less(t, after, before)
}

// On a device that is gone, regions are too: closing them succeeds.
func TestCloseAfterRemoval(t *testing.T) {
	mlx5test.NeedSoft(t)
	soft, _, nic := open(t, softnic.Config{})
	r, err := region.Alloc(nic, region.Local, 4096)
	require.NoError(t, err)
	gone := make(chan struct{})
	nic.Events(func(e mlx5.Event) {
		if e.Type == verbs.EventDeviceFatal {
			close(gone)
		}
	})
	require.NoError(t, soft.Close())
	<-gone
	require.NoError(t, r.Close())
}

func TestCloseConcurrently(t *testing.T) {
	_, file, nic := open(t, softnic.Config{})
	r, err := region.Alloc(nic, region.Local, 4096)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_ = r.Local(0, 1)
			_ = r.Close()
		})
	}
	wg.Wait()
	require.Len(t, file.Issued(deregister), 1)
}
