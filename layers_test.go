package farwire_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/farwire/farwire"

// layers lists the module's packages from the bottom up. A package may import
// only packages on earlier lines, so that every import points down.
var layers = [][]string{
	{"internal/mmio", "internal/hostmem", "internal/ring", "internal/prm", "internal/uapi", "internal/roce", "internal/rxeabi", "internal/pcap", "internal/dcqcn", "internal/coracle", "internal/perftest", "internal/vmtest/plan", "internal/pciconfig", "internal/ifc"},
	{"internal/shm", "internal/vmtest", "internal/vmtest/slot", "internal/vfiouser"},
	{"internal/link", "internal/vmtest/cable"},
	{"internal/rc", "rdma/verbs"},
	{"internal/ud", "rdma/work", "rdma/internal/ledger", "rdma/softnic/trace"},
	{"rdma/internal/nic"},
	{"rdma/mlx5/internal/device", "rdma/rxe"},
	{"rdma/mlx5"},
	{"rdma/mlx5/region", "rdma/mlx5/cq", "rdma/mlx5/srq"},
	{"rdma/mlx5/qp"},
	{"rdma/softnic", "bootstrap", "conn"},
	{"rdma/mlx5/internal/mlx5test"},
	{"listener", "internal/interpose", "internal/connectx"},
	{"rdma"},
	{"examples/internal/exampletest"},
	{"examples/echo", "examples/http", "examples/streams", "examples/zerocopy", "cmd/farwire", "internal/conformance", "internal/wire", "internal/cost", "internal/compare", "internal/gates", "internal/vmtest/guest", "internal/vmtest/vmrun"},
}

// strangers are packages that stand side by side: the first must not import
// the second although it is on an earlier line. The software NIC and the
// driver share layouts and nothing else, or one would hide the other's faults;
// a Conn knows no driver.
var strangers = [][2]string{
	{"rdma/softnic", "rdma/mlx5"}, {"rdma/softnic", "rdma/rxe"}, {"rdma/softnic", "rdma/internal"}, {"rdma/softnic", "rdma/work"},
	{"bootstrap", "rdma/mlx5"}, {"bootstrap", "rdma/rxe"}, {"bootstrap", "rdma/internal"},
	{"conn", "rdma/mlx5"}, {"conn", "rdma/rxe"}, {"conn", "rdma/internal"},
	{"rdma/rxe", "rdma/mlx5"},
}

// dependencies are the modules that importable packages may use: what every
// user of the library inherits.
var dependencies = []string{"golang.org/x/sys/"}

func TestLayers(t *testing.T) {
	rank := map[string]int{}
	for i, packages := range layers {
		for _, p := range packages {
			rank[module+"/"+p] = i
		}
	}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for pkg, imports := range listImports(t, goos) {
			if pkg == module {
				continue
			}
			r, ok := rank[pkg]
			if !ok {
				t.Errorf("%s is in no layer", pkg)
			}
			// Programs, and what only tests import, have no users of ours.
			program := r >= rank[module+"/examples/internal/exampletest"] || strings.HasSuffix(pkg, "/mlx5test")
			for _, imp := range imports {
				checkImport(t, rank, pkg, imp)
				if !program && strings.Contains(imp, ".") && !strings.HasPrefix(imp, module) && !allowed(imp) {
					t.Errorf("%s must not make its users depend on %s", pkg, imp)
				}
			}
		}
	}
}

func checkImport(t *testing.T, rank map[string]int, pkg, imp string) {
	t.Helper()
	ir, ours := rank[imp]
	if !ours {
		return
	}
	if ir >= rank[pkg] {
		t.Errorf("%s must not import %s", pkg, imp)
	}
	for _, s := range strangers {
		if pkg == module+"/"+s[0] && strings.HasPrefix(imp+"/", module+"/"+s[1]+"/") {
			t.Errorf("%s and %s must not know each other", pkg, imp)
		}
	}
}

func allowed(imp string) bool {
	for _, d := range dependencies {
		if strings.HasPrefix(imp, d) {
			return true
		}
	}
	return false
}

// listImports is each package of the module with what it imports on goos,
// tests aside.
func listImports(t *testing.T, goos string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	out, err := cmd.Output()
	require.NoError(t, err, "go list for %s", goos)
	list := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		list[pkg] = strings.Fields(imports)
	}
	return list
}
