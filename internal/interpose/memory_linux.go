//go:build amd64 || arm64

package interpose

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/rdma/softnic"
)

// processMemory is the address space that a process had when it was opened: when
// the process executes another program, or ends, all accesses fail. As with pinned
// memory, what permissions its pages have is looked at by Pin alone.
type processMemory struct {
	pid int
	mem *os.File
}

var _ softnic.Memory = (*processMemory)(nil)

// atomics makes atomics of several NICs on one process's memory exclude each other.
var atomics sync.Mutex

func openMemory(pid int) (*processMemory, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &processMemory{pid, f}, nil
}

// has reports whether there is a byte at addr.
func (m *processMemory) has(addr uint64) bool {
	var b [1]byte
	return m.Read(addr, b[:]) == nil
}

func (m *processMemory) Read(addr uint64, p []byte) error {
	_, err := m.mem.ReadAt(p, int64(addr))
	return err
}

func (m *processMemory) Write(addr uint64, p []byte) error {
	_, err := m.mem.WriteAt(p, int64(addr))
	return err
}

// Load32 reads until two reads agree: the kernel copies bytes, and may do so
// while the program stores the word.
func (m *processMemory) Load32(addr uint64) (uint32, bool) {
	if addr%4 != 0 {
		return 0, false
	}
	var b [4]byte
	for last, n := uint32(0), 0; ; n++ {
		if m.Read(addr, b[:]) != nil {
			return 0, false
		}
		v := binary.NativeEndian.Uint32(b[:])
		if n > 0 && v == last {
			return v, true
		}
		last = v
	}
}

// Store32 stores the last byte last: nothing says in which order the kernel
// copies the bytes of one write.
func (m *processMemory) Store32(addr uint64, v uint32) bool {
	if addr%4 != 0 {
		return false
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return m.Write(addr, b[:3]) == nil && m.Write(addr+3, b[3:]) == nil
}

func (m *processMemory) CompareSwap64(addr, compare, swap uint64) (old uint64, ok bool) {
	return m.modify(addr, func(v uint64) uint64 {
		if v == compare {
			return swap
		}
		return v
	})
}

func (m *processMemory) Add64(addr, n uint64) (old uint64, ok bool) {
	return m.modify(addr, func(v uint64) uint64 { return v + n })
}

func (m *processMemory) modify(addr uint64, f func(uint64) uint64) (old uint64, ok bool) {
	atomics.Lock()
	defer atomics.Unlock()
	var b [8]byte
	if addr%8 != 0 || m.Read(addr, b[:]) != nil {
		return 0, false
	}
	old = binary.NativeEndian.Uint64(b[:])
	binary.NativeEndian.PutUint64(b[:], f(old))
	return old, m.Write(addr, b[:]) == nil
}

// Pin looks the range up in the list of mappings. Pages come as they are touched.
func (m *processMemory) Pin(addr, n uint64, write bool) bool {
	if addr+n < addr {
		return false
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", m.pid))
	if err != nil {
		return false
	}
	defer f.Close()
	at, end := addr, addr+n
	for lines := bufio.NewScanner(f); at < end && lines.Scan(); {
		lo, hi, perms, err := parseMapping(lines.Text())
		switch {
		case err != nil || lo > at:
			return false
		case hi <= at:
		case perms[0] != 'r' || write && perms[1] != 'w':
			return false
		default:
			at = hi
		}
	}
	return at >= end
}

// parseMapping reads a line of /proc/PID/maps: the range and the permissions.
func parseMapping(line string) (lo, hi uint64, perms string, err error) {
	from, rest, ok1 := strings.Cut(line, "-")
	to, rest, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || len(rest) < 4 {
		return 0, 0, "", errors.New("not a mapping")
	}
	if lo, err = strconv.ParseUint(from, 16, 64); err != nil {
		return 0, 0, "", err
	}
	if hi, err = strconv.ParseUint(to, 16, 64); err != nil {
		return 0, 0, "", err
	}
	return lo, hi, rest[:4], nil
}

// readString reads a string of at most limit bytes from a thread that waits in a
// system call; ok is false if it is longer, or not there.
func readString(tid int, addr uint64, limit int) (string, bool) {
	buf := make([]byte, limit+1)
	const page = 4096
	first := min(uint64(len(buf)), page-addr%page)
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: int(first)}}
	if rest := len(buf) - int(first); rest > 0 {
		remote = append(remote, unix.RemoteIovec{Base: uintptr(addr + first), Len: rest})
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(tid, local, remote, 0)
	if err != nil {
		return "", false
	}
	s, _, ended := strings.Cut(string(buf[:n]), "\x00")
	return s, ended
}

// writeBytes writes to the memory of a thread that waits in a system call.
func writeBytes(tid int, addr uint64, p []byte) bool {
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	n, err := unix.ProcessVMWritev(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}, 0)
	return err == nil && n == len(p)
}
