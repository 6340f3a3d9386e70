package softnic_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic"
)

func openFunction(t *testing.T, soft *softnic.NIC) *softnic.Function {
	f, err := soft.OpenFunction(func(softnic.FunctionEvent) {})
	require.NoError(t, err)
	return f
}

// Doorbells of a function whose NIC has failed, or that was closed, do nothing.
func TestFunctionRungWhenGone(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	f, closed := openFunction(t, soft), openFunction(t, soft)
	page, err := f.AllocPage()
	require.NoError(t, err)
	store := make([]byte, 8)
	f.Ring(page, prm.SendRegister, store)

	other, err := closed.AllocPage()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	closed.Ring(other, prm.SendRegister, store)

	soft.Fail()
	f.Ring(page, prm.SendRegister, store)
	require.ErrorIs(t, f.DeallocPage(page), syscall.EIO)
	require.NoError(t, f.Close())
}

// A number that goes round is not given to two protection domains.
func TestProtectionDomainNumbers(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	f := openFunction(t, soft)
	soft.StartPDs(prm.MaxNumber)
	last, err := f.AllocPD()
	require.NoError(t, err)
	first, err := f.AllocPD()
	require.NoError(t, err)
	require.Less(t, first, last, "it has gone round")
	soft.StartPDs(last)
	third, err := f.AllocPD()
	require.NoError(t, err)
	require.NotContains(t, []uint32{first, last}, third)
	for _, pd := range []uint32{first, last, third} {
		require.NoError(t, f.DeallocPD(pd))
	}
	soft.StartPDs(first)
	again, err := f.AllocPD()
	require.NoError(t, err)
	require.Equal(t, first, again, "one that is gone is free")
	require.NoError(t, f.Close())
}

func TestPortUp(t *testing.T) {
	soft := newNIC(t, memoryOnly(softnic.Config{}))
	require.True(t, soft.PortUp())
	soft.SetPort(false)
	require.False(t, soft.PortUp())
	soft.SetPort(true)
	soft.Fail()
	require.False(t, soft.PortUp())
}
