package shm

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
)

// dialEnv makes this program one that dials an address, says how that ended, and stays until
// its input ends.
const dialEnv = "FARWIRE_SHM_DIAL"

func TestMain(m *testing.M) {
	if to := os.Getenv(dialEnv); to != "" {
		c, err := Dial(far, netip.MustParseAddr(to))
		switch {
		case errors.Is(err, ErrUser):
			os.Stdout.WriteString("user")
		case errors.Is(err, syscall.ECONNREFUSED):
			os.Stdout.WriteString("refused")
		case err != nil:
			os.Stdout.WriteString(err.Error())
		default:
			c.Out.Put(7, copy(c.Out.Room(), "hello"))
			c.Out.Publish()
			c.Wake()
			os.Stdout.WriteString("done")
			io.Copy(io.Discard, os.Stdin)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

var far = netip.MustParseAddr("203.0.113.9")

// near is an address that no other process of these tests listens for.
func near() netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{240, byte(pid >> 16), byte(pid >> 8), byte(pid)})
}

// host listens, and takes channels.
type host struct {
	*Listener
	taken chan *Channel
}

func newHost(t *testing.T, want bool) *host {
	h := &host{taken: make(chan *Channel, 4)}
	descriptors, mappings := resources(t)
	l, err := Listen(near(), func(from netip.Addr) bool { return want && from == far },
		func(c *Channel, from netip.Addr) {
			require.Equal(t, far, from)
			h.taken <- c
		})
	require.NoError(t, err)
	h.Listener = l
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		d, m := resources(t)
		require.Equal(t, descriptors, d, "descriptors are left")
		require.Equal(t, mappings, m, "mappings are left")
	})
	return h
}

func resources(t *testing.T) (descriptors, mappings int) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	mappings, _ = hostmem.Live()
	warm, err := net.Listen("unix", "@farwire-test-"+strconv.Itoa(os.Getpid())) // the runtime's own descriptors
	require.NoError(t, err)
	require.NoError(t, warm.Close())
	return len(fds), mappings
}

func TestMeet(t *testing.T) {
	resources(t)
	h := newHost(t, true)
	a, err := Dial(far, near())
	require.NoError(t, err)
	b := <-h.taken
	for _, way := range [][2]*Channel{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		require.True(t, put(&from.Out, 5, []byte("there")))
		from.Out.Publish()
		require.True(t, from.Out.WakeDue(), "both sleep at first")
		from.Wake()
		require.NoError(t, to.Wait())
		requireNext(t, &to.In, 5, []byte("there"))
	}
	require.NoError(t, a.Close())
	require.Error(t, b.Wait(), "the end of one is noticed by the other")
	b.Wake()
	require.NoError(t, b.Close())
}

// Wakes that nobody hears do not block.
func TestWakeDoesNotBlock(t *testing.T) {
	h := newHost(t, true)
	a, err := Dial(far, near())
	require.NoError(t, err)
	b := <-h.taken
	for range 10_000 {
		a.Wake()
	}
	require.NoError(t, b.Wait())
	require.NoError(t, a.Close())
	a.Wake()
	require.NoError(t, b.Close())
}

func TestNobodyThere(t *testing.T) {
	_, err := Dial(far, near())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	newHost(t, false)
	_, err = Dial(far, near())
	require.ErrorIs(t, err, ErrRefused)
	_, err = Listen(near(), nil, nil)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

// dialer is another process that dials.
func dialer(t *testing.T, user uint32) (cmd *exec.Cmd, said string) {
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), dialEnv+"="+near().String())
	cmd.Stderr = os.Stderr
	if user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	b := make([]byte, 100)
	n, err := out.Read(b)
	require.NoError(t, err)
	return cmd, string(b[:n])
}

// Two processes meet; the death of one, however sudden, ends the other's waiting.
func TestOtherProcess(t *testing.T) {
	h := newHost(t, true)
	cmd, said := dialer(t, 0)
	require.Equal(t, "done", said)
	c := <-h.taken
	require.NoError(t, c.Wait())
	requireNext(t, &c.In, 7, []byte("hello"))
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, c.Wait())
	require.NoError(t, c.Close())
}

// Another user's process is refused on both sides: it does not find the name, and one that
// takes the name is found out.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	newHost(t, true)
	const other = 12345
	_, said := dialer(t, other)
	require.Equal(t, "refused", said, "names tell users apart")

	name := socketName(near()).Name
	named := bytes.Replace([]byte(name), []byte("/0/"), []byte("/12345/"), 1)
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: string(named)})
	require.NoError(t, err)
	defer ln.Close()
	_, said = dialer(t, other)
	require.Equal(t, "user", said, "root has the name of another user's socket")

	require.ErrorIs(t, sameUser(1, 2), ErrUser)
	require.ErrorIs(t, sameUser(nobody, nobody), ErrUser)
	require.NoError(t, sameUser(1, 1))
}

// What is not the hello of this version, with memory that stays as it is, is refused, and
// nothing of it kept.
func TestBadHello(t *testing.T) {
	memory := func(size int64, seal int) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seal)
		require.NoError(t, err)
		return os.NewFile(uintptr(fd), "test")
	}
	a := far.As16()
	hello := append([]byte(version), a[:]...)
	for name, c := range map[string]struct {
		hello []byte
		file  *os.File
		times int
	}{
		"nothing":        {nil, nil, 0},
		"no memory":      {hello, nil, 0},
		"other version":  {append([]byte("farwire rings 9\n"), a[:]...), memory(segmentFile(), seals), 1},
		"short":          {hello[:len(hello)-1], memory(segmentFile(), seals), 1},
		"long":           {append(hello, 0), memory(segmentFile(), seals), 1},
		"unsealed":       {hello, memory(segmentFile(), unix.F_SEAL_GROW), 1},
		"small":          {hello, memory(segmentFile()-1, seals), 1},
		"large":          {hello, memory(segmentFile()+1, seals), 1},
		"read only":      {hello, memory(segmentFile(), seals|unix.F_SEAL_WRITE), 1},
		"two":            {hello, memory(segmentFile(), seals), 2},
		"many":           {hello, memory(segmentFile(), seals), 100},
		"no memory file": {hello, os.Stderr, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, true)
			conn, err := net.DialUnix("unixpacket", nil, socketName(near()))
			require.NoError(t, err)
			var fds []int
			for range c.times {
				fds = append(fds, int(c.file.Fd()))
			}
			if c.hello != nil {
				_, _, err = conn.WriteMsgUnix(c.hello, unix.UnixRights(fds...), nil)
				require.NoError(t, err)
			} else {
				require.NoError(t, conn.CloseWrite())
			}
			n, _ := conn.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Empty(t, h.taken)
			require.NoError(t, conn.Close())
		})
		if c.file != nil && c.file != os.Stderr {
			require.NoError(t, c.file.Close())
		}
	}
}

// The memory cannot be made smaller by either side.
func TestSegmentStays(t *testing.T) {
	file, err := makeSegment()
	require.NoError(t, err)
	require.ErrorIs(t, file.Truncate(0), unix.EPERM)
	require.ErrorIs(t, file.Truncate(1<<30), unix.EPERM)
	require.NoError(t, file.Close())
}
