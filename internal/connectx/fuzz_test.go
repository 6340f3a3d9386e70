package connectx

import (
	"testing"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/internal/vfiouser"
)

// FuzzCommand has a device that has some objects execute what the fuzzer likes. It
// may refuse, but not fall over or reach beyond the guest's memory.
func FuzzCommand(f *testing.F) {
	for op, h := range handlers {
		f.Add(command(op, max(h.in, ifc.HeadSize)+64), uint16(h.out), uint64(0))
	}
	f.Fuzz(func(t *testing.T, in []byte, out uint16, doorbell uint64) {
		if len(in) < ifc.HeadSize {
			return
		}
		g := newGuest(t)
		pd, eq, _ := g.setUp()
		a := g.createPair(pd, eq)
		a.connect(a)
		output := make([]byte, max(int(out), ifc.HeadSize))
		g.d.mu.Lock()
		g.d.execute(append([]byte(nil), in...), output)
		g.d.mu.Unlock()
		g.d.Write(vfiouser.BAR0, uint64(g.page)*pageSize+doorbell%pageSize&^7, in[:8])
		g.d.Write(vfiouser.BAR0, uint64(g.page)*pageSize+doorbell%pageSize&^3, in[8:12])
	})
}

// FuzzSlot has a device take a command whose slot and mailboxes the fuzzer wrote.
func FuzzSlot(f *testing.F) {
	g := newGuest(f)
	slot := g.prepare(command(ifc.QueryCapabilities, 16), 600)
	f.Add(slot[:], g.mem.b[inBoxes:inBoxes+boxSize])
	f.Fuzz(func(t *testing.T, slot, box []byte) {
		g := newGuest(t)
		for _, at := range []uint64{inBoxes, outBoxes} {
			_ = g.mem.Write(at, box[:min(len(box), boxSize)])
		}
		_ = g.mem.Write(queueAddr, slot[:min(len(slot), slotSize)])
		g.write(regDoorbell, 1)
	})
}
