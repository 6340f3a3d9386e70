package rdma

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/verbs"
)

// What is compared: the time until a message comes back, and how much goes one way.
const (
	compareRounds = 400
	bulkSize      = 64 << 10
	bulkCount     = 256
)

var compareSizes = []int{64, 4096}

// measured is what a way to send was found to do.
type measured struct {
	name  string
	trips []time.Duration // by compareSizes
	bulk  float64         // MiB/s
}

// TestCompareSoftRoCE prints what connections over a Soft-RoCE device do beside others on
// the same machine: perftest's programs, which use queue pairs as they are, rsockets, and
// TCP from the same Go program. All are two processes. It asserts no time.
func TestCompareSoftRoCE(t *testing.T) {
	if os.Getenv(rxeEnv) == "" {
		t.Skip(rxeEnv + " is not set: make vm-table")
	}
	device, index, addr := softRoCEAddress(t)
	t.Setenv(DeviceEnv, device)
	all := []measured{
		comparePerftest(t, device, index),
		compareStream(t, "Conn", "", func(address string) (net.Conn, error) { return (&Dialer{Config: patient}).Dial("rdma", address) }),
		compareRsockets(t, addr),
		compareStream(t, "TCP", "tcp ", func(address string) (net.Conn, error) { return net.Dial("tcp", address) }),
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprint(w, "\t")
	for _, size := range compareSizes {
		fmt.Fprintf(w, "%d bytes and back\tratio\t", size)
	}
	fmt.Fprint(w, "64 KiB one way\tratio\n")
	for _, m := range all {
		fmt.Fprintf(w, "%s\t", m.name)
		for i, d := range m.trips {
			fmt.Fprintf(w, "%v\t%.2f\t", d.Round(time.Microsecond), float64(d)/float64(all[0].trips[i]))
		}
		fmt.Fprintf(w, "%.1f MiB/s\t%.2f\n", m.bulk, m.bulk/all[0].bulk)
	}
	require.NoError(t, w.Flush())
}

// softRoCEAddress is the device with the index and text of its IPv4 address.
func softRoCEAddress(t *testing.T) (device, index, addr string) {
	devices, err := verbs.Devices("")
	require.NoError(t, err)
	for _, d := range devices {
		for _, g := range d.Ports[0].GIDs {
			if d.Name == os.Getenv(rxeEnv) && g.GID.IsV4() {
				return d.Name, strconv.Itoa(g.Index), g.GID.Addr().Unmap().String()
			}
		}
	}
	require.Fail(t, "no Soft-RoCE device with an IPv4 address in "+rxeEnv)
	return "", "", ""
}

// compareStream measures a connection with this program in another process, which plays
// the roles "echo" and "sink" behind the prefix.
func compareStream(t *testing.T, name, prefix string, dial func(address string) (net.Conn, error)) measured {
	m := measured{name: name}
	to := func(role string) net.Conn {
		c, err := dial(startProcess(t, prefix+role).address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := to("echo")
	for _, size := range compareSizes {
		b := make([]byte, size)
		began := time.Now()
		for range compareRounds {
			_, err := c.Write(b)
			require.NoError(t, err)
			_, err = io.ReadFull(c, b)
			require.NoError(t, err)
		}
		m.trips = append(m.trips, time.Since(began)/compareRounds)
	}
	c = to("sink")
	b := make([]byte, bulkSize)
	began := time.Now()
	for range bulkCount {
		_, err := c.Write(b)
		require.NoError(t, err)
	}
	_, err := io.ReadFull(c, b[:1]) // it has all
	require.NoError(t, err)
	m.bulk = bulkCount * bulkSize / (1 << 20) / time.Since(began).Seconds()
	return m
}

// sink takes what compareStream sends, and says so.
func sink(c net.Conn) {
	if _, err := io.CopyN(io.Discard, c, bulkCount*bulkSize); err == nil {
		c.Write([]byte{1})
		io.Copy(io.Discard, c)
	}
}

func comparePerftest(t *testing.T, device, index string) measured {
	m := measured{name: "ib_send_lat, ib_send_bw"}
	row := func(program string, size, n int) []string {
		args := []string{"-F", "-d", device, "-x", index, "-s", strconv.Itoa(size), "-n", strconv.Itoa(n)}
		return lastRow(t, peers(t, append([]string{program}, args...), append([]string{program}, append(args, "127.0.0.1")...)), strconv.Itoa(size))
	}
	for _, size := range compareSizes {
		average := number(t, row("ib_send_lat", size, compareRounds)[5]) // µs one way
		m.trips = append(m.trips, time.Duration(2*average*float64(time.Microsecond)))
	}
	m.bulk = number(t, row("ib_send_bw", bulkSize, bulkCount)[3])
	return m
}

// compareRsockets runs rstream, whose times are of one way.
func compareRsockets(t *testing.T, addr string) measured {
	m := measured{name: "rstream (rsockets)"}
	row := func(size, count, iterations int) []string {
		args := []string{"rstream", "-S", strconv.Itoa(size), "-C", strconv.Itoa(count), "-I", strconv.Itoa(iterations)}
		return lastRow(t, peers(t, append(args, "-b", addr), append(args, "-s", addr)), "custom")
	}
	for _, size := range compareSizes {
		fields := row(size, 1, compareRounds)
		m.trips = append(m.trips, time.Duration(2*number(t, fields[len(fields)-1])*float64(time.Microsecond)))
	}
	fields := row(bulkSize, bulkCount/4, 2) // each iteration goes there and back
	m.bulk = number(t, fields[len(fields)-2]) * 1e9 / 8 / (1 << 20)
	return m
}

// peers runs a server and then its client, again until the server listens, and returns what the
// client wrote.
func peers(t *testing.T, server, client []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said bytes.Buffer
	s := exec.CommandContext(ctx, server[0], server[1:]...)
	s.Stdout, s.Stderr = &said, &said
	require.NoError(t, s.Start())
	var out []byte
	var err error
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		if out, err = exec.CommandContext(ctx, client[0], client[1:]...).CombinedOutput(); err == nil || ctx.Err() != nil {
			break
		}
		<-tick.C
	}
	require.NoError(t, err, "%v\n%s", client, out)
	require.NoError(t, s.Wait(), "%v\n%s", server, &said)
	return string(out)
}

// lastRow is the fields of the last line that starts with a word.
func lastRow(t *testing.T, out, word string) (row []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == word {
			row = f
		}
	}
	require.NotEmpty(t, row, out)
	return row
}

// number is a number at the start of a field.
func number(t *testing.T, field string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.TrimRight(field, "abcdefghijklmnopqrstuvwxyz"), 64)
	require.NoError(t, err)
	return n
}
