package vmtest

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// qemuSuites are where a QEMU with the device vfio-user-pci is from: the last has it,
// the others have what it depends on.
var qemuSuites = []string{"trixie", "trixie-backports"}

// FetchQEMU returns the path of a QEMU that is newer than this machine's, from the
// cache, for which it downloads it first if need be (some 40 MB). It is a script that
// runs it with the libraries that came with it; nothing is installed.
func FetchQEMU(ctx context.Context, cache string) (string, error) {
	dir := filepath.Join(cache, "qemu")
	if err := once(dir, func(dir string) error { return fetchQEMU(ctx, dir) }); err != nil {
		return "", fmt.Errorf("fetch QEMU: %w", err)
	}
	return filepath.Join(dir, "qemu-system-x86_64"), nil
}

func fetchQEMU(ctx context.Context, dir string) error {
	a, err := newAPT(ctx, filepath.Join(filepath.Dir(dir), "apt"), qemuSuites...)
	if err != nil {
		return err
	}
	archives, err := a.downloadAll(ctx, "qemu-system-x86")
	if err != nil {
		return err
	}
	for _, deb := range archives {
		if err := unpackTo(ctx, deb, filepath.Join(dir, "root")); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	return os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(qemuScript), 0o755)
}

// qemuScript runs QEMU with the dynamic loader, libraries and firmware beside it.
const qemuScript = `#!/bin/sh
root=$(dirname "$0")/root
lib=$root/usr/lib/x86_64-linux-gnu
export QEMU_MODULE_DIR=$lib/qemu
exec $root/usr/lib64/ld-linux-x86-64.so.2 --library-path $lib $root/usr/bin/qemu-system-x86_64 \
	-L $root/usr/share/qemu -L $root/usr/share/seabios "$@"
`

// documentation is what nobody reads there.
var documentation = regexp.MustCompile(`^usr/share/(doc|man|locale|info)/`)

// unpackTo unpacks a package's files and symbolic links.
func unpackTo(ctx context.Context, deb, dir string) error {
	return readDeb(ctx, deb, func(h *tar.Header, r io.Reader) error {
		name := filepath.Clean(strings.TrimPrefix(h.Name, "."))
		to := filepath.Join(dir, name)
		switch {
		case documentation.MatchString(strings.TrimPrefix(name, "/")):
		case h.Typeflag == tar.TypeReg:
			return writeFile(to, r, os.FileMode(h.Mode&0o777))
		case h.Typeflag == tar.TypeSymlink:
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.Symlink(h.Linkname, to)
		}
		return nil
	})
}
