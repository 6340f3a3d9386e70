package vmtest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// CacheDir is where downloads are kept: FARWIRE_VM_CACHE, or a folder of the
// user's cache. To get newer kernels, remove it.
func CacheDir() (string, error) {
	if d := os.Getenv("FARWIRE_VM_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	d, err := os.UserCacheDir()
	return filepath.Join(d, "farwire", "vm"), err
}

// An Image is a kernel on this machine.
type Image struct {
	Kernel
	Version string // "6.1.0-44-amd64"
	dir     string // vmlinux, and modules as the package has them
}

// Fetch returns a kernel from the cache, which it downloads first if need be
// (some 100 MB). Several processes may do so at a time.
func Fetch(ctx context.Context, cache string, k Kernel) (*Image, error) {
	img := &Image{Kernel: k, dir: filepath.Join(cache, "kernel-"+k.Name+"-"+selection())}
	err := once(img.dir, func(dir string) error { return fetchKernel(ctx, k, dir) })
	if err == nil {
		var v []byte
		v, err = os.ReadFile(filepath.Join(img.dir, "version"))
		img.Version = string(v)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch kernel %s: %w", k.Name, err)
	}
	return img, nil
}

// once makes the folder dir by fill, which is given a folder beside it, unless
// it is there already. Of several that do this at a time, the first wins.
func once(dir string, fill func(dir string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	full := filepath.Join(temp, "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		return err
	}
	if err := fill(full); err != nil {
		return err
	}
	if err := os.Rename(full, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func fetchKernel(ctx context.Context, k Kernel, dir string) error {
	state := filepath.Join(filepath.Dir(dir), "apt")
	a, err := newAPT(ctx, state, k.Suite)
	if err != nil {
		return err
	}
	image, err := a.imageOf(ctx, "linux-image-amd64")
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(image, "linux-image-")
	packages := []string{image}
	for _, p := range []string{"linux-modules-" + version, "linux-binary-" + version} { // where newer kernels have the files
		if a.has(ctx, p) {
			packages = append(packages, p)
		}
	}
	archives, err := a.download(ctx, packages...)
	if err != nil {
		return err
	}
	for _, deb := range archives {
		if err := unpackKernel(ctx, deb, dir); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	if err := extractVmlinux(filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "vmlinux")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o644)
}

// Of a kernel's package only what a test may want is kept: the image, and the
// modules of networks, RDMA and what they depend on.
var (
	kernelFile = regexp.MustCompile(`/vmlinuz(-[^/]*)?$`)
	moduleFile = regexp.MustCompile(`/kernel/(drivers/(infiniband|net|virtio|char|vfio|iommu|ptp|pps|dpll|pci/controller)|fs|net|crypto|lib|arch|virt)/.*\.ko(\.xz|\.zst)?$`)
	notWanted  = regexp.MustCompile(`/drivers/net/(wireless|wwan|can|hamradio|usb)/|/fs/(btrfs|xfs|ceph|ocfs2|nfs|smb)/|/arch/x86/kvm/`)
)

// selection names what is kept, so that a cache from before it changed is not used.
func selection() string {
	h := fnv.New32a()
	for _, r := range []*regexp.Regexp{kernelFile, moduleFile, notWanted} {
		fmt.Fprintln(h, r)
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

func unpackKernel(ctx context.Context, deb, dir string) error {
	return readDeb(ctx, deb, func(h *tar.Header, r io.Reader) error {
		name := h.Name
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		switch {
		case kernelFile.MatchString(name):
			name = "vmlinuz"
		case moduleFile.MatchString(name) && !notWanted.MatchString(name):
			name = "modules/" + filepath.Base(name)
		default:
			return nil
		}
		return writeFile(filepath.Join(dir, name), r, 0o644)
	})
}

// readDeb calls each with the files of a package.
func readDeb(ctx context.Context, deb string, each func(*tar.Header, io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = readTar(pipe, each)
	_, drained := io.Copy(io.Discard, pipe) // or dpkg-deb complains of a broken pipe
	return errors.Join(err, drained, cmd.Wait())
}

func readTar(r io.Reader, each func(*tar.Header, io.Reader) error) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = each(h, t)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(name string, r io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
