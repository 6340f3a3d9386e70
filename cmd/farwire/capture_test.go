package main

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// needWireshark skips the test where captures cannot be read by others' programs, or
// fails it where the variable says that they must be.
func needWireshark(t *testing.T) {
	t.Helper()
	const needVar = "FARWIRE_NEED_WIRESHARK"
	_, err := exec.LookPath("tshark")
	if err == nil {
		err = exec.Command(python, "-c", "import scapy.contrib.roce").Run()
	}
	switch {
	case err == nil:
	case os.Getenv(needVar) != "":
		require.NoError(t, err, "tshark and python3-scapy")
	default:
		t.Skip("tshark or python3-scapy: ", err)
	}
}

// python is the one that Debian's packages are for.
const python = "/usr/bin/python3"

// tshark is what it says of a capture, a line for each packet that passes the filter.
func tshark(t *testing.T, capture string, args ...string) []string {
	// It takes payload for RPC over RDMA.
	args = append([]string{"-n", "-r", capture, "--disable-protocol", "rpcordma"}, args...)
	var complaint bytes.Buffer
	cmd := exec.Command("tshark", args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", args, &complaint)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// checkCapture has others read a capture: tshark takes every packet apart and has nothing
// to complain of, and every ICRC is what scapy makes it. It returns the packets' opcodes.
func checkCapture(t *testing.T, capture, addresses string) (opcodes []string) {
	t.Helper()
	require.Equal(t, []string{""}, tshark(t, capture, "-Y", "_ws.malformed or _ws.expert.severity >= \"Warning\""))
	opcodes = tshark(t, capture, "-T", "fields", "-e", "infiniband.bth.opcode")
	require.NotContains(t, opcodes, "", "not RoCE")
	require.Equal(t, []string{""}, tshark(t, capture, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-Y", "ip.checksum.status == \"Bad\" or udp.checksum.status == \"Bad\""))
	out, err := exec.Command(python, "testdata/icrc.py", capture).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, addresses, string(out))
	return opcodes
}

func TestCapturePingpong(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	needWireshark(t)
	for gid, addresses := range map[string]string{"0": "^0 over IPv4, ", "1": ", 0 over IPv6"} {
		capture := filepath.Join(t.TempDir(), "pcap")
		program := []string{"ibv_rc_pingpong", "-g", gid, "-n", "10", "-s", "2017", "-m", "1024"}
		runTool(t, pair(t, []string{"-nic", "pcap=" + capture}, program)...)
		opcodes := strings.Join(checkCapture(t, capture, addresses), " ")
		require.Len(t, regexp.MustCompile(`\b0 2\b`).FindAllString(opcodes, -1), 20, "SEND First and Last: %s", opcodes)
		require.Len(t, regexp.MustCompile(`\b17\b`).FindAllString(opcodes, -1), 20, "Acknowledge: %s", opcodes)
	}
}

// Every operation, between two NICs that share a file.
func TestCaptureOperations(t *testing.T) {
	needWireshark(t)
	addr := netip.MustParseAddr
	for name, c := range map[string]struct {
		a, b      softnic.Config
		addresses string
	}{
		"IPv4 in memory": {softnic.Config{Addr: addr("10.7.0.1"), Link: softnic.LinkMemory},
			softnic.Config{Addr: addr("10.7.0.2"), Link: softnic.LinkMemory}, ", 0 over IPv6"},
		"IPv6 in memory": {softnic.Config{Addr: addr("fd00::1"), Link: softnic.LinkMemory},
			softnic.Config{Addr: addr("fd00::2"), Link: softnic.LinkMemory}, "^0 over IPv4"},
		"UDP": {softnic.Config{Network: softnic.NewNetwork(), Link: softnic.LinkUDP, NoSharedMemory: true},
			softnic.Config{Network: softnic.NewNetwork(), Link: softnic.LinkUDP, NoSharedMemory: true}, ", 0 over IPv6"},
		"shared memory": {softnic.Config{Network: softnic.NewNetwork(), Link: softnic.LinkUDP},
			softnic.Config{Network: softnic.NewNetwork(), Link: softnic.LinkUDP}, ", 0 over IPv6"},
	} {
		t.Run(name, func(t *testing.T) {
			capture := filepath.Join(t.TempDir(), "pcap")
			a, b := capturedEnd(t, c.a, capture), capturedEnd(t, c.b, capture)
			require.NoError(t, a.pair.Connect(region.RemoteReadWrite, b.pair.Endpoint()))
			require.NoError(t, b.pair.Connect(region.RemoteReadWrite, a.pair.Endpoint()))
			everyOperation(t, a, b)
			opcodes := checkCapture(t, capture, c.addresses)
			for _, want := range []string{"0", "1", "3", "4", "6", "7", "8", "9", "12", "13", "14", "15", "17", "18", "19", "20"} {
				require.Contains(t, opcodes, want)
			}
		})
	}
}

const captureSize = 10001 // three packets, the last padded

func capturedEnd(t *testing.T, c softnic.Config, capture string) *ours {
	c.PcapFile = capture
	nic, err := softnic.New(&c)
	require.NoError(t, err)
	return newOursOn(t, nic, region.RemoteReadWrite, 1<<14, 4, 4)
}

func everyOperation(t *testing.T, a, b *ours) {
	there, err := b.memory.Remote(0)
	require.NoError(t, err)
	long, word := a.memory.Local(0, captureSize), a.memory.Local(0, 8)
	binary.NativeEndian.PutUint64(b.memory.Bytes(), 7)
	for i, e := range []qp.Entry{
		{Op: qp.SendImm, Local: long, Imm: 0x11223344},
		{Op: qp.Send, Local: a.memory.Local(0, 3)},
		{Op: qp.Write, Local: long, Remote: there},
		{Op: qp.WriteImm, Local: long, Remote: there, Imm: 0x55667788},
		{Op: qp.Read, Local: long, Remote: there},
		{Op: qp.CompareSwap, Local: word, Remote: there, Compare: 7, Swap: 8},
		{Op: qp.FetchAdd, Local: word, Remote: there, Add: 9},
	} {
		receives := e.Op == qp.Send || e.Op == qp.SendImm || e.Op == qp.WriteImm
		if receives {
			require.NoError(t, b.pair.Receive(uint64(i), b.memory.Local(0, captureSize)))
		}
		e.Signaled = true
		a.post(e)
		a.next()
		if receives {
			b.next()
		}
	}
}

// Packets of InfiniBand ports, of each kind of queue pair, with a global route header and
// without.
func TestCaptureInfiniBand(t *testing.T) {
	for program, want := range map[string]struct {
		opcode    string
		addresses string
	}{
		"ibv_rc_pingpong -n 10 -s 2017 -m 1024": {"0", "[1-9][0-9]* local, 0 global"},
		"ibv_uc_pingpong -n 10 -s 2017 -m 1024": {"32", "[1-9][0-9]* local, 0 global"},
		"ibv_ud_pingpong -n 10 -s 1024":         {"100", "20 local, 0 global"},
		"ibv_ud_pingpong -g 0 -n 10 -s 1024":    {"100", "0 local, 20 global"},
	} {
		t.Run(program, func(t *testing.T) {
			need(t, "ibv_rc_pingpong")
			needWireshark(t)
			capture := filepath.Join(t.TempDir(), "pcap")
			runTool(t, pair(t, []string{"-link=ib", "-nic", "pcap=" + capture}, strings.Fields(program))...)
			require.Contains(t, checkCapture(t, capture, want.addresses), want.opcode)
			require.NotContains(t, tshark(t, capture, "-T", "fields", "-e", "infiniband.lrh.slid"), "")
		})
	}
}

func TestCaptureRefused(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "pcap")
	require.NoError(t, os.WriteFile(capture, []byte("mine"), 0o600))
	for link, packets := range map[string]string{"roce": "Ethernet", "ib": "InfiniBand"} {
		err := run(t.Context(), strings.Fields("run -link "+link+" -nic pcap="+capture+" -- true"), os.Stdout)
		require.ErrorContains(t, err, "no capture of "+packets+" packets")
	}
}
