package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// The times of docs/failures.md on Ethernet, and what a busy machine may add to them.
const (
	nicGivesUp = 8 * 4 * 4096 << 14 * time.Nanosecond
	slack      = 30 * time.Second
)

// lost checks that err is the loss of a connection within so much of began, and returns
// the plane that it names.
func lost(t *testing.T, err error, began time.Time, within time.Duration) conn.Plane {
	t.Helper()
	requireReset(t, err)
	var reset *conn.ResetError
	require.ErrorAs(t, err, &reset)
	require.Less(t, time.Since(began), within+slack, "%v", err)
	t.Log(time.Since(began).Round(time.Millisecond), err)
	return reset.Plane
}

// TestIdleNoticesDeadNetwork: who only waits learns that the queue pair's way is gone, by
// the probe it sends, and the other side by TCP.
func TestIdleNoticesDeadNetwork(t *testing.T) {
	eachSoftLink(t, softnic.Config{}, func(t *testing.T, l link) {
		a, b := l.pair(t)
		require.NoError(t, a.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 50 * time.Millisecond}))
		l.near().nic().SetPort(false)
		began := time.Now()
		_, err := a.Read(make([]byte, 1))
		require.Equal(t, conn.QueuePair, lost(t, err, began, 100*time.Millisecond+nicGivesUp))
		require.ErrorIs(t, err, &verbs.StatusError{Status: verbs.RetryExceeded})
		require.NotZero(t, a.Stats().Probes)
		_, err = b.Read(make([]byte, 1))
		require.Equal(t, conn.Bootstrap, lost(t, err, began, 100*time.Millisecond+nicGivesUp))
		l.near().nic().SetPort(true)
	})
}

// TestNICThatCompletesNothing: it is given up, whether or not there was anything to do.
func TestNICThatCompletesNothing(t *testing.T) {
	for name, call := range map[string]func(c *conn.Conn) error{
		"reading": func(c *conn.Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"writing": func(c *conn.Conn) error { _, err := io.Copy(c, unevenly([32]byte{}, 1<<40)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			l := inMemory(t, softnic.Config{})
			a, _ := l.pair(t)
			require.NoError(t, a.SetKeepAliveConfig(net.KeepAliveConfig{
				Enable: true, Idle: 50 * time.Millisecond, Interval: 50 * time.Millisecond, Count: 2}))
			l.near().nic().HoldCompletions()
			began := time.Now()
			require.Equal(t, conn.QueuePair, lost(t, call(a), began, 200*time.Millisecond))
		})
	}
}

// inOwnNetwork runs the rest of a test in a process with a network of its own, whose loopback
// interface can go down. It reports whether this is that process.
func inOwnNetwork(t *testing.T) bool {
	const env = "FARWIRE_TEST_UNPLUG" // the network of the process that started this one
	network, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	if outer := os.Getenv(env); outer != "" {
		require.NotEqual(t, outer, network, "the machine's own loopback interface must stay up")
		require.Contains(t, outer, "net:")
		return true
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("it needs the command ip:", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+network)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skip("this system gives no network namespace:", err)
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	return false
}

// TestOnlyTCPCut: the bootstrap connection loses its network, which nobody tells, while the
// queue pair's lives. TCP finds it within the time of the keep-alive, although the last message
// of the exchange may not be acknowledged yet, while which the kernel sends no probes.
func TestOnlyTCPCut(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	const idle, interval, count = time.Second, time.Second, 2
	shell(t, "ip link set lo up")
	a, b := inMemory(t, softnic.Config{}).pair(t)
	for _, c := range []*conn.Conn{a, b} {
		require.NoError(t, c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: count}))
	}
	shell(t, "ip link set lo down")
	began := time.Now()
	other := make(chan error, 1)
	go func() { _, err := b.Read(make([]byte, 1)); other <- err }()
	_, err := a.Read(make([]byte, 1))
	for _, err := range []error{err, <-other} {
		require.Equal(t, conn.Bootstrap, lost(t, err, began, idle+interval*count))
		var reset *conn.ResetError
		require.ErrorAs(t, err, &reset)
		require.ErrorIs(t, reset.Err, syscall.ETIMEDOUT)
	}
}

