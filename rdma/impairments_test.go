package rdma

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// Bad networks beside loads: every byte must arrive, and as fast as it did when the golden
// table was written. Time is virtual and the link's rate is modelled, so that figures say
// what the protocol makes of a network, and not how busy the machine is.

var (
	allImpairments    = flag.Bool("impairments.all", false, "run every row of the table of impairments, and print it (make impairments)")
	updateImpairments = flag.Bool("impairments.update", false, "write the golden table of impairments anew")
)

const goldenImpairments = "testdata/impairments.txt"

// The link that is impaired: both ends send at 10 Gbit/s at most, and packets take 10 us.
const (
	impairedRate  = 10e9
	impairedDelay = 10 * time.Microsecond
)

// impairment is a row of the table.
type impairment struct {
	name   string
	faults softnic.Faults
	always bool // also without the flag
}

var impairmentRows = []impairment{
	{"none", softnic.Faults{}, true},
	{"loss 0.1 %", softnic.Faults{Loss: 0.001}, false},
	{"loss 1 %", softnic.Faults{Loss: 0.01}, true},
	{"loss 3 %", softnic.Faults{Loss: 0.03}, false},
	{"loss 10 %", softnic.Faults{Loss: 0.1}, false},
	{"reordering 1 %", softnic.Faults{Reorder: 0.01}, false},
	{"reordering 10 %", softnic.Faults{Reorder: 0.1}, false},
	{"duplication 1 %", softnic.Faults{Duplicate: 0.01}, false},
	{"duplication 10 %", softnic.Faults{Duplicate: 0.1}, false},
	{"corruption 0.1 %", softnic.Faults{Corrupt: 0.001}, false},
	{"corruption 1 %", softnic.Faults{Corrupt: 0.01}, false},
	{"delay 100 us", softnic.Faults{Delay: 100 * time.Microsecond}, false},
	{"delay 1 ms", softnic.Faults{Delay: time.Millisecond}, true},
	{"jitter 10 us", softnic.Faults{Jitter: 10 * time.Microsecond}, false},
	{"jitter 100 us", softnic.Faults{Jitter: 100 * time.Microsecond}, false},
	{"marks 1 %", softnic.Faults{Mark: 0.01}, false},
	{"some of all", softnic.Faults{Loss: 0.005, Reorder: 0.005, Duplicate: 0.005, Corrupt: 0.001, Delay: 50 * time.Microsecond,
		Jitter: 5 * time.Microsecond}, true},
}

// impairedLoad is a column of the table: what is sent, and how much of the unit that is. Seeds
// is how often it is, with other fates each time.
type impairedLoad struct {
	name  string
	unit  float64
	seeds uint64
	run   func(t *testing.T, c softnic.Config) (amount float64, counters softnic.Counters)
}

// A stream waits for a timer when the last packet of what its window allows is lost, which
// takes ten times as long as all of it without loss: one seed says how often that happened,
// and no more.
var impairedLoads = []impairedLoad{
	{"SEND Mbit/s", 1e6, 1, messageLoad(sendMessages)},
	{"WRITE Mbit/s", 1e6, 1, messageLoad(writeMessages)},
	{"READ Mbit/s", 1e6, 1, messageLoad(readMessages)},
	{"atomics 1000/s", 1e3, 1, messageLoad(atomicMessages)},
	{"stream Mbit/s", 1e6, 10, streamLoad},
}

// impairedCell runs a load through a bad network, in virtual time, and returns how much
// of it passes in a second.
func impairedCell(t *testing.T, row impairment, load impairedLoad) (perSecond float64) {
	seeds := load.seeds
	if row.faults == (softnic.Faults{Delay: row.faults.Delay}) {
		seeds = 1 // no fate
	}
	var amount float64
	var took time.Duration
	var c softnic.Counters
	f := row.faults
	f.Rate, f.Delay = impairedRate, f.Delay+impairedDelay
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			a, counters := load.run(t, softnic.Config{Faults: f, Seed: 1 + seed, Packets: true})
			took += time.Since(began)
			amount += a
			c = sumCounters(c, counters)
		})
	}
	switch {
	case f.Loss > 0:
		require.NotZero(t, c.Retransmits, "nothing was lost")
	case f.Reorder > 0:
		require.NotZero(t, c.OutOfSequence, "nothing was overtaken")
	case f.Duplicate > 0:
		require.NotZero(t, c.Duplicates, "nothing came twice")
	case f.Corrupt > 0:
		require.NotZero(t, c.DropICRC, "nothing was damaged")
	case f.Mark > 0:
		require.NotZero(t, c.MarksReceived, "nothing was marked")
	}
	return amount / load.unit / took.Seconds()
}

