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
		"ToDevice": "RET",
		"Record":   "MOVL BX, 0(AX); RET",
		"Release":  "MOVL BX, 0(AX); RET",
		"Ring":     "MOVL BX, 0(AX); SFENCE; MOVQ DX, 0(CX); SFENCE; RET",
		"BlueFlame": "MOVL BX, 0(AX); SFENCE; MOVDQU 0(DX), X0; MOVDQU X0, 0(CX); MOVDQU 0x10(DX), X0; MOVDQU X0, 0x10(CX); " +
			"MOVDQU 0x20(DX), X0; MOVDQU X0, 0x20(CX); MOVDQU 0x30(DX), X0; MOVDQU X0, 0x30(CX); " +
			"ADDQ $0x40, DX; ADDQ $0x40, CX; DECL SI; JNE; SFENCE; RET",
	},
	// DMB $1, $2 and $3 are OSHLD, OSHST and OSH; DSB $14 is ST.
	"arm64": {
		"ToDevice":   "DMB $2; RET",
		"FromDevice": "DMB $1; RET",
		"Record":     "DMB $2; MOVW R1, (R0); RET",
		"Release":    "DMB $3; MOVW R1, (R0); RET",
		"Ring":       "DMB $2; MOVW R1, (R0); DSB $14; MOVD R3, (R2); DSB $14; RET",
		"BlueFlame": "DMB $2; MOVW R1, (R0); DSB $14; " +
			"LDP (R3), (R5, R6); LDP 16(R3), (R7, R8); LDP 32(R3), (R9, R10); LDP 48(R3), (R11, R12); " +
			"MOVD R5, (R2); MOVD R6, 8(R2); MOVD R7, 16(R2); MOVD R8, 24(R2); " +
			"MOVD R9, 32(R2); MOVD R10, 40(R2); MOVD R11, 48(R2); MOVD R12, 56(R2); " +
			"ADD $64, R3, R3; ADD $64, R2, R2; SUBW $1, R4, R4; CBNZW R4, -15(PC); DSB $14; RET",
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
		jump     = regexp.MustCompile(`^(JNE) 0x[0-9a-f]+$`)
		code     = map[string][]string{}
		name     string
	)
	for text := range strings.Lines(string(listing)) {
		if m := symbol.FindStringSubmatch(text); m != nil {
			name = m[1]
		} else if m := line.FindStringSubmatch(text); m != nil && m[1] != "?" && !argument.MatchString(m[1]) {
			code[name] = append(code[name], jump.ReplaceAllString(m[1], "$1"))
		}
	}
	joined := map[string]string{}
	for name, list := range code {
		joined[name] = strings.Join(list, "; ")
	}
	return joined
}
