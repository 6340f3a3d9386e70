package softnic

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
)

// EnvVar names the environment variable that configures the software NIC of a
// program: comma-separated key=value pairs, see ParseConfig.
const EnvVar = "FARWIRE_SOFTNIC"

// ConfigFromEnv is ParseConfig of the environment variable FARWIRE_SOFTNIC.
func ConfigFromEnv() (*Config, error) {
	cfg, err := ParseConfig(os.Getenv(EnvVar))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvVar, err)
	}
	return cfg, nil
}

// ParseConfig reads a configuration from comma-separated key=value pairs. The
// empty string is the default configuration. An unknown key, a key given twice
// or a value out of range is an error. The keys are:
//
//	name=NAME       device name
//	layer=eth|ib    link layer: Ethernet (RoCE v2) or InfiniBand
//	link=auto|mem|udp
//	                links: in memory and UDP if it can be had, in memory alone,
//	                or in memory and UDP for certain
//	shm=on|off      shared memory, where it can be had, in place of UDP: see
//	                Config.NoSharedMemory
//	addr=IP         address of the port
//	mtu=N           active MTU: 256, 512, 1024, 2048 or 4096
//	uar=dynamic|static
//	                how doorbell pages are handed out
//	roce=both|v2    versions of RoCE in the GID table
//	bf=on|off       BlueFlame (write combining) offered
//	cqe=0|1         version of completion queue entries offered
//	kernel=new|old  kernel interface: current, or that of 5.4
//	null=on|off     entries complete at once, and nothing is moved
//	packets=on|off  every message travels as packets, also inside the process
//	pin=BYTES       memory one open file may pin
//	trace=FILE      a file, without commas in its name, to whose end a trace is
//	                written: see Config.TraceFile
//	pcap=FILE       a file, without commas in its name, that packets are captured
//	                in: see Config.PcapFile
//	seed=N          seed of the faults
//	loss=P          probability that a packet is lost, 0 to 1
//	dup=P           probability that a packet arrives twice
//	reorder=P       probability that a packet is overtaken
//	corrupt=P       probability that a bit of a packet is flipped
//	mark=P          probability that a packet is marked as by a congested switch
//	rate=N          bits that pass in a second, such as 10e9; packets wait for those
//	                before them
//	delay=D         time added to every packet's way, such as 1ms
//	jitter=D        up to this much more, at random
//	late=P          probability that a completion comes late
//	lateby=D        how late, 1ms if not given
//	withhold=P      probability that a completion queue falls silent
//	portdown=D      the port goes down this long after the start
//	portup=D        the port comes back this long after the start
//	fatal=D         the device fails this long after the start
func ParseConfig(s string) (*Config, error) {
	cfg := &Config{}
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(s, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not key=value", pair)
		}
		set, ok := settings[key]
		if !ok {
			return nil, fmt.Errorf("unknown key %q", key)
		}
		if seen[key] {
			return nil, fmt.Errorf("key %q given twice", key)
		}
		seen[key] = true
		if err := set(cfg, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := cfg.Faults.check(); err != nil {
		return nil, err
	}
	return cfg, nil
}

type setting func(c *Config, v string) error

var settings = map[string]setting{
	"name": text(func(c *Config) *string { return &c.Name }),
	"layer": oneOf([]string{"eth", "ib"}, func(c *Config, i int) {
		c.LinkLayer = []verbs.LinkLayer{verbs.LinkEthernet, verbs.LinkInfiniBand}[i]
	}),
	"link": oneOf([]string{"auto", "mem", "udp"}, func(c *Config, i int) { c.Link = LinkMode(i) }),
	"shm":  oneOf([]string{"on", "off"}, func(c *Config, i int) { c.NoSharedMemory = i == 1 }),
	"addr": func(c *Config, v string) (err error) {
		c.Addr, err = netip.ParseAddr(v)
		return err
	},
	"mtu": oneOf([]string{"256", "512", "1024", "2048", "4096"}, func(c *Config, i int) {
		c.MTU = verbs.MTU(i + 1)
	}),
	"uar":     oneOf([]string{"dynamic", "static"}, func(c *Config, i int) { c.StaticUAR = i == 1 }),
	"roce":    oneOf([]string{"both", "v2"}, func(c *Config, i int) { c.RoCEv2Only = i == 1 }),
	"bf":      oneOf([]string{"on", "off"}, func(c *Config, i int) { c.NoBlueFlame = i == 1 }),
	"cqe":     oneOf([]string{"0", "1"}, func(c *Config, i int) { c.OldCQE = i == 0 }),
	"kernel":  oneOf([]string{"new", "old"}, func(c *Config, i int) { c.OldKernel = i == 1 }),
	"null":    oneOf([]string{"off", "on"}, func(c *Config, i int) { c.Null = i == 1 }),
	"packets": oneOf([]string{"off", "on"}, func(c *Config, i int) { c.Packets = i == 1 }),
	"pin": func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return err
		}
		if n < 1 {
			return fmt.Errorf("%d is less than 1", n)
		}
		c.Limits.PinnedBytes = n
		return nil
	},
	"trace": text(func(c *Config) *string { return &c.TraceFile }),
	"pcap":  text(func(c *Config) *string { return &c.PcapFile }),
	"seed": func(c *Config, v string) (err error) {
		c.Seed, err = strconv.ParseUint(v, 10, 64)
		return err
	},
	"loss":     number(func(f *Faults) *float64 { return &f.Loss }),
	"dup":      number(func(f *Faults) *float64 { return &f.Duplicate }),
	"reorder":  number(func(f *Faults) *float64 { return &f.Reorder }),
	"corrupt":  number(func(f *Faults) *float64 { return &f.Corrupt }),
	"mark":     number(func(f *Faults) *float64 { return &f.Mark }),
	"late":     number(func(f *Faults) *float64 { return &f.Late }),
	"withhold": number(func(f *Faults) *float64 { return &f.Withhold }),
	"rate":     number(func(f *Faults) *float64 { return &f.Rate }),
	"delay":    duration(func(f *Faults) *time.Duration { return &f.Delay }),
	"jitter":   duration(func(f *Faults) *time.Duration { return &f.Jitter }),
	"lateby":   duration(func(f *Faults) *time.Duration { return &f.LateBy }),
	"portdown": duration(func(f *Faults) *time.Duration { return &f.PortDown }),
	"portup":   duration(func(f *Faults) *time.Duration { return &f.PortUp }),
	"fatal":    duration(func(f *Faults) *time.Duration { return &f.Fatal }),
}

func oneOf(words []string, set func(*Config, int)) setting {
	return func(c *Config, v string) error {
		i := slices.Index(words, v)
		if i < 0 {
			return fmt.Errorf("%q is none of %s", v, strings.Join(words, ", "))
		}
		set(c, i)
		return nil
	}
}

func text(field func(*Config) *string) setting {
	return func(c *Config, v string) error {
		if v == "" {
			return fmt.Errorf("empty name")
		}
		*field(c) = v
		return nil
	}
}

func number(field func(*Faults) *float64) setting {
	return func(c *Config, v string) (err error) {
		*field(&c.Faults), err = strconv.ParseFloat(v, 64)
		return err
	}
}

func duration(field func(*Faults) *time.Duration) setting {
	return func(c *Config, v string) (err error) {
		*field(&c.Faults), err = time.ParseDuration(v)
		return err
	}
}
