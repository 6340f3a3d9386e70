package trace

import (
	"fmt"
	"os"
	"strings"
)

// program is the name of a running process, or "".
func program(process int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", process))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}
