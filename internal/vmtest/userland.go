package vmtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// userlandPackages are the programs of a guest: shell, network set-up, rdma-core.
var userlandPackages = []string{"dash", "busybox-static", "iproute2",
	"ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "librdmacm1", "perftest"}

// userlandSuite is where they come from.
const userlandSuite = "bookworm"

// FetchUserland returns the path of an archive with the programs of a guest,
// from the cache, for which it downloads them first if need be (some 30 MB).
func FetchUserland(ctx context.Context, cache string) (string, error) {
	dir := filepath.Join(cache, "userland")
	if err := once(dir, func(dir string) error { return fetchUserland(ctx, dir) }); err != nil {
		return "", fmt.Errorf("fetch the guest's programs: %w", err)
	}
	return filepath.Join(dir, "root.cpio"), nil
}

func fetchUserland(ctx context.Context, dir string) error {
	a, err := newAPT(ctx, filepath.Join(filepath.Dir(dir), "apt"), userlandSuite)
	if err != nil {
		return err
	}
	archives, err := a.downloadAll(ctx, userlandPackages...)
	if err != nil {
		return err
	}
	root := tree{}
	for _, deb := range archives {
		if err := readDeb(ctx, deb, root.addTar); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	var b bytes.Buffer
	if err := root.write(&b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "root.cpio"), b.Bytes(), 0o644)
}

// unneeded is what no test looks at.
var unneeded = regexp.MustCompile(`^(usr/share|usr/include|var|usr/lib/x86_64-linux-gnu/gconv)/`)

// addTar adds a file of a package.
func (t tree) addTar(h *tar.Header, r io.Reader) error {
	name := strings.Trim(strings.TrimPrefix(h.Name, "."), "/")
	if name == "" || unneeded.MatchString(name+"/") {
		return nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		t.folder(name)
	case tar.TypeSymlink:
		t.link(name, h.Linkname)
	case tar.TypeLink:
		to, ok := t[strings.TrimPrefix(h.Linkname, "./")]
		if !ok {
			return errors.New("a hard link to nothing")
		}
		t.add(name, to)
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		t.file(name, uint32(h.Mode&0o777), data)
	}
	return nil
}
