package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKernelDevices lists a real kernel's Soft-RoCE device: make vm.
func TestKernelDevices(t *testing.T) {
	name := os.Getenv(rxeEnv)
	if name == "" {
		t.Skip(rxeEnv + " is not set")
	}
	got := systemLister().output(t)
	require.Regexp(t, `(?s)(^|\n)`+name+`\n`+
		`  driver +rxe\n.*`+
		`  node GUID +[0-9a-f:]{19}\n`+
		`  on +d0\n`+
		`  node +/dev/infiniband/uverbs\d+\n`+
		`  port 1 +ACTIVE, Ethernet, 2\.5 Gb/sec \(1X SDR\), MTU 1024\n`+
		`    GID 0 +RoCE v2  fe80::[0-9a-f:]+ on d0\n`+
		`    GID 1 +RoCE v2  10\.9\.0\.1 on d0\n`, got)
	require.NotContains(t, got, "error")
	require.Contains(t, systemLister().output(t, "-to", "10.9.0.9"), "to 10.9.0.9, from 10.9.0.1\n")
}
