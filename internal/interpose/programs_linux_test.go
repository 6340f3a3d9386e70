//go:build amd64 || arm64

package interpose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/verbs"
)

// programs are what tests run on a host: this project's driver, which opens the
// device node as on a machine with hardware, in a static binary.
var programs = map[string]func(){
	"wait":     func() { wait("") },
	"loopback": loopback,
	"calls":    systemCalls,
	"close":    closing,
	"exec":     executing,
	"fork":     forking,
	"child":    forked,
	"events":   eventFiles,
	"failing":  func() { os.Exit(7) },
	"daemon":   daemon,
	"listen":   listening,
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(ok bool, what string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(what, args...))
	}
}

var lines = bufio.NewReader(os.Stdin)

// wait tells the test where the program is and waits for its word.
func wait(where string) {
	fmt.Println(where)
	_, _ = lines.ReadString('\n')
}

const node = "/dev/infiniband/uverbs0"

func openDevice() verbs.File {
	f, err := verbs.Device{Name: "mlx5_0", UverbsName: "uverbs0", Major: 231, Minor: 192}.Open()
	must(err)
	return f
}

// loopback sends messages from a queue pair to itself, and waits for events.
func loopback() {
	nic, err := mlx5.OpenFile(openDevice(), mlx5.Config{})
	must(err)
	mr, err := region.Alloc(nic, region.RemoteWrite, 1<<16)
	must(err)
	done, err := cq.New(nic, 64)
	must(err)
	pair, err := qp.New(done, qp.Config{Sends: 8, Receives: 8})
	must(err)
	must(pair.Connect(region.RemoteWrite, pair.Endpoint()))
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for i := range 20 {
		n := copy(mr.Bytes(), fmt.Sprintf("message %d", i))
		must(pair.Receive(0, mr.Local(32768, 8192)))
		must(pair.Post(qp.Entry{Op: qp.Send, Local: mr.Local(0, 8000), Signaled: true}))
		pair.Ring()
		for got := 0; got < 2; {
			must(done.Wait(ctx))
			var c [4]cq.Completion
			m, err := done.Poll(c[:])
			must(err)
			for _, c := range c[:m] {
				must(c.Err())
			}
			got += m
		}
		expect(string(mr.Bytes()[32768:32768+n]) == string(mr.Bytes()[:n]), "message %d arrived wrong", i)
	}
	must(errors.Join(pair.Destroy(), done.Close(), mr.Close(), nic.Close()))
	fmt.Println("fine")
}

// systemCalls looks at the device node in every way.
func systemCalls() {
	fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(err)
	isNode := func(st unix.Stat_t, err error) {
		must(err)
		expect(st.Mode == unix.S_IFCHR|0o666 && st.Rdev == unix.Mkdev(231, 192), "stat: %+v", st)
	}
	var st unix.Stat_t
	isNode(st, unix.Stat(node, &st))
	isNode(st, unix.Fstat(fd, &st))
	isNode(st, unix.Stat("/dev/char/231:192", &st))
	isNode(st, unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH))
	must(unix.Stat("/", &st))
	must(unix.Fstat(1, &st))
	must(unix.Fstatat(1, "", &st, unix.AT_EMPTY_PATH))
	expect(unix.Stat("/no/such", &st) == unix.ENOENT, "stat of nothing")
	expect(unix.Fstat(1000, &st) == unix.EBADF, "fstat of nothing")
	for _, at := range []struct {
		fd   int
		path string
	}{{unix.AT_FDCWD, node}, {fd, ""}} {
		var sx unix.Statx_t
		must(unix.Statx(at.fd, at.path, unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &sx))
		expect(sx.Mode == unix.S_IFCHR|0o666 && sx.Rdev_major == 231 && sx.Rdev_minor == 192, "statx: %+v", sx)
	}
	var sx unix.Statx_t
	must(unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &sx))
	oldCalls(fd)

	_, err = unix.Open(node+"x", unix.O_RDWR, 0)
	expect(err == unix.ENOENT, "open of nothing: %v", err)
	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA)
	expect(err == unix.EPROTONOSUPPORT, "netlink: %v", err)

	// No context, no pages; and other files are mapped as ever.
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	expect(err == unix.EINVAL, "mmap: %v", err)
	memfd, err := unix.MemfdCreate("x", 0)
	must(err)
	_, err = unix.Mmap(memfd, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	must(err)

	// Commands at bad addresses, of bad lengths and to other files.
	expect(ioctl(fd, 0) == unix.EFAULT, "command at 0")
	expect(ioctl(memfd, 0) == unix.ENOTTY, "command to another file")
	expect(ioctl(-1, 0) == unix.EBADF, "command to no file")
	page, err := hostmem.Alloc(2 * hostmem.PageSize())
	must(err)
	b := page.Bytes()
	expect(ioctl(fd, page.Addr()) == unix.EINVAL, "command of zeros")
	b[0], b[6] = 24+16*100%256, 100
	b[1] = (24 + 16*100) >> 8
	copy(b[hostmem.PageSize()-24:], b[:24])
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(page.Addr())+uintptr(hostmem.PageSize()), uintptr(hostmem.PageSize()), 0)
	expect(errno == 0, "munmap: %v", errno)
	expect(ioctl(fd, page.Addr()+uint64(hostmem.PageSize()-24)) == unix.EFAULT, "attributes that are not there")
	fmt.Println("fine")
}