// TestUnplugged: both planes lose their network at once, so that neither side can tell the
// other anything.
func TestUnplugged(t *testing.T) {
	if inOwnNetwork(t) {
		unplug(t)
	}
}

func unplug(t *testing.T) {
	const idle, interval, count = time.Second, time.Second, 2
	for name, test := range map[string]struct {
		call   func(c *conn.Conn) error
		within time.Duration
	}{
		"waiting": {func(c *conn.Conn) error { _, err := c.Read(make([]byte, 1)); return err }, 2*idle + nicGivesUp},
		"writing": {func(c *conn.Conn) error { _, err := io.Copy(c, unevenly([32]byte{}, 1<<40)); return err }, nicGivesUp},
	} {
		t.Run(name, func(t *testing.T) {
			shell(t, "ip link set lo up")
			l := overUDP(t, softnic.Config{})
			a, b := l.pair(t)
			for _, c := range []*conn.Conn{a, b} {
				require.NoError(t, c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: count}))
			}
			shell(t, "ip link set lo down")
			began := time.Now()
			other := make(chan error, 1)
			go func() { other <- test.call(b) }()
			require.Equal(t, conn.QueuePair, lost(t, test.call(a), began, test.within), "TCP takes longer")
			require.Equal(t, conn.QueuePair, lost(t, <-other, began, test.within), "and tells nothing")
			require.NoError(t, a.Close())
			require.Less(t, time.Since(began), test.within+slack)
		})
	}
}

// TestPeerStopped: a peer whose process is stopped, and its software NIC with it, is waited for
// as long as the NIC repeats; if it goes on by then, nothing is lost.
func TestPeerStopped(t *testing.T) {
	needUDP(t)
	for name, goesOn := range map[string]bool{"and goes on": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, softnic.Config{})
			p := startProcess(t, "echo")
			c, err := (&Dialer{Config: Config{ports: m.ports}}).Dial("rdma", p.address)
			require.NoError(t, err)
			defer c.Close()
			say := func() { _, err := c.Write([]byte("x")); require.NoError(t, err) }
			heard := func() error { _, err := io.ReadFull(c, make([]byte, 1)); return err }
			say()
			require.NoError(t, heard())
			require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
			awaitStopped(t, p.Process.Pid)
			began := time.Now()
			before := m.counters().Timeouts
			say()
			eventually(t, func() bool { return m.counters().Timeouts > before }, "nobody repeats")
			if goesOn {
				require.NoError(t, p.Process.Signal(syscall.SIGCONT))
				require.NoError(t, heard())
				return
			}
			require.Equal(t, conn.QueuePair, lost(t, heard(), began, nicGivesUp))
			require.NoError(t, p.Process.Signal(syscall.SIGCONT))
		})
	}
}

// awaitStopped waits until all threads of a process are stopped.
func awaitStopped(t *testing.T, pid int) {
	eventually(t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil || !bytes.Contains(stat, []byte(") T ")) {
				return false
			}
		}
		return err == nil && len(threads) > 0
	}, "the process is not stopped")
}

// TestManyKilled: the process of many clients is killed while they write; the server loses
// those connections, each with an error of its own, and nothing else.
func TestManyKilled(t *testing.T) {
	needUDP(t)
	l := overUDP(t, softnic.Config{})
	ln := l.listen(t)
	ended := make(chan error, 100)
	go serve(ln, func(c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	near, far := l.pair(t) // another connection of the same device
	p := startProcess(t, "clients "+ln.Addr().String())
	require.Equal(t, "ready", p.address)
	require.NoError(t, p.Process.Kill())
	for range cap(ended) {
		err := <-ended
		requireReset(t, err)
	}
	testStreams(t, near, far, 1<<20)
}
