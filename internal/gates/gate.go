package main

import (
	"context"
	"time"
)

// layer is a link layer, as farwire run names it.
type layer string

const (
	roce layer = "roce"
	ib   layer = "ib"
)

// gate is something that must work on the NIC, on one link layer or on both.
type gate interface {
	// title is the gate's group and name.
	title() string
	layers() []layer
	// try returns what passed, in words, or an error.
	try(ctx context.Context, t *tool, l layer) (passed string, err error)
}

// result is how a gate went on one link layer.
type result struct {
	passed string
	took   time.Duration
	err    error
}

// try runs a gate.
func (t *tool) try(ctx context.Context, g gate, l layer) (r result) {
	start := time.Now()
	r.passed, r.err = g.try(ctx, t, l)
	r.took = time.Since(start)
	return r
}

// allGates lists the gates in the order they are run in.
func allGates(found versions) (gates []gate) {
	for _, list := range [][]programGate{deviceGates, pingpongGates, perftestGates} {
		for i := range list {
			gates = append(gates, &list[i])
		}
	}
	return append(gates, &pyverbsGate{version: found.upstream("python3-pyverbs")})
}
