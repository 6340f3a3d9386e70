package main

import (
	"testing"

	"github.com/farwire/farwire/examples/internal/exampletest"
)

var program = exampletest.Program{
	Main:  main,
	Run:   run,
	Small: []string{"-n", "8", "-bytes", "100000"},
	Wants: []string{"8 streams", "agrees"},
	Bad:   [][]string{{"-n", "0"}, {"-bytes", "-1"}},
}

func TestMain(m *testing.M)         { program.TestMain(m) }
func TestOneProcess(t *testing.T)   { program.OneProcess(t) }
func TestTwoProcesses(t *testing.T) { program.TwoProcesses(t) }
func TestKernel(t *testing.T)       { program.OnKernel(t) }
func TestUsage(t *testing.T)        { program.Usage(t) }
