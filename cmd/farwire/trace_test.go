package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// event is a line of a trace.
type event struct {
	process string // with its file
	what    string // the line's first word after that
	line    string
}

// field is the value of a name in the line, or "".
func (e event) field(name string) string {
	m := regexp.MustCompile(`[ {]` + name + `=([^ }]*)`).FindStringSubmatch(e.line)
	if m == nil {
		return ""
	}
	return m[1]
}

// readTrace takes a trace apart.
func readTrace(t *testing.T, path string) (list []event) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(b), "\n"), "the last line is whole")
	line := regexp.MustCompile(`^\d+\.\d{6} mlx5_\d (\d+\.\d+) ([A-Z_]+)( .*)?$`)
	for i, s := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if i == 0 {
			require.Regexp(t, `^# farwire trace 1, `, s)
			continue
		}
		m := line.FindStringSubmatch(s)
		require.NotNil(t, m, s)
		list = append(list, event{m[1], m[2], s})
	}
	return list
}

// only is the events with a first word, of one process or, if that is "", of all.
func only(list []event, process, what string) (some []event) {
	for _, e := range list {
		if e.what == what && (process == "" || e.process == process) {
			some = append(some, e)
		}
	}
	return some
}

// What is said of a pingpong adds up: every message is a doorbell, an entry at either end
// and a completion of each, and every call has a result.
func TestTracePingpong(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	const count = 50
	path := filepath.Join(t.TempDir(), "trace")
	runTool(t, pair(t, []string{"-trace", path}, []string{"ibv_rc_pingpong", "-g", "0", "-e", "-n", fmt.Sprint(count)})...)
	list := readTrace(t, path)
	opens := only(list, "", "OPEN")
	require.Len(t, opens, 2)
	peers := map[string]string{}
	for _, open := range opens {
		p := open.process
		require.Equal(t, "ibv_rc_pingpong", open.field("program"))
		require.Len(t, only(list, p, "CLOSE"), 1)
		made := only(list, p, "QP_CREATE")
		require.Len(t, made, 1)
		qpn := made[0].field("qpn")
		sends, receives, done := only(list, p, "SEND_WQE"), only(list, p, "RECV_WQE"), only(list, p, "CQE")
		require.Len(t, sends, count)
		require.Len(t, receives, count)
		require.Len(t, done, 2*count)
		require.NotEmpty(t, only(list, p, "DOORBELL"))
		require.NotEmpty(t, only(list, p, "COMP_EVENT"))
		sent, arrived := 0, 0
		for i, e := range done {
			require.Equal(t, fmt.Sprint(i), e.field("index"))
			require.Equal(t, qpn, e.field("qpn"))
			work, n := receives, &arrived
			if strings.Contains(e.line, " REQ SEND ") {
				work, n = sends, &sent
			} else {
				require.Contains(t, e.line, " RESP_SEND ")
				require.Equal(t, "4096", e.field("byte_cnt"))
			}
			require.Equal(t, work[*n].field("index"), e.field("wqe_counter"))
			require.Equal(t, qpn, work[*n].field("qpn"))
			*n++
		}
		require.Equal(t, count, sent)
		states := only(list, p, "MODIFY_QP")
		require.Len(t, states, 3)
		for i, move := range []string{"RESET->INIT", "INIT->RTR", "RTR->RTS"} {
			require.Equal(t, move, states[i].field("qp_state"))
		}
		require.Contains(t, states[1].line, " ah_attr{dgid=fe80::")
		peers[qpn] = states[1].field("dest_qp_num")
	}
	require.Len(t, peers, 2)
	for qpn, peer := range peers {
		require.Equal(t, qpn, peers[peer])
	}
	others := " OPEN CLOSE DOORBELL DBREC SEND_WQE RECV_WQE CQE COMP_EVENT ASYNC_EVENT NOTE "
	calls := regexp.MustCompile(` = (0( [^=]+=[^ ]*)*|-1 E[A-Z]+ \(.+\))$`)
	for _, e := range list {
		if !strings.Contains(others, " "+e.what+" ") {
			require.Regexp(t, calls, e.line)
		}
	}
}

// A trace is whole when the programs were ended by the tool's end.
func TestTraceInterrupted(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	path := filepath.Join(t.TempDir(), "trace")
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	args := pair(t, []string{"-trace", path}, []string{"ibv_rc_pingpong", "-g", "0", "-n", "1000000000"})
	done := make(chan error, 1)
	go func() { done <- run(ctx, append([]string{"run"}, args...), io.Discard) }()
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(path)
		return strings.Contains(string(b), " CQE ")
	}, bound, 10*time.Millisecond)
	cancel()
	require.Error(t, <-done)
	list := readTrace(t, path)
	require.Len(t, only(list, "", "CLOSE"), 2)
	require.Equal(t, "CLOSE", list[len(list)-1].what)
}

func TestTraceToStandardError(t *testing.T) {
	need(t, "ibv_devinfo")
	cmd := exec.Command("/proc/self/exe", "run", "-trace", "-", "--", "ibv_devinfo")
	cmd.Env = append(os.Environ(), asTool+"=1")
	var said output
	cmd.Stderr = &said
	require.NoError(t, cmd.Run())
	require.Contains(t, said.String(), " QUERY_PORT port_num=1 = 0 ")
	require.True(t, strings.HasSuffix(said.String(), " CLOSE\n"), said.String())
}

func TestTraceFileErrors(t *testing.T) {
	err := run(t.Context(), []string{"run", "-trace", t.TempDir(), "--", "true"}, io.Discard)
	require.ErrorContains(t, err, "run: trace: open ")
	needHost(t)
	if _, err := os.Stat("/dev/full"); err == nil {
		err = run(t.Context(), []string{"run", "-trace", "/dev/full", "--", "true"}, io.Discard)
		require.ErrorContains(t, err, "no space left")
	}
}
