package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/farwire/farwire/rdma/softnic"
)

// programGate runs a program, or a server and its client.
type programGate struct {
	group, name string
	on          []layer // nil: both link layers
	flags       string  // of farwire run, but for the link layer
	env         string  // one variable of the programs, or none
	program     string  // and its arguments, which must have no spaces
	client      string  // "": one program; else what the client has behind the server's arguments
	checks      []check // what must be true afterwards
}

// sameAsServer is the client of a pair whose arguments are the server's.
const sameAsServer = " "

func (g *programGate) title() string { return g.group + " " + g.name }

func (g *programGate) layers() []layer {
	if g.on == nil {
		return []layer{roce, ib}
	}
	return g.on
}

// ran is what is known of programs that ended well.
type ran struct {
	layer    layer
	said     string
	counters map[string]softnic.Counters // by NIC
}

// check looks at one thing; its error says what is wrong.
type check func(*ran) error

func (g *programGate) try(ctx context.Context, t *tool, l layer) (string, error) {
	args, err := g.arguments(l)
	if err != nil {
		return "", err
	}
	r, err := t.run(ctx, l, "", g.env, args)
	if err != nil {
		return "", err
	}
	for _, c := range slices.Concat(g.checks, []check{strict, clean}) {
		if err := c(r); err != nil {
			return "", fmt.Errorf("%w\n%s", err, lastLines(r.said))
		}
	}
	return "pass", nil
}

// arguments are those of farwire run behind the link layer.
func (g *programGate) arguments(l layer) ([]string, error) {
	program := strings.Fields(g.program)
	if _, err := exec.LookPath(program[0]); err != nil {
		return nil, err
	}
	args := append(strings.Fields(g.flags), "--")
	if g.client == "" {
		return append(args, program...), nil
	}
	if l == roce && strings.HasPrefix(program[0], "ibv_") && !slices.Contains(program, "-g") {
		program = append(program, "-g", "0")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	program = append(program, "-p", port)
	args = append(append(args, program...), ":::")
	args = append(append(args, program...), strings.Fields(g.client)...)
	return append(args, "127.0.0.1"), nil
}

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, err
}

// limit is how long one run may take on a busy machine.
const limit = 3 * time.Minute

// run runs the tool in a folder and reads what the NICs have counted.
func (t *tool) run(ctx context.Context, l layer, dir, env string, args []string) (*ran, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	file := filepath.Join(t.dir, "counters.json")
	args = append([]string{"run", "-link", string(l), "-counters", file}, args...)
	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Dir = dir
	// Programs that are asked to end may hold on to the output.
	cmd.WaitDelay = time.Second
	if env != "" {
		cmd.Env = append(os.Environ(), env)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	r := &ran{layer: l, said: said.String()}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return r, fmt.Errorf("farwire %s: %w\n%s", strings.Join(args, " "), err, lastLines(r.said))
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r.counters)
}

// lastLines is the end of what programs said, where the reason is.
func lastLines(s string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
