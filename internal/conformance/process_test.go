package conformance

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// process is the memory of a process with a driver.
type process struct {
	pid    int
	memory *os.File
	pages  map[uint32]int64  // offsets of mapped doorbell pages in the device's file, by number
	mapped map[uint32]uint64 // where they are, of those that were looked for
}

func newProcess(t *testing.T, pid int) *process {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return &process{pid, f, map[uint32]int64{}, map[uint32]uint64{}}
}

func (p *process) read(t *testing.T, addr uint64, n int) []byte {
	b := make([]byte, n)
	_, err := p.memory.ReadAt(b, int64(addr))
	require.NoError(t, err)
	return b
}

// settle corrects a doorbell of another process, which the NIC may have found while
// the entry behind it was still being copied; the next one of the register then seems to
// bring the rest. The process is waiting now, and the copy is whole: what lies behind the
// register is the ring's entry if it was copied. The script posts no two entries that
// only their first words tell apart. One of a control segment alone is too little to
// tell, and counts as not copied.
func (p *process) settle(t *testing.T, r *trace.Record, ring *sendRing) {
	if r.Offset == prm.ArmRegister {
		return
	}
	word, size := r.Bytes[:8:8], int(r.Bytes[7])*prm.Unit
	r.Bytes, r.BlueFlame = word, false
	if size == prm.Unit || size > halfRegister {
		return
	}
	behind := p.read(t, p.page(t, r.Number)+uint64(r.Offset), halfRegister)
	at := int(indexOf(r.Bytes)) * prm.Block % len(ring.bytes)
	entry := p.read(t, ring.start, len(ring.bytes))
	entry = append(entry[at:], entry[:at]...)[:size]
	if r.BlueFlame = bytes.Equal(entry[8:], behind[8:size]); r.BlueFlame {
		r.Bytes = append(word, behind[8:]...)
	}
}

// halfRegister is how many bytes a doorbell register takes at once: half of the 512
// that the NIC reports.
const halfRegister = 256

// page is where the process has mapped the doorbell page of a number.
func (p *process) page(t *testing.T, number uint32) uint64 {
	if p.mapped[number] == 0 {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
		require.NoError(t, err)
		for line := range strings.Lines(string(maps)) {
			var start, end uint64
			var rights string
			var offset int64
			if strings.Contains(line, "/memfd:farwire-uverbs-") {
				_, err := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &rights, &offset)
				require.NoError(t, err)
				if offset == p.pages[number] {
					p.mapped[number] = start
				}
			}
		}
	}
	require.NotZero(t, p.mapped[number], "page %d", number)
	return p.mapped[number]
}
