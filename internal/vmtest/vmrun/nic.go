package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/farwire/farwire/internal/vmtest"
)

// port says what the machine has beside its kernel.
func (o *options) port() string {
	switch o.nic {
	case "ib":
		return ", mlx5 on InfiniBand"
	case "eth":
		return ", mlx5 on Ethernet"
	}
	return ""
}

// nic is a software ConnectX for the machines: farwire vm-nic, in a process of its own.
type nic struct {
	cmd  *exec.Cmd
	said *os.File
}

// startNIC builds the tool and starts it, and has the machines use it. What it says on
// standard error is kept in a file in temp.
func (o *options) startNIC(ctx context.Context, temp string) (*nic, error) {
	cache, err := vmtest.CacheDir()
	if err != nil {
		return nil, err
	}
	if o.config.QEMU == "" {
		if o.config.QEMU, err = vmtest.FetchQEMU(ctx, cache); err != nil {
			return nil, err
		}
	}
	tool, socket := filepath.Join(temp, "farwire"), filepath.Join(temp, "nic.sock")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", tool, "./cmd/farwire").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build farwire: %w\n%s", err, out)
	}
	n := &nic{}
	if n.said, err = os.Create(filepath.Join(temp, "nic.log")); err != nil {
		return nil, err
	}
	n.cmd = exec.Command(tool, "vm-nic", "-socket", socket, "-link", o.nic, "-v")
	n.cmd.Stderr = n.said
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // that it waits
		n.stop()
		return nil, fmt.Errorf("farwire vm-nic ended: %s", n.log())
	}
	o.config.Devices = []string{socket}
	return n, nil
}

// log is what the NIC said.
func (n *nic) log() []byte {
	b, err := os.ReadFile(n.said.Name())
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(b)
}

func (n *nic) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	_ = n.cmd.Wait()
	_ = n.said.Close()
}
