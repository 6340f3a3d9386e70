package vmtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// extractVmlinux takes the uncompressed ELF kernel out of a bzImage. QEMU boots
// it directly, and the emulated machine need not decompress it.
func extractVmlinux(bzImage, vmlinux string) error {
	image, err := os.ReadFile(bzImage)
	if err != nil {
		return err
	}
	payload, err := kernelPayload(image)
	if err != nil {
		return fmt.Errorf("%s: %w", bzImage, err)
	}
	elf, err := decompress(payload)
	if err != nil {
		return fmt.Errorf("%s: %w", bzImage, err)
	}
	if !bytes.HasPrefix(elf, []byte("\x7fELF")) {
		return fmt.Errorf("%s: its payload is no ELF file", bzImage)
	}
	return os.WriteFile(vmlinux, elf, 0o644)
}

// kernelPayload finds the compressed kernel in a bzImage (Linux
// Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).
// The four bytes of the uncompressed size that follow are left off.
func kernelPayload(image []byte) ([]byte, error) {
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	sectors := int(image[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	at := (sectors+1)*512 + int(binary.LittleEndian.Uint32(image[0x248:]))
	n := int(binary.LittleEndian.Uint32(image[0x24c:]))
	if n < 4 || at > len(image) || n > len(image)-at {
		return nil, errors.New("the payload lies outside the file")
	}
	return image[at : at+n-4], nil
}

// decompressors are the programs for what Debian compresses kernels and modules
// with, by the first bytes.
var decompressors = []struct {
	magic   string
	program []string
}{
	{"\xfd7zXZ\x00", []string{"xz", "-dc"}},
	{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
	{"\x1f\x8b", []string{"gzip", "-dc"}},
}

// decompress returns what b holds; an ELF file as it is.
func decompress(b []byte) ([]byte, error) {
	for _, d := range decompressors {
		if bytes.HasPrefix(b, []byte(d.magic)) {
			cmd := exec.Command(d.program[0], d.program[1:]...)
			cmd.Stdin = bytes.NewReader(b)
			return output(cmd)
		}
	}
	if bytes.HasPrefix(b, []byte("\x7fELF")) {
		return b, nil
	}
	return nil, errors.New("compressed in an unknown way")
}
