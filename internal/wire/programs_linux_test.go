package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/perftest"
	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
	"github.com/farwire/farwire/rdma/work"
)

// The programs run on libibverbs and the kernel's device; we are their peer.

// gidIndex is where the kernel has an address.
func gidIndex(t *testing.T, kernel *end) string {
	gid := kernel.pair()
	defer gid.destroy()
	want := gid.Endpoint().GID
	for i := range 8 {
		b, err := os.ReadFile(fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", device, i))
		require.NoError(t, err)
		raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(b)), ":", ""))
		require.NoError(t, err)
		if bytes.Equal(want[:], raw) {
			return fmt.Sprint(i)
		}
	}
	require.Fail(t, "the GID is in no slot")
	return ""
}

// serve runs a program that serves at a port of ours, and returns the connection with it
// and what waits for its end.
func serve(t *testing.T, program ...string) (c net.Conn, end func()) {
	t.Helper()
	const port = "18515"
	var out bytes.Buffer
	cmd := exec.Command(program[0], append(program[1:], "-p", port)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	var failure error
	ended := make(chan struct{})
	go func() { failure = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s: %v\n%s", program[0], failure, &out)
		}
	})
	require.Eventually(t, func() (ok bool) {
		var err error
		c, err = net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil
	}, waitTime, 20*time.Millisecond, "nobody listens")
	require.NoError(t, c.SetDeadline(time.Now().Add(waitTime)))
	return c, func() {
		c.Close()
		<-ended
		require.NoError(t, failure, "%s", &out)
	}
}

func TestKernelPingpong(t *testing.T) {
	lay(t)
	for name, n := range networks {
		t.Run(name, func(t *testing.T) {
			const rounds, size = 50, 5000
			soft, kernel := softEnd(t, softnic.Config{Addr: n.Soft}, 2*size), kernelEnd(t, n.Kernel, 4096)
			c, end := serve(t, "ibv_rc_pingpong", "-d", device, "-g", gidIndex(t, kernel), "-m", "1024",
				"-n", fmt.Sprint(rounds), "-s", fmt.Sprint(size), "-c")
			a := soft.pair()
			defer a.destroy()
			l := &line{t: t, from: soft, a: a}
			e := a.Endpoint()
			_, err := fmt.Fprintf(c, "%04x:%06x:%06x:%x\x00", 0, e.QPN, e.PSN, e.GID[:])
			require.NoError(t, err)
			b := make([]byte, len("0000:000000:000000:")+32+1)
			_, err = io.ReadFull(c, b)
			require.NoError(t, err)
			peer := verbs.Endpoint{LinkLayer: verbs.LinkEthernet, MTU: verbs.MTU1024}
			f := strings.Split(string(b[:len(b)-1]), ":")
			_, err = fmt.Sscanf(f[1]+" "+f[2], "%x %x", &peer.QPN, &peer.PSN)
			require.NoError(t, err)
			gid, err := hex.DecodeString(f[3])
			require.NoError(t, err)
			copy(peer.GID[:], gid)
			require.NoError(t, a.Connect(work.Local, peer))
			receive := func() { require.NoError(t, a.Receive(1, soft.memory.Local(size, size))) }
			receive()
			_, err = io.WriteString(c, "done\x00")
			require.NoError(t, err)
			for i := range rounds {
				// With -c the program wants the number of the message on each page.
				for at := 0; at < size; at += 4096 {
					soft.memory.Bytes()[at] = byte(i % 128)
				}
				l.post(work.Entry{Op: work.Send, Local: soft.memory.Local(0, size)})
				for range 2 { // ours sent, theirs received
					if got := l.good(a); got.Ring == work.Receives {
						require.EqualValues(t, size, got.Bytes)
						if i < rounds-1 {
							receive()
						}
					}
				}
			}
			end()
		})
	}
}

