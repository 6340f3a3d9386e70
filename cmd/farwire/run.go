package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/farwire/farwire/internal/interpose"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/softnic/trace"
	"github.com/farwire/farwire/rdma/verbs"
)

// settings are the flags of farwire run and farwire vm-nic.
type settings struct {
	command  string // of the two; errors begin with it
	adapters int
	link     string
	nic      string
	impair   string
	trace    string
	counters string
	network  string // to offer
	join     string // to join
	verbose  bool

	ended <-chan struct{} // closed when a network that was joined is gone; set by withNICs

	unaddressed bool // the port has the addresses that a guest's kernel gives it
}

const runUsage = `usage: farwire run [flags] -- program args [::: program args ...]

Runs programs that use RDMA, unmodified, on software ConnectX NICs: no hardware,
no kernel module, no root. Several programs share the NICs and one network; each
starts when the one before it listens for connections, has ended, or has had
a second for it.

	farwire run -- ibv_devinfo -v
	farwire run -- ibv_rc_pingpong -g 0 ::: ibv_rc_pingpong -g 0 localhost

The NICs of one run reach each other. A second run of the same user can join the
network of the first, in another terminal, for as long as the first runs:

	farwire run -- ibv_rc_pingpong -g 0
	farwire run -join -- ibv_rc_pingpong -g 0 localhost

With -nic link=udp the NICs of a run also reach those of others, here and on other
machines, by UDP. With -nic pcap=FILE every packet is written to a file that
Wireshark opens.

`

func parseSettings(args []string, stdout io.Writer) (s settings, programs [][]string, err error) {
	s.command = "run"
	flags := flag.NewFlagSet("farwire run", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.Usage = func() {
		fmt.Fprint(stdout, runUsage)
		flags.PrintDefaults()
	}
	flags.IntVar(&s.adapters, "n", 1, "`number` of NICs, mlx5_0 and on")
	flags.StringVar(&s.link, "link", "roce", "link `layer` of the NICs: roce or ib")
	flags.StringVar(&s.nic, "nic", "", "`settings` of the NICs, key=value,..., as FARWIRE_SOFTNIC takes them")
	flags.StringVar(&s.impair, "impair", "", "`faults`, key=value,..., such as loss=0.01,seed=7")
	flags.StringVar(&s.trace, "trace", "", "write what the programs and the NICs tell each other, a line for each thing, to a `file`; - is standard error")
	flags.StringVar(&s.counters, "counters", "", "write what the NICs counted to a `file` at the end, as JSON")
	s.networkFlags(flags)
	flags.BoolVar(&s.verbose, "v", false, "tell on standard error what the NICs refuse, and why")
	if err := flags.Parse(args); err != nil {
		return s, nil, err
	}
	if s.network != "" && s.join != "" {
		return s, nil, errors.New("run: -network and -join: a network is offered or joined")
	}
	programs = split(flags.Args())
	for _, p := range programs {
		if len(p) == 0 {
			return s, nil, errors.New("run: a program is missing")
		}
	}
	return s, programs, nil
}

// split cuts arguments at the separators.
func split(args []string) [][]string {
	const separator = ":::"
	programs := [][]string{nil}
	for _, a := range args {
		if a == separator {
			programs = append(programs, nil)
			continue
		}
		last := len(programs) - 1
		programs[last] = append(programs[last], a)
	}
	return programs
}

// config is that of every NIC, but for the name and the network.
func (s *settings) config(log *slog.Logger) (*softnic.Config, error) {
	text := s.nic
	if s.impair != "" {
		text += "," + s.impair
	}
	cfg, err := softnic.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.command, err)
	}
	switch s.link {
	case "roce", "rdma":
	case "ib":
		cfg.LinkLayer = verbs.LinkInfiniBand
	default:
		return nil, fmt.Errorf("%s: link layer %q is neither roce nor ib", s.command, s.link)
	}
	if cfg.Name != "" {
		return nil, fmt.Errorf("%s: NIC name %q: they are mlx5_0 and on", s.command, cfg.Name)
	}
	if cfg.Link == softnic.LinkAuto {
		cfg.Link = softnic.LinkMemory
	}
	cfg.RoCEv2Only, cfg.Unaddressed = true, s.unaddressed
	cfg.Logger = log
	return cfg, nil
}