// How far a figure may be from the golden one. It is much the same each time: only packets
// that two timers bring at the same moment may come in either order. But a change by which
// one packet more is sent lets all that follow meet other fates, and even the mean of ten
// streams is another by a third then: so whoever does not look at the whole table is told of a
// half that is lost, and not of that.
const (
	tableTolerance = 0.1
	testTolerance  = 0.5
)

func TestImpairments(t *testing.T) {
	if kernelDevice() != "" {
		t.Skip("tested where there is no device of the kernel's: none is used here")
	}
	golden, tolerance := readImpairments(t), testTolerance
	if *allImpairments {
		tolerance = tableTolerance
	}
	got := map[string][]float64{}
	for _, row := range impairmentRows {
		if !*allImpairments && !*updateImpairments && !row.always {
			continue
		}
		figures := make([]float64, len(impairedLoads))
		for i, load := range impairedLoads {
			t.Run(row.name+"/"+load.name, func(t *testing.T) {
				figures[i] = impairedCell(t, row, load)
				if *updateImpairments {
					return
				}
				require.Len(t, golden[row.name], len(impairedLoads), "%s needs to be written anew, with -impairments.update", goldenImpairments)
				require.InEpsilon(t, golden[row.name][i], figures[i], tolerance, "throughput; if it is meant to be, run with -impairments.update")
			})
		}
		got[row.name] = figures
	}
	if *allImpairments || *updateImpairments {
		t.Logf("\n%s", impairmentTable(got))
	}
	if *updateImpairments && !t.Failed() {
		require.NoError(t, os.WriteFile(goldenImpairments, impairmentTable(got), 0o644))
	}
}

// impairmentTable is the table as it is printed and kept.
func impairmentTable(figures map[string][]float64) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	line := func(name string, cells func(int) string) {
		fmt.Fprintf(w, "| %s\t|", name)
		for i := range impairedLoads {
			fmt.Fprintf(w, " %s\t|", cells(i))
		}
		fmt.Fprintln(w)
	}
	line("network", func(i int) string { return impairedLoads[i].name })
	line("---", func(int) string { return "---" })
	for _, row := range impairmentRows {
		if f, ok := figures[row.name]; ok {
			line(row.name, func(i int) string { return strconv.FormatFloat(f[i], 'g', 5, 64) })
		}
	}
	w.Flush()
	return b.Bytes()
}

func readImpairments(t *testing.T) map[string][]float64 {
	text, err := os.ReadFile(goldenImpairments)
	if os.IsNotExist(err) && *updateImpairments {
		return nil
	}
	require.NoError(t, err)
	rows := map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		var figures []float64
		for _, c := range cells[1:] {
			if v, err := strconv.ParseFloat(strings.TrimSpace(c), 64); err == nil {
				figures = append(figures, v)
			}
		}
		rows[strings.TrimSpace(cells[0])] = figures
	}
	return rows
}

// A link that stops for good ends what waits for it with retries exceeded, in the time that
// the InfiniBand specification computes (9.7.6.1.3): here the local ACK timeout is 14, T =
// 4.096 us * 2^14, there are 7 retries, and a wait may be up to four times T. The first is T,
// the second 2 T, the others 4 T.
func TestStoppedLink(t *testing.T) {
	const timeout = 4096 << 14 * time.Nanosecond
	const limit = (1 + 2 + 6*4) * timeout
	c := softnic.Config{Faults: softnic.Faults{Rate: impairedRate, Delay: impairedDelay}}
	for _, op := range []qp.Op{qp.Send, qp.Write, qp.Read, qp.FetchAdd} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, near, _ := rawEnds(t, c)
				near.SetPort(false)
				began := time.Now()
				require.NoError(t, a.pair.Post(qp.Entry{Op: op, Local: a.mr.Local(0, 8), Remote: b.target(t, 0), Signaled: true}))
				a.pair.Ring()
				require.NoError(t, a.done.Wait(t.Context()))
				require.Equal(t, limit, time.Since(began))
				var done [2]cq.Completion
				n, err := a.done.Poll(done[:])
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.Equal(t, verbs.RetryExceeded, done[0].Status)
			})
		})
	}
	t.Run("stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := inMemory(t, c)
			a, _ := l.pairInBubble(t)
			l.near().nic().SetPort(false)
			began := time.Now()
			_, err := io.Copy(a, unevenly([32]byte{}, 1<<40))
			require.InDelta(t, limit, time.Since(began), float64(time.Millisecond), "from the last packet, which has waited for its turn")
			requireReset(t, err)
			var status *verbs.StatusError
			require.ErrorAs(t, err, &status)
			require.Equal(t, verbs.RetryExceeded, status.Status)
		})
	})
}
