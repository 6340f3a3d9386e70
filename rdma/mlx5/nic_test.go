package mlx5_test

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

func TestMain(m *testing.M) { mlx5test.Main(m) }

func gid(s string) verbs.GID { return verbs.GIDFrom(netip.MustParseAddr(s)) }

// open opens a software NIC whose kernel does not know the GID table: it is the
// given one.
func open(t *testing.T, soft softnic.Config, c mlx5.Config, gids ...verbs.GIDEntry) (*mlx5.NIC, error) {
	t.Helper()
	soft.OldKernel = true
	_, file := mlx5test.Open(t, soft)
	c.GIDs = func(port uint8) ([]verbs.GIDEntry, error) {
		require.EqualValues(t, 1, port)
		return gids, nil
	}
	nic, err := mlx5.OpenFile(file, c)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, nic.Close()) })
	}
	return nic, err
}

func TestAddressChoice(t *testing.T) {
	entry := func(index int, addr string, kind verbs.GIDType) verbs.GIDEntry {
		return verbs.GIDEntry{Index: index, GID: gid(addr), Type: kind}
	}
	const v1, v2 = verbs.GIDTypeRoCEv1, verbs.GIDTypeRoCEv2
	table := []verbs.GIDEntry{
		entry(0, "fe80::1", v1), entry(1, "fe80::1", v2), entry(2, "2001:db8::1", v1), entry(3, "2001:db8::1", v2),
		entry(4, "10.0.0.1", v1), entry(9, "10.0.0.2", v2), entry(5, "10.0.0.1", v2),
	}
	index := func(i int) *int { return &i }
	for _, test := range []struct {
		name   string
		config mlx5.Config
		table  []verbs.GIDEntry
		want   int // slot, -1 for none
	}{
		{"IPv4 first, in the lowest slot", mlx5.Config{}, table, 5},
		{"then global IPv6", mlx5.Config{}, table[:4], 3},
		{"then link-local", mlx5.Config{}, table[:3], 1},
		{"never RoCE v1", mlx5.Config{}, table[:1], -1},
		{"by index", mlx5.Config{GIDIndex: index(3)}, table, 3},
		{"index of RoCE v1", mlx5.Config{GIDIndex: index(4)}, table, -1},
		{"index of an empty slot", mlx5.Config{GIDIndex: index(77)}, table, -1},
		{"by address", mlx5.Config{Addr: netip.MustParseAddr("10.0.0.2")}, table, 9},
		{"by IPv6 address", mlx5.Config{Addr: netip.MustParseAddr("fe80::1")}, table, 1},
		{"address of another port", mlx5.Config{Addr: netip.MustParseAddr("10.0.0.3")}, table, -1},
		{"slot that commands cannot name", mlx5.Config{}, []verbs.GIDEntry{entry(256, "10.0.0.1", v2), entry(255, "fe80::1", v2)}, 255},
		{"none", mlx5.Config{}, nil, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			nic, err := open(t, softnic.Config{}, test.config, test.table...)
			if test.want < 0 {
				require.ErrorIs(t, err, mlx5.ErrNoGID)
				return
			}
			require.NoError(t, err)
			a, err := nic.Address()
			require.NoError(t, err)
			require.Equal(t, test.want, a.GIDIndex)
			require.True(t, a.Global)
			require.Equal(t, verbs.LinkEthernet, a.LinkLayer)
		})
	}
}

