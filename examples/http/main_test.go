package main

import (
	"testing"

	"github.com/farwire/farwire/examples/internal/exampletest"
)

var program = exampletest.Program{
	Main:  main,
	Run:   run,
	Small: []string{"-t", "100ms", "-body", "8"},
	Wants: []string{"upload: 8 MiB", "download: 8 MiB", "agrees"},
}

func TestMain(m *testing.M)         { program.TestMain(m) }
func TestOneProcess(t *testing.T)   { program.OneProcess(t) }
func TestTwoProcesses(t *testing.T) { program.TwoProcesses(t) }
func TestUsage(t *testing.T)        { program.Usage(t) }
