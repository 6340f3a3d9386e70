package rdma

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"
)

// lowerEnv is set in a process that runs TestLayersConformance for itself: it names what is
// below the layers.
const lowerEnv = "FARWIRE_TEST_LOWER"

// upper makes a connection of a layer over both ends of one below it.
type upper func(t testing.TB, a, b net.Conn) (c, s net.Conn, stop func())

var uppers = map[string]upper{
	"tls": func(t testing.TB, a, b net.Conn) (c, s net.Conn, stop func()) {
		return tls.Client(a, &tls.Config{InsecureSkipVerify: true}), tls.Server(b, selfSigned(t)), func() {}
	},
	"yamux": func(t testing.TB, a, b net.Conn) (c, s net.Conn, stop func()) {
		config := yamux.DefaultConfig()
		config.LogOutput = io.Discard
		client, err := yamux.Client(a, config)
		require.NoError(t, err)
		server, err := yamux.Server(b, config)
		require.NoError(t, err)
		c, err = client.Open()
		require.NoError(t, err)
		s, err = server.Accept()
		require.NoError(t, err)
		return c, s, func() { client.Close(); server.Close() }
	},
}

// over is how nettest makes connections of a layer.
func (u upper) over(t testing.TB, lower nettest.MakePipe) nettest.MakePipe {
	return func() (net.Conn, net.Conn, func(), error) {
		a, b, stop, err := lower()
		if err != nil {
			return nil, nil, nil, err
		}
		c, s, stopUpper := u(t, a, b)
		return c, s, func() { c.Close(); s.Close(); stopUpper(); stop() }, nil
	}
}

// tcpPipes is TCP for comparison.
func tcpPipes() (c1, c2 net.Conn, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	defer ln.Close()
	if c1, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	if c2, err = ln.Accept(); err != nil {
		return nil, nil, nil, err
	}
	return c1, c2, func() { c1.Close(); c2.Close() }, nil
}

// TestLayersConformance: TLS and yamux are no worse conns over a Conn than over TCP. Neither
// passes all of nettest over TCP: a tls.Conn is of no use after a call that timed out, and a
// yamux stream takes no notice of a past deadline if it has room. So the same is run over
// TCP, each in a process of its own, as some of it fails, and what passes there must pass here.
func TestLayersConformance(t *testing.T) {
	if name := os.Getenv(lowerEnv); name != "" {
		lower, upper, _ := strings.Cut(name, " ")
		pipes := nettest.MakePipe(tcpPipes)
		if lower == "rdma" {
			pipes = anyLink(t).pipes(t)
		}
		nettest.TestConn(t, uppers[upper].over(t, pipes))
		return
	}
	if raceEnabled {
		t.Skip("what fails takes a minute, and the layers are not ours")
	}
	for upper := range uppers {
		t.Run(upper, func(t *testing.T) {
			t.Parallel()
			over := map[string]map[string]bool{}
			var mu sync.Mutex
			var both sync.WaitGroup
			for _, lower := range []string{"tcp", "rdma"} {
				both.Go(func() {
					passed := runLayers(lower + " " + upper)
					mu.Lock()
					defer mu.Unlock()
					over[lower] = passed
				})
			}
			both.Wait()
			require.Greater(t, len(over["tcp"]), 8, "subtests of nettest")
			for name, passes := range over["tcp"] {
				t.Logf("%s: over TCP %v, over a Conn %v", name, passes, over["rdma"][name])
				if passes && !over["rdma"][name] {
					t.Errorf("%s passes over TCP alone", name)
				}
			}
		})
	}
}

// runLayers runs the test in a process of its own, and returns which parts of it passed.
func runLayers(what string) map[string]bool {
	cmd := exec.Command(os.Args[0], "-test.run=^TestLayersConformance$", "-test.v")
	cmd.Env = append(os.Environ(), lowerEnv+"="+what)
	out, _ := cmd.CombinedOutput() // some of it fails
	passed := map[string]bool{}
	for _, m := range regexp.MustCompile(`--- (PASS|FAIL): TestLayersConformance/(\w+)`).FindAllSubmatch(out, -1) {
		passed[string(m[2])] = string(m[1]) == "PASS"
	}
	return passed
}
