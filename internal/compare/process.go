package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"
)

// profileEnv names the directory for profiles.
const profileEnv = "FARWIRE_COMPARE_PROFILE"

// play is the main function of a client or a server.
func play(args []string, stdin io.Reader, stdout io.Writer) (err error) {
	i := linkNamed(args[1])
	if i < 0 {
		return fmt.Errorf("unknown link %q", args[1])
	}
	l := &links[i]
	if dir := os.Getenv(profileEnv); dir != "" {
		f, err := os.Create(filepath.Join(dir, l.name+"."+args[0]+".pprof"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if args[0] == "server" {
		return l.server(stdin, stdout)
	}
	return l.client(args[2:], stdin, stdout)
}

// server serves clients until its input ends.
func (l *link) server(stdin io.Reader, stdout io.Writer) error {
	ln, err := l.listen()
	if err != nil {
		return err
	}
	s := newServer(ln)
	fmt.Fprintln(stdout, ln.Addr())
	_, _ = io.Copy(io.Discard, stdin)
	return errors.Join(ln.Close(), s.end())
}

// client does the jobs it reads and writes what they took. Without an address it is a
// server too.
func (l *link) client(address []string, stdin io.Reader, stdout io.Writer) (err error) {
	inside := len(address) == 0
	if inside {
		ln, err := l.listen()
		if err != nil {
			return err
		}
		s := newServer(ln)
		defer func() { err = errors.Join(err, ln.Close(), s.end()) }()
		address = []string{ln.Addr().String()}
	}
	c, err := newClient(func() (net.Conn, error) { return l.dial(address[0]) }, inside)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for {
		var j job
		if _, err := fmt.Fscanln(stdin, &j.kind, &j.workers, &j.flight, &j.back, &j.size, &j.count); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r, err := c.do(j)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, int64(r.wall), int64(r.cpu), int64(r.median), int64(r.slowest))
	}
}

// child is a process of this program, which ends when its input does.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(ctx context.Context, profile string, l *link, env []string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Env = append(append(os.Environ(), l.environment()...), profileEnv+"="+profile)
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

func (c *child) end() error {
	err := errors.Join(c.in.Close(), c.cmd.Wait())
	if err != nil {
		return fmt.Errorf("%v: %w", c.cmd.Args[1:], err)
	}
	return nil
}

// pair is the processes of a link.
type pair struct {
	*link
	server, client *child
}

func startPair(ctx context.Context, profile string, l *link, env ...string) (p *pair, err error) {
	p = &pair{link: l}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", l.name, err), p.end())
		}
	}()
	args := []string{"client", l.name}
	if !l.inside {
		if p.server, err = start(ctx, profile, l, env, "server", l.name); err != nil {
			return nil, err
		}
		address, err := p.server.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		args = append(args, strings.TrimSpace(address))
	}
	p.client, err = start(ctx, profile, l, env, args...)
	return p, err
}

func (p *pair) do(j job) (r result, err error) {
	fmt.Fprintln(p.client.in, j.kind, j.workers, j.flight, j.back, j.size, j.count)
	var wall, cpu, median, slowest int64
	if _, err := fmt.Fscanln(p.client.out, &wall, &cpu, &median, &slowest); err != nil {
		return r, fmt.Errorf("%s: no result: %w", p.name, err)
	}
	return result{time.Duration(wall), time.Duration(cpu), time.Duration(median), time.Duration(slowest)}, nil
}

func (p *pair) end() error {
	var errs []error
	for _, c := range []*child{p.client, p.server} {
		if c != nil {
			errs = append(errs, c.end())
		}
	}
	return errors.Join(errs...)
}
