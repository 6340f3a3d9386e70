package vmtest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// moduleFile is an ELF file that has a .modinfo section with the text given, or
// none if it is empty.
func moduleOf(modinfo string) []byte {
	names := "\x00.modinfo\x00.shstrtab\x00"
	sections := []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: 64, Size: uint64(len(modinfo))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: 64 + uint64(len(modinfo)), Size: uint64(len(names))},
	}
	if modinfo == "" {
		sections[1].Name = 0
	}
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64,
		Shnum: 3, Shstrndx: 2, Shoff: uint64(64 + len(modinfo) + len(names))}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{h, []byte(modinfo), []byte(names), sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func TestModules(t *testing.T) {
	t.Parallel()
	img := &Image{Kernel: Kernel{Name: "test"}, dir: t.TempDir()}
	dir := filepath.Join(img.dir, "modules")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, modinfo := range map[string]string{
		"rdma_rxe":   "license=x\x00depends=ib_core,ib-uverbs\x00name=rdma_rxe\x00",
		"ib-core":    "depends=\x00",
		"ib_uverbs":  "depends=ib_core\x00",
		"alone":      "name=alone\x00",
		"dangling":   "depends=nobody\x00",
		"unreadable": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".ko"), moduleOf(modinfo), 0o644))
	}
	list, err := img.modules([]string{"rdma-rxe", "built_in", "alone", "ib_core"})
	require.NoError(t, err)
	var order []string
	for _, m := range list {
		order = append(order, m.name)
	}
	require.Equal(t, []string{"ib_core", "ib_uverbs", "rdma_rxe", "alone"}, order)

	_, err = img.modules([]string{"dangling"})
	require.ErrorContains(t, err, "nobody")
	_, err = img.modules([]string{"unreadable"})
	require.ErrorContains(t, err, ".modinfo")
}
