package rc

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var updateFlag = flag.Bool("rc.update", false, "write testdata/recovery.txt anew")

// What losses cost: packets, timeouts and time for the same works. The table is
// compared whole; whoever changes the recovery on purpose looks at it and writes
// it anew with -rc.update.
func TestRecoveryTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("loss  reorder  requests  repeated  timeouts  sequence NAKs  implied NAKs  time\n")
	for _, loss := range []float64{0, 0.001, 0.01, 0.05, 0.1} {
		for _, reorder := range []float64{0, 0.01, 0.05} {
			n := newNetwork(t, 7, impairments{loss: loss, reorder: reorder}, 1000)
			for _, e := range n.ends {
				e.thrift = 1 // receives are always there
			}
			n.run()
			var c Counters
			for _, e := range n.ends {
				c.RequestsSent += e.q.counters.RequestsSent
				c.RequestsRepeated += e.q.counters.RequestsRepeated
				c.Timeouts += e.q.counters.Timeouts
				c.SequenceNAKs += e.q.counters.SequenceNAKs
				c.ImpliedNAKs += e.q.counters.ImpliedNAKs
			}
			fmt.Fprintf(&b, "%-5v %-8v %8d %9d %9d %14d %13d  %v\n", loss, reorder, c.RequestsSent, c.RequestsRepeated,
				c.Timeouts, c.SequenceNAKs, c.ImpliedNAKs, n.now.Sub(testNow).Round(time.Microsecond))
		}
	}
	file := filepath.Join("testdata", "recovery.txt")
	if *updateFlag {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), b.String())
}
