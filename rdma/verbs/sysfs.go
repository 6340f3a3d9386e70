package verbs

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sysfs reads the small text files of a sysfs tree. Attributes come and go while
// it reads, so most reads cannot fail: what is not there is empty.
type sysfs struct {
	root     string
	readFile func(path string) ([]byte, error) // tests make attributes unreadable
}

// sysfsVar is the environment variable that leads to a tree in place of the system's
// sysfs: that of rdma-core (libibverbs/sysfs.c).
const sysfsVar = "SYSFS_PATH"

func newSysfs(root string) *sysfs { return &sysfs{root, readAttribute} }

func (s *sysfs) path(name string) string {
	tree := filepath.Join(rootDir(s.root), "sys")
	if s.root == "" {
		tree = cmp.Or(os.Getenv(sysfsVar), tree)
	}
	return filepath.Join(tree, filepath.FromSlash(name))
}

// text returns the contents without surrounding space, "" if they cannot be read.
func (s *sysfs) text(name string) string {
	b, err := s.readFile(s.path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the contents as a number, decimal or with 0x, 0 if they are
// not one.
func (s *sysfs) number(name string) int {
	n, err := strconv.ParseInt(s.text(name), 0, 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// link returns the last element of what a symbolic link points to, "" if there is none.
func (s *sysfs) link(name string) string {
	target, err := os.Readlink(s.path(name))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// list returns the names in a directory that are prefix and a number, by rising
// number.
func (s *sysfs) list(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(s.path(dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if suffix, ok := strings.CutPrefix(e.Name(), prefix); ok && isNumber(suffix) {
			names = append(names, e.Name())
		}
	}
	value := func(name string) int { n, _ := strconv.Atoi(name[len(prefix):]); return n }
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(value(a), value(b)) })
	return names, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
