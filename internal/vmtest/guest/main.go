//go:build linux

// Guest is the first process of a test's virtual machine: see package vmtest.
// It never returns; the host ends the machine once everything is reported.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/vmtest/plan"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is for process 1 of a virtual machine")
		os.Exit(2)
	}
	if err := guest(); err != nil {
		fmt.Println("guest:", err) // on the console: the host has its tail
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

func guest() error {
	if err := mountAll(); err != nil {
		return err
	}
	r, err := openReporter("/dev/ttyS1")
	if err != nil {
		return err
	}
	p, err := readPlan()
	if err == nil {
		err = prepare(p)
	}
	if err != nil {
		return r.send(plan.Report{Event: plan.Failed, Err: err.Error()})
	}
	if err := r.send(plan.Report{Event: plan.Up}); err != nil {
		return err
	}
	for i, j := range p.Jobs {
		if err := r.run(i, j); err != nil {
			return err
		}
	}
	return r.send(plan.Report{Event: plan.Done})
}

func readPlan() (p plan.Plan, err error) {
	b, err := os.ReadFile(plan.File)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}
