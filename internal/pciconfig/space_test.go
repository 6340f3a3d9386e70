package pciconfig

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func example() Function {
	f := Function{
		Vendor: 0x15b3, Device: 0x1017, SubsystemVendor: 0x15b3, SubsystemDevice: 1, Class: 0x020700,
		MSIX: MSIX{Vectors: 16, BAR: 2, Table: 0, Pending: 0x800},
	}
	f.BARs[0] = BAR{Size: 16 << 20, Prefetchable: true}
	f.BARs[2] = BAR{Size: 4096}
	return f
}

func word(t *testing.T, s *Space, off uint64) uint32 {
	t.Helper()
	var b [4]byte
	s.Read(off, b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func write(s *Space, off uint64, v uint32) {
	s.Write(off, binary.LittleEndian.AppendUint32(nil, v))
}

func TestIdentity(t *testing.T) {
	s, err := New(example())
	require.NoError(t, err)
	require.Equal(t, uint32(0x101715b3), word(t, s, 0))
	require.Equal(t, uint32(0x02070000), word(t, s, 8))
	write(s, 0, 0xffffffff)
	require.Equal(t, uint32(0x101715b3), word(t, s, 0))
}

// A system learns a register's size from the address bits that stay zero.
func TestBARsAreSized(t *testing.T) {
	s, err := New(example())
	require.NoError(t, err)
	for _, off := range []uint64{0x10, 0x14, 0x18, 0x1c, 0x20, 0x24} {
		write(s, off, 0xffffffff)
	}
	require.Equal(t, uint32(0xff00000c), word(t, s, 0x10))
	require.Equal(t, uint32(0xffffffff), word(t, s, 0x14))
	require.Equal(t, uint32(0xfffff004), word(t, s, 0x18))
	require.Zero(t, word(t, s, 0x20))
	s.Reset()
	require.Equal(t, uint32(0xc), word(t, s, 0x10))
}

func TestCapabilityChain(t *testing.T) {
	s, err := New(example())
	require.NoError(t, err)
	found := map[byte]uint64{}
	for at := uint64(word(t, s, 0x34) & 0xff); at != 0; at = uint64(word(t, s, at) >> 8 & 0xff) {
		found[byte(word(t, s, at))] = at
		require.LessOrEqual(t, len(found), 8)
	}
	require.Contains(t, found, byte(0x10))
	require.Contains(t, found, byte(0x11))
	msix := found[0x11]
	require.Equal(t, uint32(15), word(t, s, msix)>>16)
	require.Equal(t, uint32(2), word(t, s, msix+4))
	require.Equal(t, uint32(0x802), word(t, s, msix+8))
	write(s, msix, 0xffffffff)
	require.Equal(t, uint32(0xc00f), word(t, s, msix)>>16, "only enable and mask may change")
}

func TestMayMaster(t *testing.T) {
	s, err := New(example())
	require.NoError(t, err)
	require.False(t, s.MayMaster())
	write(s, 4, 1<<2)
	require.True(t, s.MayMaster())
	s.Write(5, []byte{0})
	require.True(t, s.MayMaster(), "the other half of the register")
	write(s, 4, 1<<1)
	require.False(t, s.MayMaster())
	write(s, 4, 1<<2)
	s.Reset()
	require.False(t, s.MayMaster())
}

func TestAccessOutsideTheSpace(t *testing.T) {
	s, err := New(example())
	require.NoError(t, err)
	p := []byte{1, 2, 3, 4}
	s.Read(Size-2, p)
	require.Equal(t, []byte{0, 0, 0, 0}, p)
	s.Write(Size-2, []byte{1, 2, 3, 4})
	s.Write(1<<64-2, []byte{1, 2, 3, 4})
	s.Read(1<<63, p)
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*Function){
		"size":             func(f *Function) { f.BARs[0].Size = 3 << 20 },
		"small":            func(f *Function) { f.BARs[0].Size = 8 },
		"last register":    func(f *Function) { f.BARs[5].Size = 4096 },
		"second half":      func(f *Function) { f.BARs[1].Size = 4096 },
		"no such BAR":      func(f *Function) { f.MSIX.BAR = 6 },
		"table outside":    func(f *Function) { f.MSIX.Table = 4096 },
		"pending outside":  func(f *Function) { f.MSIX.Pending = 4096 },
		"overlap":          func(f *Function) { f.MSIX.Pending = 0xf8 },
		"alignment":        func(f *Function) { f.MSIX.Table = 4 },
		"too many vectors": func(f *Function) { f.MSIX.Vectors = 2049 },
	} {
		f := example()
		change(&f)
		_, err := New(f)
		require.Error(t, err, name)
	}
}
