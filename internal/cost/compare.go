package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/farwire/farwire/internal/interpose"
	"github.com/farwire/farwire/rdma/softnic"
)

// compare builds the C program, runs both and prints the table.
func compare(ctx context.Context, cc string, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := compile(ctx, cc, dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	results, err := runAll(ctx, map[string][]string{
		"libmlx5": {c}, "Go": {self, "go"},
	}, []string{self, "trace"})
	if err != nil {
		return err
	}
	return results.print(stdout)
}

// compile makes the C program, as a distribution would: with -O2.
func compile(ctx context.Context, cc, dir string) (path string, err error) {
	path = filepath.Join(dir, "cost")
	cmd := exec.CommandContext(ctx, cc, "-O2", "-Wall", "-Werror", "-o", path, source(), "-libverbs")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cc, err, said)
	}
	return path, nil
}

// source is the C program's file, which lies beside this one.
func source() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "libmlx5", "cost.c")
}

// runAll runs the programs in both modes on one NIC that moves nothing.
func runAll(ctx context.Context, programs map[string][]string, tracer []string) (results, error) {
	nic, err := softnic.New(&softnic.Config{
		Name: "mlx5_0", Link: softnic.LinkMemory, Network: softnic.NewNetwork(), RoCEv2Only: true, Null: true,
	})
	if err != nil {
		return nil, err
	}
	defer nic.Close()
	host, err := interpose.New([]*softnic.NIC{nic}, nil)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	r := results{}
	for who, program := range programs {
		for mode, args := range map[string][]string{
			"count": append(append([]string{}, tracer...), append(program, "count")...),
			"time":  append(program, "time"),
		} {
			var out bytes.Buffer
			p, err := host.Start(ctx, interpose.Command{Args: args, Stdout: &out, Stderr: os.Stderr})
			if err != nil {
				return nil, err
			}
			if err := p.Wait(); err != nil {
				return nil, err
			}
			if err := r.take(who, mode, out.String()); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}
