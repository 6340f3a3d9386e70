// Package slot takes the card of a test's virtual machine away while it is in use, and
// brings it back. It is for machines that may be changed: those of make vm-mlx5.
package slot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

// A Way is how a card goes, and comes back.
type Way struct {
	Name       string
	gone, back func(card) order
}

// Ways are all, from the least that goes to the most.
var Ways = []Way{
	{"RDMA driver", card.unbindRDMA, card.bindRDMA},
	{"driver", card.unbind, card.bind},
	{"card", card.remove, card.rescan},
}

// card is what sysfs calls a card and the part of it that the RDMA driver drives.
type card struct{ pci, rdma string }

// order is what a file of sysfs is told.
type order struct{ file, value string }

const bus = "/sys/bus/"

func (c card) unbindRDMA() order { return order{bus + "auxiliary/drivers/mlx5_ib.rdma/unbind", c.rdma} }
func (c card) bindRDMA() order   { return order{bus + "auxiliary/drivers/mlx5_ib.rdma/bind", c.rdma} }
func (c card) unbind() order     { return order{bus + "pci/drivers/mlx5_core/unbind", c.pci} }
func (c card) bind() order       { return order{bus + "pci/drivers/mlx5_core/bind", c.pci} }
func (c card) remove() order     { return order{bus + "pci/devices/" + c.pci + "/remove", "1"} }
func (c card) rescan() order     { return order{bus + "pci/rescan", "1"} }

// patience is what the kernel may take, on a busy machine.
const patience = 2 * time.Minute

// Take has the card of an RDMA device go, and returns when it has. It comes back, with its
// port up, once back is called, or at the test's end.
func (w Way) Take(t *testing.T, device string) (back func()) {
	t.Helper()
	c, err := find(device)
	if err != nil {
		t.Fatal(err)
	}
	give(t, w.gone(c))
	returned := false
	back = func() {
		t.Helper()
		if returned {
			return
		}
		returned = true
		give(t, w.back(c))
		if out, err := exec.Command("/bin/sh", "-eu", plan.SetupFile).CombinedOutput(); err != nil {
			t.Fatalf("%s is not as before: %v: %s", device, err, out)
		}
	}
	t.Cleanup(back)
	return back
}

func find(device string) (c card, err error) {
	path, err := filepath.EvalSymlinks("/sys/class/infiniband/" + device + "/device")
	if err != nil {
		return c, err
	}
	parts, err := filepath.Glob(path + "/mlx5_core.rdma.*")
	if err != nil {
		return c, err
	}
	if len(parts) != 1 {
		return c, fmt.Errorf("%s has not one part for RDMA: %q", path, parts)
	}
	return card{filepath.Base(path), filepath.Base(parts[0])}, nil
}

// give waits until the kernel has done as it is told.
func give(t *testing.T, o order) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(o.file, []byte(o.value), 0) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatalf("the kernel has not finished: echo %s > %s", o.value, o.file)
	}
}
