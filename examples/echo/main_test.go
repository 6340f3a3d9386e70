package main

import (
	"testing"

	"github.com/farwire/farwire/examples/internal/exampletest"
)

var program = exampletest.Program{
	Main:  main,
	Run:   run,
	Small: []string{"-n", "50"},
	Wants: []string{"p99.9", "65536"},
	Bad:   [][]string{{"-n", "0"}, {"-n", "-1"}},
}

func TestMain(m *testing.M)         { program.TestMain(m) }
func TestOneProcess(t *testing.T)   { program.OneProcess(t) }
func TestTwoProcesses(t *testing.T) { program.TwoProcesses(t) }
func TestKernel(t *testing.T)       { program.OnKernel(t) }
func TestUsage(t *testing.T)        { program.Usage(t) }
