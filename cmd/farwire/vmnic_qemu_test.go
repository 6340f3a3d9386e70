package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A QEMU that cannot connect is named at once; one that can, or that is not here, is not.
func TestQEMUNote(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"old":    {"echo 'name \"vfio-pci\", bus PCI'", "QEMU 10.1 or later"},
		"new":    {"echo 'name \"vfio-user-pci\", bus PCI'", ""},
		"broken": {"exit 1", ""},
		"none":   {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			if c.script != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, qemuProgram), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			}
			note := qemuNote(t.Context())
			if c.want == "" {
				require.Empty(t, note)
				return
			}
			require.Contains(t, note, c.want)
		})
	}
}