func TestKernelPerftest(t *testing.T) {
	lay(t)
	n := networks["IPv4"]
	const rounds, size = 20, 20001
	for program, op := range map[string]work.Op{
		"ib_send_bw": work.Send, "ib_write_bw": work.Write, "ib_read_bw": work.Read, "ib_atomic_bw": work.FetchAdd,
	} {
		t.Run(program, func(t *testing.T) {
			soft, kernel := softEnd(t, softnic.Config{Addr: n.Soft}, size), kernelEnd(t, n.Kernel, 4096)
			args := []string{program, "-d", device, "-x", gidIndex(t, kernel), "-F", "-n", fmt.Sprint(rounds), "-m", "1024"}
			bytes := size
			if op == work.FetchAdd {
				bytes = 8
			} else {
				args = append(args, "-s", fmt.Sprint(size))
			}
			c, end := serve(t, args...)
			x := perftest.New(c, true, true)
			_, err := x.Hello(perftest.Hello{Cycle: 4096, CacheLine: 64, MTU: uint8(verbs.MTU1024)})
			require.NoError(t, err)
			a := soft.pair()
			defer a.destroy()
			l := &line{t: t, from: soft, a: a}
			e := a.Endpoint()
			here, err := soft.memory.Remote(0)
			require.NoError(t, err)
			mine := perftest.Record{Reads: 16, QPN: e.QPN, PSN: e.PSN, RKey: here.RKey, Addr: here.Addr, GID: e.GID}
			peer, err := x.Swap(mine)
			require.NoError(t, err)
			require.NoError(t, a.Connect(work.RemoteReadWrite, verbs.Endpoint{
				LinkLayer: verbs.LinkEthernet, MTU: verbs.MTU1024, QPN: peer.QPN, PSN: peer.PSN, GID: peer.GID}))
			for range 3 {
				_, err = x.Swap(mine)
				require.NoError(t, err)
			}
			for i := range rounds {
				entry := work.Entry{Op: op, Local: soft.memory.Local(0, bytes), Add: 1}
				if op != work.Send {
					entry.Remote = work.Target{Addr: peer.Addr, RKey: peer.RKey}
				}
				clear(soft.memory.Bytes())
				l.post(entry)
				l.good(a)
				if op == work.Read && i == 0 {
					require.NotEqual(t, make([]byte, size), soft.memory.Bytes(), "its memory is random")
				}
			}
			if op != work.Send {
				_, err = x.Report(perftest.Report{Size: uint64(bytes), Iterations: rounds})
				require.NoError(t, err)
			}
			require.NoError(t, x.Finish(mine))
			end()
		})
	}
}

// childEnv makes this test binary the client of TestKernelDial.
const childEnv = "FARWIRE_WIRE_DIAL"

// A connection of this module between a process on the kernel's device and one on the
// software NIC, both ways.
func TestKernelDial(t *testing.T) {
	if address := os.Getenv(childEnv); address != "" {
		echoed(t, address)
		return
	}
	lay(t)
	kernelEnd(t, networks["IPv4"].Kernel, 4096) // is ready
	lc := rdma.ListenConfig{Config: rdma.Config{Device: device}}
	ln, err := lc.Listen(t.Context(), "rdma", "10.11.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	cmd := exec.Command("ip", "netns", "exec", namespace, os.Args[0], "-test.run=^TestKernelDial$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+ln.Addr().String(), "FARWIRE_DEVICE=soft", "FARWIRE_SOFTNIC=link=udp")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	accepted := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		accepted <- err
	}()
	err = cmd.Wait()
	require.NoError(t, err, "%s", &out)
	require.NoError(t, <-accepted)
}

func echoed(t *testing.T, address string) {
	c, err := rdma.Dial("rdma", address)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(waitTime)))
	sent := make([]byte, 1<<20)
	fill(sent, 1)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		wrote <- err
	}()
	got := make([]byte, len(sent))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	same(t, sent, got, "echo")
	require.NoError(t, c.Close())
}
