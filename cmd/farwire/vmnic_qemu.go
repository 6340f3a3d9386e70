package main

import (
	"bytes"
	"context"
	"os/exec"
	"time"
)

const qemuProgram = "qemu-system-x86_64"

// qemuNote is what the user must know of the QEMU of this machine: a line, or nothing. One
// that is elsewhere, or cannot be asked, is the user's own business.
func qemuNote(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	devices, err := exec.CommandContext(ctx, qemuProgram, "-device", "help").CombinedOutput()
	if err != nil || bytes.Contains(devices, []byte(`"vfio-user-pci"`)) {
		return ""
	}
	return "vm-nic: the " + qemuProgram + " here is too old, it has no vfio-user-pci: QEMU 10.1 or later is needed\n"
}