// runPrograms is the command run.
func runPrograms(ctx context.Context, args []string, stdout io.Writer) error {
	s, programs, err := parseSettings(args, stdout)
	if err != nil {
		return err
	}
	return s.withNICs(s.adapters, func(nics []*softnic.NIC, log *slog.Logger) (err error) {
		if s.counters != "" {
			defer func() { err = errors.Join(err, writeCounters(s.counters, nics)) }()
		}
		host, err := interpose.New(nics, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, host.Close()) }()
		return runOn(ctx, host, programs, stdout)
	})
}

// withNICs calls use with NICs on one network, all as the settings say, and closes
// them. An error of use that may come from the end of the network says so.
func (s *settings) withNICs(count int, use func(nics []*softnic.NIC, log *slog.Logger) error) (err error) {
	log := slog.New(slog.DiscardHandler)
	if s.verbose {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	cfg, err := s.config(log)
	if err != nil {
		return err
	}
	end, err := s.startTrace(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	leave, err := s.startNetwork(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	nics, err := plugIn(cfg, count)
	if err != nil {
		return err
	}
	defer func() {
		for _, n := range nics {
			err = errors.Join(err, n.Close())
		}
	}()
	s.ended = cfg.Network.Done()
	if err = use(nics, log); err != nil && hasEnded(cfg.Network) && !errors.Is(err, errEnded) {
		err = errors.Join(err, fmt.Errorf("%s: %w", s.command, errEnded))
	}
	return err
}

// startTrace has the NICs of a configuration traced, if that was asked for. The function
// returned writes what is left, once the NICs are closed.
func (s *settings) startTrace(cfg *softnic.Config) (end func() error, err error) {
	switch s.trace {
	case "":
		return func() error { return nil }, nil
	case "-":
		log := trace.NewLog(os.Stderr)
		cfg.Trace = log.Trace
		return log.Close, nil
	}
	f, err := os.Create(s.trace)
	if err != nil {
		return nil, fmt.Errorf("%s: trace: %w", s.command, err)
	}
	log := trace.NewLog(f)
	cfg.Trace = log.Trace
	return func() error { return errors.Join(log.Close(), f.Close()) }, nil
}

// plugIn makes NICs on one network.
func plugIn(cfg *softnic.Config, count int) (nics []*softnic.NIC, err error) {
	for i := range count {
		c := *cfg
		c.Name = fmt.Sprintf("mlx5_%d", i)
		n, err := softnic.New(&c)
		if err != nil {
			for _, n := range nics {
				err = errors.Join(err, n.Close())
			}
			return nil, err
		}
		nics = append(nics, n)
	}
	return nics, nil
}

// patience is how long a program may take to listen before the next is started
// all the same.
const patience = time.Second

// runOn starts the programs, one after the other, and waits for all. The first has
// the standard input.
func runOn(ctx context.Context, host *interpose.Host, programs [][]string, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs []error
	var started []*interpose.Process
	for i, args := range programs {
		c := interpose.Command{Args: args, Stdout: stdout, Stderr: os.Stderr}
		if i == 0 {
			c.Stdin = os.Stdin
		} else {
			awaitListening(ctx, started[i-1])
		}
		p, err := host.Start(ctx, c)
		if err != nil {
			errs = append(errs, err)
			cancel()
			break
		}
		started = append(started, p)
	}
	for _, p := range started {
		errs = append(errs, p.Wait())
	}
	return errors.Join(errs...)
}

func awaitListening(ctx context.Context, p *interpose.Process) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.Listening():
	case <-t.C:
	case <-ctx.Done():
	}
}
