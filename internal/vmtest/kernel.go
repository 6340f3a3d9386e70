package vmtest

import (
	"fmt"
	"strings"
)

// A Kernel is a Linux kernel that tests run on: the newest of a Debian suite.
type Kernel struct {
	Name  string // what the command line and tests call it: "6.1"
	Suite string // "bookworm"
}

// Kernels are the kernels of the project's tests, oldest first.
var Kernels = []Kernel{
	{"6.1", "bookworm"},
	{"6.12", "bookworm-backports"},
	{"7", "trixie-backports"},
}

// FindKernels is the kernels with the given names, separated by commas; "all"
// is every one, "newest" the last.
func FindKernels(names string) ([]Kernel, error) {
	if names == "all" {
		return Kernels, nil
	}
	var found []Kernel
	for name := range strings.SplitSeq(names, ",") {
		k, err := findKernel(name)
		if err != nil {
			return nil, err
		}
		found = append(found, k)
	}
	return found, nil
}

func findKernel(name string) (Kernel, error) {
	if name == "newest" {
		return Kernels[len(Kernels)-1], nil
	}
	var known []string
	for _, k := range Kernels {
		if k.Name == name {
			return k, nil
		}
		known = append(known, k.Name)
	}
	return Kernel{}, fmt.Errorf("find kernel %q: there are %s, newest and all", name, strings.Join(known, ", "))
}
