package ifc

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/coracle"
)

// headers is the include folder of the kernel's own headers: FARWIRE_LINUX_HEADERS,
// or where Debian's linux-headers-*-common has it. The headers for user space do not
// have mlx5_ifc.h.
func headers(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/src/linux-headers-*-common/include")
	require.NoError(t, err)
	if d := os.Getenv("FARWIRE_LINUX_HEADERS"); d != "" {
		found = append(found, d)
	}
	if len(found) == 0 {
		require.Empty(t, os.Getenv("FARWIRE_NEED_KERNEL_HEADERS"), "no kernel headers")
		t.Skip("no kernel headers: install linux-headers-*-common, or set FARWIRE_LINUX_HEADERS to a folder that has linux/mlx5/mlx5_ifc.h")
	}
	return found[len(found)-1]
}

// The tables say what the kernel's driver says. In its header a byte stands for each
// bit.
func TestAsTheKernelHasIt(t *testing.T) {
	include := headers(t)
	shim := filepath.Join(t.TempDir(), "ifc.h")
	text := fmt.Sprintf("typedef unsigned char u8;\n#define BIT(n) (1ul << (n))\n#define BIT_ULL(n) (1ull << (n))\n#include \"%s/linux/mlx5/mlx5_ifc.h\"\n", include)
	require.NoError(t, os.WriteFile(shim, []byte(text), 0o644))
	var want []coracle.Number
	for name, size := range sizes {
		want = append(want, coracle.Number{C: fmt.Sprintf("sizeof(struct mlx5_ifc_%s_bits)/8", name), Want: uint64(size)})
	}
	for _, r := range rows {
		of := fmt.Sprintf("struct mlx5_ifc_%s_bits", r.structure)
		want = append(want,
			coracle.Number{C: fmt.Sprintf("offsetof(%s, %s)", of, r.name), Want: uint64(r.field.bit)},
			coracle.Number{C: fmt.Sprintf("sizeof(((%s *)0)->%s)", of, r.name), Want: uint64(r.field.width)})
	}
	at := func(structure, field string, offset int) {
		want = append(want, coracle.Number{C: fmt.Sprintf("offsetof(struct mlx5_ifc_%s_bits, %s)/8", structure, field), Want: uint64(offset)})
	}
	at("create_eq_in", "eq_context_entry", Context)
	at("create_cq_in", "cq_context", Context)
	at("create_mkey_in", "memory_key_mkey_entry", Context)
	at("create_xrc_srq_in", "xrc_srq_context_entry", Context)
	at("create_eq_in", "event_bitmask", EventMask)
	at("create_rmp_in", "ctx.wq", RMPQueue)
	at("modify_rmp_in", "ctx", RMPContext)
	at("modify_rmp_in", "ctx.wq", RMPQueue)
	at("query_rmp_out", "rmp_context", RMPContext)
	at("query_rmp_out", "rmp_context.wq", RMPQueue)
	at("query_cq_out", "cq_context", Context)
	at("modify_cq_in", "cq_context", Context)
	at("query_eq_out", "eq_context_entry", Context)
	at("query_mkey_out", "memory_key_mkey_entry", Context)
	at("rst2init_qp_in", "qpc", QPContext)
	at("query_qp_out", "qpc", QPContext)
	at("create_qp_in", "qpc", QPContext)
	at("create_eq_in", "pas", Pages)
	at("create_cq_in", "pas", Pages)
	at("create_qp_in", "pas", Pages)
	at("create_mkey_in", "klm_pas_mtt", Pages)
	at("create_xrc_srq_in", "pas", Pages)
	at("create_rmp_in", "ctx.wq.pas", Pages)
	at("query_hca_cap_out", "capability", Capability)
	at("query_hca_vport_context_out", "hca_vport_context", VirtualPorts)
	at("access_register_in", "register_data", RegisterData)
	at("mad_ifc_in", "mad", MAD)
	at("qpc", "primary_address_path", PrimaryPath)
	at("ads", "rgid_rip", PathGID)
	at("query_nic_vport_context_out", "nic_vport_context", EthernetPorts)
	at("modify_nic_vport_context_in", "field_select", EthernetPortSelect)
	at("modify_nic_vport_context_in", "nic_vport_context", EthernetPortChanged)
	at("set_roce_address_in", "roce_address.source_l3_address", RoCEAddressGID)
	at("create_sq_in", "ctx", SendQueueContext)
	at("create_sq_in", "ctx.wq", SendQueueQueue)
	at("flow_table_nic_cap", "flow_table_properties_nic_receive", ReceiveFlowTables)
	at("flow_table_prop_layout", "ft_field_support", FlowTableFields)
	for name, op := range opcodes {
		want = append(want, coracle.Number{C: "MLX5_CMD_OP_" + name, Want: uint64(op)})
	}
	coracle.Compare(t, []string{shim}, want)
}
