package mlx5test

import (
	"testing"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// variants are the kinds of NIC, kernel and link that the driver has paths for.
var variants = map[string]softnic.Config{
	"dynamic pages":    {},
	"static pages":     {StaticUAR: true},
	"no BlueFlame":     {NoBlueFlame: true},
	"static, no BF":    {StaticUAR: true, NoBlueFlame: true},
	"CQE version 0":    {OldCQE: true},
	"old kernel":       {OldKernel: true},
	"InfiniBand":       {LinkLayer: verbs.LinkInfiniBand},
	"old InfiniBand":   {LinkLayer: verbs.LinkInfiniBand, OldKernel: true, OldCQE: true},
	"smallest path":    {MTU: verbs.MTU256},
	"impaired network": {Seed: 1, Faults: softnic.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02}},
}

// EachVariant runs f for each kind, or once on a kernel's device.
func EachVariant(t *testing.T, f func(t *testing.T, c softnic.Config)) {
	if OnKernel() {
		t.Run("kernel", func(t *testing.T) { f(t, softnic.Config{}) })
		return
	}
	for name, c := range variants {
		t.Run(name, func(t *testing.T) { f(t, c) })
	}
}
