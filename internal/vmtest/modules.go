package vmtest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A module is a kernel module, decompressed.
type module struct {
	name string
	data []byte
}

// modules returns the named modules with all they depend on, in loading order.
// A name the kernel has no module of is left out: it may be built in.
func (img *Image) modules(names []string) ([]module, error) {
	l := &moduleList{dir: filepath.Join(img.dir, "modules"), done: map[string]bool{}}
	for _, n := range names {
		if err := l.add(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("kernel %s, module %s: %w", img.Name, n, err)
		}
	}
	return l.list, nil
}

type moduleList struct {
	dir  string
	done map[string]bool
	list []module
}

func (l *moduleList) add(name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	if l.done[name] {
		return nil
	}
	data, err := l.read(name)
	if err != nil {
		return err
	}
	l.done[name] = true
	needs, err := dependencies(data)
	if err != nil {
		return err
	}
	for _, n := range needs {
		if err := l.add(n); err != nil {
			return fmt.Errorf("it needs %s: %v", n, err) // not fs.ErrNotExist: what is needed is not built in
		}
	}
	l.list = append(l.list, module{name, data})
	return nil
}

// read reads a module's file. Its name may have dashes for underscores.
func (l *moduleList) read(name string) ([]byte, error) {
	pattern := strings.ReplaceAll(name, "_", `[\-_]`)
	for _, suffix := range []string{".ko", ".ko.xz", ".ko.zst"} {
		found, err := filepath.Glob(filepath.Join(l.dir, pattern+suffix))
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			data, err := os.ReadFile(found[0])
			if err != nil {
				return nil, err
			}
			return decompress(data)
		}
	}
	return nil, fs.ErrNotExist
}

// dependencies are the names in the "depends=" of a module's .modinfo section.
func dependencies(mod []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(mod))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, entry := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
