package mmio

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instructions is what each function must be in the object code, but for the
// loads of its arguments: nothing may be missing, added or moved.
var instructions = map[string]map[string]string{
	"amd64": {
		"ToDevice":       "RET",
		"FromDevice":     "RET",
		"Record":         "MOVL BX, 0(AX); RET",
		"Release":        "MOVL BX, 0(AX); RET",
		"Ring":           "MOVL BX, 0(AX); SFENCE; MOVQ DX, 0(CX); SFENCE; RET",
		"BeginBlueFlame": "MOVL BX, 0(AX); SFENCE; RET",
		"Copy64": "MOVQ 0(BX), CX; MOVQ CX, 0(AX); MOVQ 0x8(BX), CX; MOVQ CX, 0x8(AX); " +
			"MOVQ 0x10(BX), CX; MOVQ CX, 0x10(AX); MOVQ 0x18(BX), CX; MOVQ CX, 0x18(AX); " +
			"MOVQ 0x20(BX), CX; MOVQ CX, 0x20(AX); MOVQ 0x28(BX), CX; MOVQ CX, 0x28(AX); " +
			"MOVQ 0x30(BX), CX; MOVQ CX, 0x30(AX); MOVQ 0x38(BX), CX; MOVQ CX, 0x38(AX); RET",
		"Flush": "SFENCE; RET",
	},
	// DMB $1, $2 and $3 are OSHLD, OSHST and OSH; DSB $14 is ST.
	"arm64": {
		"ToDevice":       "DMB $2; RET",
		"FromDevice":     "DMB $1; RET",
		"Record":         "DMB $2; MOVW R1, (R0); RET",
		"Release":        "DMB $3; MOVW R1, (R0); RET",
		"Ring":           "DMB $2; MOVW R1, (R0); DSB $14; MOVD R3, (R2); DSB $14; RET",
		"BeginBlueFlame": "DMB $2; MOVW R1, (R0); DSB $14; RET",
		"Copy64": "LDP (R1), (R2, R3); LDP 16(R1), (R4, R5); LDP 32(R1), (R6, R7); LDP 48(R1), (R8, R9); " +
			"MOVD R2, (R0); MOVD R3, 8(R0); MOVD R4, 16(R0); MOVD R5, 24(R0); " +
			"MOVD R6, 32(R0); MOVD R7, 40(R0); MOVD R8, 48(R0); MOVD R9, 56(R0); RET",
		"Flush": "DSB $14; RET",
	},
}

func TestObjectCode(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not in the path")
	}
	for arch, want := range instructions {
		t.Run(arch, func(t *testing.T) {
			require.Equal(t, want, disassemble(t, goTool, arch))
		})
	}
}

// disassemble links testdata/calls for linux on arch, and returns the
// instructions of each function of this package but for loads from the stack
// and padding.
func disassemble(t *testing.T, goTool, arch string) map[string]string {
	binary := filepath.Join(t.TempDir(), "calls")
	build := exec.Command(goTool, "build", "-o", binary, "./testdata/calls")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	listing, err := exec.Command(goTool, "tool", "objdump", "-s", `internal/mmio\.`, binary).Output()
	require.NoError(t, err)

	var (
		symbol   = regexp.MustCompile(`^TEXT \S*/mmio\.(\w+)(?:\.abi0)?\(SB\)`)
		line     = regexp.MustCompile(`^\s+\S+:\d+\s+0x[0-9a-f]+\s+[0-9a-f]+\s+(.*\S)`) // file, address, bytes
		argument = regexp.MustCompile(`^MOV\w+ \w+\(R?SP\), \w+$`)
		code     = map[string][]string{}
		name     string
	)
	for text := range strings.Lines(string(listing)) {
		if m := symbol.FindStringSubmatch(text); m != nil {
			name = m[1]
		} else if m := line.FindStringSubmatch(text); m != nil && m[1] != "?" && !argument.MatchString(m[1]) {
			code[name] = append(code[name], m[1])
		}
	}
	joined := map[string]string{}
	for name, list := range code {
		joined[name] = strings.Join(list, "; ")
	}
	return joined
}