// On InfiniBand the LID is the address, and a GID is taken if there is one.
func TestInfiniBandAddress(t *testing.T) {
	infiniBand := softnic.Config{LinkLayer: verbs.LinkInfiniBand}
	soft, file := mlx5test.Open(t, infiniBand)
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	a, err := nic.Address()
	require.NoError(t, err)
	require.Equal(t, mlx5.Address{LinkLayer: verbs.LinkInfiniBand, MTU: soft.MTU(), LID: soft.LID(), GID: soft.GID()}, a)
	require.NoError(t, nic.Close())

	infiniBand.OldKernel = true
	soft, file = mlx5test.Open(t, infiniBand)
	nic, err = mlx5.OpenFile(file, mlx5.Config{}) // nobody tells the GIDs
	require.NoError(t, err)
	a, err = nic.Address()
	require.NoError(t, err)
	require.Equal(t, soft.LID(), a.LID)
	require.True(t, a.GID.IsZero())
	require.NoError(t, nic.Close())

	_, err = open(t, infiniBand, mlx5.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.ErrorIs(t, err, mlx5.ErrNoGID, "an address that was asked for must be there")
}

// Addresses are asked for again after the port has changed, and only then.
func TestAddressAfterAChange(t *testing.T) {
	mlx5test.NeedSoft(t)
	soft, file := mlx5test.Open(t, softnic.Config{})
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, nic.Close()) }()
	first, err := nic.Address()
	require.NoError(t, err)
	query := mlx5test.Command{Write: uapi.CmdQueryPort}
	asked := len(file.Issued(query))

	again, err := nic.Address()
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, file.Issued(query), asked)

	file.Refuse(query, syscall.EPERM, 0)
	changed := make(chan mlx5.Event, 8)
	stop := nic.Events(func(e mlx5.Event) { changed <- e })
	soft.SetPort(false)
	require.Equal(t, mlx5.Event{Type: verbs.EventPortError, Port: 1}, <-changed)
	// The NIC's own subscription may run after this one.
	require.Eventually(t, func() bool { _, err = nic.Address(); return err != nil }, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, err, syscall.EPERM)
	_, err = nic.Address()
	require.ErrorIs(t, err, syscall.EPERM, "it is asked again until it answers")
	done, err := cq.New(nic, 8)
	require.NoError(t, err)
	_, err = qp.New(done, qp.Config{Sends: 1})
	require.ErrorIs(t, err, syscall.EPERM)
	require.NoError(t, done.Close())

	file.Refuse(query, 0, 0)
	again, err = nic.Address()
	require.NoError(t, err)
	require.Equal(t, first, again)
	port, err := nic.Port()
	require.NoError(t, err)
	require.Equal(t, verbs.PortDown, port.State)
	stop()
}

// Nobody gets an old address while somebody asks for the new one.
func TestAddressDuringAChange(t *testing.T) {
	mlx5test.NeedSoft(t)
	soft, file := mlx5test.Open(t, softnic.Config{OldKernel: true})
	table := func(addr string) []verbs.GIDEntry {
		return []verbs.GIDEntry{{GID: gid(addr), Type: verbs.GIDTypeRoCEv2}}
	}
	asked, release := make(chan bool), make(chan bool)
	gids := func(uint8) ([]verbs.GIDEntry, error) { return table("10.0.0.1"), nil }
	nic, err := mlx5.OpenFile(file, mlx5.Config{GIDs: func(port uint8) ([]verbs.GIDEntry, error) { return gids(port) }})
	require.NoError(t, err)
	defer func() { require.NoError(t, nic.Close()) }()
	gids = func(uint8) ([]verbs.GIDEntry, error) {
		asked <- true
		<-release
		return table("10.0.0.2"), nil
	}
	answers := make(chan verbs.GID, 2)
	ask := func() {
		for { // the event may come later
			a, err := nic.Address()
			if err != nil || a.GID == gid("10.0.0.2") {
				answers <- a.GID
				return
			}
		}
	}
	soft.SetPort(false)
	go ask()
	<-asked
	second := make(chan verbs.GID, 1)
	go func() { a, _ := nic.Address(); second <- a.GID }()
	select {
	case g := <-second:
		require.Equal(t, gid("10.0.0.2"), g)
	case <-time.After(20 * time.Millisecond): // it waits
	}
	close(release)
	require.Equal(t, gid("10.0.0.2"), <-answers)
	require.Equal(t, gid("10.0.0.2"), <-second)
}

func TestOpenFileFails(t *testing.T) {
	for name, test := range map[string]struct {
		config mlx5.Config
		refuse mlx5test.Command
	}{
		"device": {refuse: mlx5test.Command{Write: uapi.CmdQueryDevice}},
		"port":   {refuse: mlx5test.Command{Write: uapi.CmdQueryPort}},
		"GIDs":   {refuse: mlx5test.Command{Object: uapi.ObjectDevice, Method: uapi.MethodQueryGIDTable}},
	} {
		t.Run(name, func(t *testing.T) {
			soft, file := mlx5test.Open(t, softnic.Config{})
			file.Refuse(test.refuse, syscall.EACCES, 0)
			_, err := mlx5.OpenFile(file, test.config)
			require.ErrorIs(t, err, syscall.EACCES)
			if soft != nil {
				require.Zero(t, soft.Counters().Contexts)
			}
		})
	}
	_, file := mlx5test.Open(t, softnic.Config{})
	_, err := mlx5.OpenFile(file, mlx5.Config{Port: 2})
	require.ErrorIs(t, err, syscall.EINVAL, "there is one port")
}

