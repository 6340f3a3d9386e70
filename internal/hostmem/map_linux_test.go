package hostmem

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMappedAsksTheKernel(t *testing.T) {
	page := uint64(PageSize())
	for _, hole := range []uint64{0, 1, 255, 256, 299} { // around the pages one question is about
		pages := uint64(300)
		addr, err := unix.MmapPtr(-1, 0, nil, uintptr(pages*page), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		base := uint64(uintptr(addr))
		require.True(t, Mapped(base, pages*page))
		holeAddr := View(base+hole*page, int(page))
		require.NoError(t, unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(holeAddr)), uintptr(page)))
		require.False(t, Mapped(base, pages*page), hole)
		require.False(t, Mapped(base+hole*page, 1), hole)
		require.False(t, Mapped(base+hole*page+page-1, 1), hole)
		if hole > 0 {
			require.True(t, Mapped(base, hole*page), hole)
			require.False(t, Mapped(base, hole*page+1), hole)
			require.NoError(t, unix.MunmapPtr(addr, uintptr(hole*page)))
		}
		if rest := pages - hole - 1; rest > 0 {
			require.True(t, Mapped(base+(hole+1)*page, rest*page), hole)
			require.NoError(t, unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(View(base+(hole+1)*page, 1))), uintptr(rest*page)))
		}
	}
}

func TestFreeUnmaps(t *testing.T) {
	m, err := Alloc(1)
	require.NoError(t, err)
	addr := m.Addr()
	require.True(t, Mapped(addr, 1))
	require.NoError(t, m.Free())
	require.False(t, Mapped(addr, 1))
}

// TestChildrenGetNoCopy reads the kernel's flags of the mapping: "dc" is
// do-not-copy on fork.
func TestChildrenGetNoCopy(t *testing.T) {
	m, err := Alloc(1)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Free()) }()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	found := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		var low, high uint64
		if n, _ := fmt.Sscanf(line, "%x-%x", &low, &high); n == 2 {
			found = low <= m.Addr() && m.Addr() < high
		}
		if found && strings.HasPrefix(line, "VmFlags:") {
			require.Contains(t, strings.Fields(line), "dc")
			return
		}
	}
	t.Skip("the kernel does not tell the flags of mappings")
}

func TestFreeKeepsWhatItCannotUnmap(t *testing.T) {
	m, err := Alloc(1)
	require.NoError(t, err)
	mapping := m.mapping.Load()
	mappings, _ := Live()

	broken := (*mapping)[:PageSize()-1] // not a mapping that Mmap gave
	m.mapping.Store(&broken)
	require.ErrorIs(t, m.Free(), unix.EINVAL)
	stillMappings, _ := Live()
	require.Equal(t, mappings, stillMappings)
	require.ErrorIs(t, m.Free(), unix.EINVAL, "and says so again")

	m.mapping.Store(mapping)
	require.NoError(t, m.Free())
}
