package device

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic"
)

type silent struct{}

func (silent) Completed()  {}
func (silent) Failed(bool) {}

func openSoft(t *testing.T) (*softnic.NIC, *Device) {
	t.Helper()
	soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, soft.Close()) })
	file, err := soft.Open()
	require.NoError(t, err)
	d, err := Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return soft, d
}

func TestNoUserIndexLeft(t *testing.T) {
	soft, d := openSoft(t)
	d.users.next = prm.NoUserIndex
	_, err := d.CreateQP(QPRequest{})
	require.ErrorIs(t, err, errUsers)
	require.Zero(t, soft.Counters().QPs)
	require.Len(t, d.pages.free, prm.UserRegisters, "its register is free again")
}

// A doorbell page with a number of more than 16 bits reaches the kernel in the
// native command. The software NIC has no such page, and says so; with its own
// page the same command succeeds.
func TestWideDoorbellPage(t *testing.T) {
	soft, d := openSoft(t)
	mem, err := hostmem.Alloc(8 * prm.CQESize)
	require.NoError(t, err)
	defer func() { require.NoError(t, mem.Free()) }()
	record, err := d.NewRecord()
	require.NoError(t, err)

	id := d.pages.armID
	d.pages.armID = 1<<16 | id // the low bits are those of a good page
	_, err = d.CreateCQ(mem.Addr(), record.Addr, 8, silent{})
	require.ErrorIs(t, err, syscall.EINVAL)
	d.pages.armID = id

	q := CQ{id: d.AddCQ(silent{})}
	request := prm.CreateCQRequest{BufAddr: mem.Addr(), RecordAddr: record.Addr, EntrySize: prm.CQESize, Flags: prm.CQUARPageIndex}
	var response prm.CreateCQResponse
	require.NoError(t, d.createWideCQ(&q, 7, &request, &response))
	require.NotZero(t, response.CQN)
	require.Equal(t, 1, soft.Counters().CQs)
	require.NoError(t, d.DestroyCQ(q))
}
