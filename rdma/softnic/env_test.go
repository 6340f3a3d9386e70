package softnic

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

func TestParseConfig(t *testing.T) {
	cfg, err := ParseConfig("name=x, layer=ib,link=mem,addr=127.3.2.1,mtu=1024,uar=static,roce=v2,bf=off,cqe=0,kernel=old,null=on,pin=4096,trace=/tmp/x,pcap=/tmp/y,seed=7," +
		"loss=0.01,dup=0.02,reorder=0.03,corrupt=0.001,mark=0.1,rate=10e9,delay=1ms,jitter=2ms,late=0.5,lateby=3ms,withhold=0.25," +
		"portdown=1s,portup=2s,fatal=3s")
	require.NoError(t, err)
	require.Equal(t, &Config{
		Name: "x", LinkLayer: verbs.LinkInfiniBand, Link: LinkMemory, Addr: netip.MustParseAddr("127.3.2.1"),
		MTU: verbs.MTU1024, StaticUAR: true, RoCEv2Only: true, NoBlueFlame: true, OldCQE: true, OldKernel: true, Null: true,
		Limits: Limits{PinnedBytes: 4096}, TraceFile: "/tmp/x", PcapFile: "/tmp/y", Seed: 7,
		Faults: Faults{
			Loss: 0.01, Duplicate: 0.02, Reorder: 0.03, Corrupt: 0.001, Mark: 0.1, Rate: 10e9, Delay: time.Millisecond, Jitter: 2 * time.Millisecond,
			Late: 0.5, LateBy: 3 * time.Millisecond, Withhold: 0.25,
			PortDown: time.Second, PortUp: 2 * time.Second, Fatal: 3 * time.Second,
		},
	}, cfg)
	for _, empty := range []string{"", " ", ",,"} {
		cfg, err = ParseConfig(empty)
		require.NoError(t, err)
		require.Equal(t, &Config{}, cfg)
	}
}

func TestParseConfigErrors(t *testing.T) {
	for in, want := range map[string]string{
		"los=0.1":         "unknown key",
		"loss":            "not key=value",
		"loss=0.1,loss=0": "twice",
		"loss=2":          "outside 0 to 1",
		"loss=-1":         "outside 0 to 1",
		"loss=NaN":        "outside 0 to 1",
		"loss=x":          "invalid syntax",
		"rate=1":          "neither 0 nor a number from 1000",
		"delay=-1ms":      "negative",
		"delay=1":         "missing unit",
		"layer=token":     "none of",
		"mtu=1500":        "none of",
		"addr=host":       "unable to parse",
		"seed=-1":         "invalid syntax",
		"pin=0":           "less than 1",
		"pin=x":           "invalid syntax",
		"name=":           "empty name",
		"trace=":          "empty name",
		"pcap=":           "empty name",
	} {
		_, err := ParseConfig(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestConfigFromEnv(t *testing.T) {
	t.Setenv(EnvVar, "loss=0.5")
	cfg, err := ConfigFromEnv()
	require.NoError(t, err)
	require.Equal(t, 0.5, cfg.Faults.Loss)
	t.Setenv(EnvVar, "nonsense")
	_, err = ConfigFromEnv()
	require.ErrorContains(t, err, EnvVar)
}

// Every key is documented, and every documented key is one.
func TestKeysAreDocumented(t *testing.T) {
	source, err := os.ReadFile("env.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(source), "\nfunc ParseConfig")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z]+)=`).FindAllStringSubmatch(doc, -1) {
		documented[m[1]] = true
	}
	for key := range settings {
		require.True(t, documented[key], key)
		delete(documented, key)
	}
	require.Empty(t, documented)
}

func TestNewErrors(t *testing.T) {
	addr := netip.MustParseAddr("127.9.9.9")
	for name, cfg := range map[string]Config{
		"link layer":          {LinkLayer: 9},
		"link mode":           {Link: 9},
		"UDP on InfiniBand":   {LinkLayer: verbs.LinkInfiniBand, Link: LinkUDP},
		"address of a LID":    {LinkLayer: verbs.LinkInfiniBand, Addr: addr},
		"multicast":           {Addr: netip.MustParseAddr("224.0.0.1")},
		"link-local over UDP": {Addr: netip.MustParseAddr("fe80::1"), Link: LinkUDP},
		"unspecified":         {Addr: netip.MustParseAddr("0.0.0.0")},
		"zone":                {Addr: netip.MustParseAddr("fe80::1%lo")},
		"MTU":                 {MTU: 6, Link: LinkMemory},
		"limit":               {Limits: Limits{QPs: -1}},
		"limit not a power":   {Limits: Limits{CQEntries: 100}},
		"negative limit":      {Limits: Limits{PinnedBytes: -1}},
		"fault":               {Faults: Faults{Late: 2}},
		"negative duration":   {Faults: Faults{Fatal: -1}},
		"not our UDP address": {Link: LinkUDP, Addr: netip.MustParseAddr("192.0.2.1")},
	} {
		_, err := New(&cfg)
		require.Error(t, err, name)
		require.ErrorContains(t, err, "softnic: ", name)
	}
	network := NewNetwork()
	a := newTestNIC(t, Config{Network: network, Link: LinkMemory, Addr: addr})
	require.Equal(t, addr, a.Addr())
	_, err := New(&Config{Network: network, Link: LinkMemory, Addr: addr})
	require.ErrorContains(t, err, "in use")
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Close(), os.ErrClosed)
	newTestNIC(t, Config{Network: network, Link: LinkMemory, Addr: addr})
}

func TestDefaults(t *testing.T) {
	n, err := New(nil)
	require.NoError(t, err)
	defer n.Close()
	require.Contains(t, n.Name(), "softnic")
	require.Equal(t, verbs.LinkEthernet, n.LinkLayer())
	require.True(t, n.Addr().IsLoopback())
	require.Equal(t, n.Addr(), n.GID().Addr())
	require.Equal(t, verbs.MTU4096, n.MTU())
	require.Zero(t, n.LID())
}