func TestOpenUnknownDevice(t *testing.T) {
	_, err := mlx5.Open("no such device")
	require.ErrorIs(t, err, mlx5.ErrNoDevice)
}

func TestLimits(t *testing.T) {
	_, file := mlx5test.Open(t, softnic.Config{Limits: softnic.Limits{CQEntries: 1 << 12, QPEntries: 1 << 11, ReadAtomics: 4}})
	nic, err := mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	l := nic.Limits()
	require.Equal(t, 1<<12, l.Completions)
	require.Equal(t, 1<<11, l.SendBlocks)
	require.Equal(t, 1<<11, l.Receives)
	require.Equal(t, 4, l.Reads)
	require.Equal(t, 4, l.PeerReads)
	require.EqualValues(t, 1<<30, l.Message)
	require.EqualValues(t, 1, nic.PortNumber())
	gids, err := nic.GIDs()
	require.NoError(t, err)
	require.NotEmpty(t, gids)
	require.NoError(t, nic.Close())

	_, file = mlx5test.Open(t, softnic.Config{Limits: softnic.Limits{ReadAtomics: 128}})
	nic, err = mlx5.OpenFile(file, mlx5.Config{})
	require.NoError(t, err)
	require.Equal(t, 16, nic.Limits().Reads, "no more than peers usually have")
	require.NoError(t, nic.Close())
}

// Close refuses while something is open, wants the order of the documentation,
// and leaves nothing behind in the NIC.
func TestCloseOrder(t *testing.T) {
	mlx5test.EachVariant(t, func(t *testing.T, c softnic.Config) {
		soft, file := mlx5test.Open(t, c)
		nic, err := mlx5.OpenFile(file, mlx5.Config{GIDs: mlx5test.GIDs(soft)})
		require.NoError(t, err)
		mr, err := region.Alloc(nic, region.Local, 4096)
		require.NoError(t, err)
		done, err := cq.New(nic, 64)
		require.NoError(t, err)
		pair, err := qp.New(done, qp.Config{Sends: 4, Receives: 4})
		require.NoError(t, err)
		for _, step := range []func() error{pair.Destroy, done.Close, mr.Close} {
			require.ErrorIs(t, nic.Close(), mlx5.ErrBusy)
			require.NoError(t, step())
		}
		require.NoError(t, nic.Close())
		require.NoError(t, nic.Close(), "again")
		if soft == nil {
			return
		}
		counters := soft.Counters()
		require.Zero(t, counters.Contexts+counters.UARs+counters.PDs+counters.MRs+counters.CQs+counters.QPs+counters.EventFiles)
		require.Zero(t, counters.PinnedBytes)
		require.Zero(t, counters.BadDoorbells+counters.StaleArms)
	})
}

// A queue pair's events name it.
func TestQueuePairEvents(t *testing.T) {
	network := softnic.NewNetwork()
	a, b := mlx5test.NewHost(t, softnic.Config{Network: network}), mlx5test.NewHost(t, softnic.Config{Network: network})
	pa, pb := a.Pair(qp.Config{Sends: 4}), b.Pair(qp.Config{Sends: 4})
	require.NoError(t, pa.Connect(region.Local, pb.Endpoint()))
	require.NoError(t, pb.Connect(region.RemoteReadWrite, pa.Endpoint()))
	events := make(chan mlx5.Event, 16)
	defer b.NIC.Events(func(e mlx5.Event) { events <- e })()
	require.NoError(t, pa.Post(qp.Entry{Op: qp.Write, Local: a.MR.Local(0, 8), Remote: region.Target{RKey: 1}}))
	pa.Ring()
	require.Error(t, a.Poll(1)[0].Err())
	require.Equal(t, mlx5.Event{Type: verbs.EventQPAccessError, QPN: pb.Number()}, <-events)
}
