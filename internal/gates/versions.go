package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// versions are the versions of the packages that the programs come from.
type versions map[string]string

// packages are those packages, of Debian and systems made from it.
var packages = []string{"libibverbs1", "ibverbs-providers", "ibverbs-utils", "perftest", "python3-pyverbs"}

func findVersions(ctx context.Context) (versions, error) {
	v := versions{}
	for _, p := range packages {
		out, err := exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat", "${Version}", p).Output()
		if err != nil || len(out) == 0 {
			return nil, fmt.Errorf("package %s is not there: apt-get install %s", p, strings.Join(packages, " "))
		}
		v[p] = string(out)
	}
	return v, nil
}

// upstream is the version of a package without what the distribution adds.
func (v versions) upstream(p string) string {
	upstream, _, _ := strings.Cut(v[p], "-")
	return upstream
}

func (v versions) String() string {
	var all []string
	for _, p := range packages {
		all = append(all, p+" "+v[p])
	}
	return strings.Join(all, ", ")
}
