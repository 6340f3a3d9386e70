package vmtest

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
)

// A tree is the files of an initramfs by path, with no leading slash.
type tree map[string]node

// A node is a file, folder or symbolic link.
type node struct {
	mode uint32 // with the type, as in stat
	data []byte // of a link, where it leads
}

// Types of a node's mode (cpio(5), struct stat).
const (
	typeFolder = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
)

// file adds a file, and the folders it is in.
func (t tree) file(name string, perm uint32, data []byte) { t.add(name, node{typeFile | perm, data}) }

// link adds a symbolic link.
func (t tree) link(name, to string) { t.add(name, node{typeLink | 0o777, []byte(to)}) }

// folder adds an empty folder.
func (t tree) folder(name string) { t.add(name, node{typeFolder | 0o755, nil}) }

func (t tree) add(name string, n node) {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		t[d] = node{typeFolder | 0o755, nil}
	}
	t[name] = n
}

// write writes the tree as an uncompressed cpio archive in the "newc" format,
// which the kernel unpacks into its root (Linux
// Documentation/driver-api/early-userspace/buffer-format.rst). Equal trees give
// equal bytes.
func (t tree) write(w io.Writer) error {
	c := &cpioWriter{w: bufio.NewWriterSize(w, 1<<20)}
	for _, name := range slices.Sorted(maps.Keys(t)) { // a folder comes before what is in it
		c.record(name, t[name])
	}
	c.record("TRAILER!!!", node{})
	return c.w.Flush()
}

type cpioWriter struct {
	w     *bufio.Writer // keeps the first error
	inode int
}

func (c *cpioWriter) record(name string, n node) {
	c.inode++
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, n.mode, 0, 0, 1, 0, len(n.data), 0, 0, 0, 0, len(name)+1, 0)
	c.put([]byte(header + name + "\x00"))
	c.put(n.data)
}

// put writes b and pads to 4 bytes.
func (c *cpioWriter) put(b []byte) {
	c.w.Write(b)
	c.w.Write(make([]byte, -len(b)&3))
}