func ioctl(fd int, addr uint64) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uapi.RDMAVerbsIoctl, uintptr(addr))
	return errno
}

// queryPort asks by a descriptor; it fails if there is no context.
func queryPort(fd int) unix.Errno {
	mem, err := hostmem.Alloc(8192)
	must(err)
	defer mem.Free()
	var c uapi.Command
	c.Begin(mem.Bytes(), mem.Addr(), uapi.ObjectDevice, uapi.MethodQueryPort, uapi.DriverMLX5)
	c.Const(uapi.AttrQueryPortPort, 1)
	reply := c.Out(uapi.AttrQueryPortResp, 48)
	cmd, err := c.Bytes()
	must(err)
	errno := ioctl(fd, uint64(uintptr(unsafe.Pointer(&cmd[0]))))
	expect(errno != 0 || reply[26] == 4, "port state %d", reply[26])
	return errno
}

// closing ends a file in three steps, of which only the last one counts.
func closing() {
	file := openDevice()
	ctx, page := newContext(file)
	wait("open")
	must(ctx.Close2())
	wait("mapped")
	must(page.Unmap())
	wait("closed")
}

// rawContext is a context whose file can be closed while a page is mapped.
type rawContext struct {
	*verbs.Context
	file verbs.File
}

// Close2 closes all but the mapping, and expects to be told of it.
func (c rawContext) Close2() error {
	if err := c.Close(); err == nil {
		return errors.New("closing did not tell of the mapping")
	}
	return nil
}

func newContext(file verbs.File) (rawContext, *verbs.Page) {
	in := make([]byte, 32)
	in[0], in[4], in[16], in[24] = 16, 4, 1, 1 // static pages
	ctx, err := verbs.NewContext(file, verbs.DriverMLX5, in, make([]byte, 72))
	must(err)
	page, err := ctx.Map(0, hostmem.PageSize())
	must(err)
	return rawContext{ctx, file}, page
}

// executing leaves everything open and becomes another program.
func executing() {
	newContext(openDevice())
	wait("open")
	must(os.Setenv(programVar, "wait"))
	must(unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// forking has a child use the descriptor, which stays open there only.
func forking() {
	fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(err)
	expect(queryPort(fd) == unix.EINVAL, "no context yet")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programVar+"=child")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), node)}
	must(cmd.Start())
	must(cmd.ExtraFiles[0].Close())
	must(cmd.Wait())
}

func forked() {
	mem, err := hostmem.Alloc(8192)
	must(err)
	var c uapi.Command
	c.Begin(mem.Bytes(), mem.Addr(), uapi.ObjectDevice, uapi.MethodGetContext, uapi.DriverMLX5)
	in := make([]byte, 32)
	in[0], in[4], in[16], in[24] = 16, 4, 1, 1
	c.In(uapi.AttrUHWIn, in)
	c.Out(uapi.AttrUHWOut, 72)
	cmd, err := c.Bytes()
	must(err)
	expect(ioctl(3, uint64(uintptr(unsafe.Pointer(&cmd[0])))) == 0, "context in the child")
	expect(queryPort(3) == 0, "port in the child")
	wait("open")
}

// eventFiles opens a completion channel and closes it while the file stays.
func eventFiles() {
	ctx, _ := newContext(openDevice())
	channel, err := ctx.CreateCompChannel()
	must(err)
	must(channel.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = channel.Read(make([]byte, 8))
	expect(errors.Is(err, os.ErrDeadlineExceeded), "read of an empty channel: %v", err)
	kept, err := ctx.CreateCompChannel()
	must(err)
	wait("open")
	must(channel.Close())
	wait("closed")
	// The device fails: the asynchronous event says so, and nothing more; the channel
	// ends.
	var b [16]byte
	n, err := ctx.Async().Read(b[:])
	must(err)
	expect(n == 16 && b[8] == uapi.EventDeviceFatal, "asynchronous event %v", b[:n])
	must(ctx.Async().SetReadDeadline(time.Now().Add(time.Millisecond)))
	n, err = ctx.Async().Read(b[:])
	expect(errors.Is(err, os.ErrDeadlineExceeded), "after the last event: %d bytes, %v", n, err)
	n, err = kept.Read(b[:])
	expect(n == 0, "channel of a device that is gone: %d bytes, %v", n, err)
	fmt.Println("fine")
}

// daemon leaves a process behind.
func daemon() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), programVar+"=wait")
	in, err := os.Open("/proc/self/fd/0")
	must(err)
	cmd.Stdin = in
	must(cmd.Start())
	fmt.Println("started")
}

func listening() {
	wait("ready")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	wait("listening")
	must(ln.Close())
}
