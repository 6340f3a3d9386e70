package softnic_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// recorder keeps what it is told.
type recorder struct {
	mu      sync.Mutex
	records []*trace.Record
}

func (r *recorder) tell(v *trace.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, v.Clone())
}

// of is the records of a kind.
func (r *recorder) of(k trace.Kind) (list []*trace.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.records {
		if v.Kind == k {
			list = append(list, v)
		}
	}
	return list
}

// command is the only command of a name.
func (r *recorder) command(t *testing.T, name string) *trace.Record {
	t.Helper()
	var found []*trace.Record
	for _, v := range r.of(trace.Ioctl) {
		if v.Command.Name == name {
			found = append(found, v)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

// kinds is the order of what was told from the nth record on, doorbell records aside.
func (r *recorder) kinds(from int) (list []trace.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.records[from:] {
		if v.Kind != trace.RecordRead {
			list = append(list, v.Kind)
		}
	}
	return list
}

func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records)
}

// A driver's exchange with itself is told as it happened: byte for byte, and in order.
func TestTraceOfSend(t *testing.T) {
	var rec recorder
	soft := newNIC(t, softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork(), Trace: rec.tell})
	e := newEnd(t, soft, region.Local)
	connect(t, e, e, region.Local)
	require.NoError(t, e.pair.Receive(7, e.mr.Local(4096, 4096)))
	before := rec.len()
	require.NoError(t, e.pair.Post(qp.Entry{Op: qp.Send, ID: 9, Local: e.mr.Local(0, 5), Signaled: true}))
	e.pair.Ring()
	require.Equal(t, []trace.Kind{trace.Doorbell, trace.Work, trace.Work, trace.Completion, trace.Completion}, rec.kinds(before))

	qpn := e.pair.Endpoint().QPN
	bell := rec.of(trace.Doorbell)[0]
	require.Equal(t, 1, bell.Rings)
	require.True(t, bell.BlueFlame, "the entry came with it")
	require.Len(t, bell.Bytes, 256)
	work := rec.of(trace.Work)
	send, receive := work[0], work[1]
	require.Equal(t, trace.SendQueue, send.Queue)
	require.Equal(t, qpn, send.Number)
	require.Zero(t, send.Index)
	require.Equal(t, send.Bytes, bell.Bytes[:len(send.Bytes)])
	var w prm.Send
	require.NoError(t, prm.ParseSend(send.Bytes, &w))
	require.Equal(t, prm.OpSend, w.Opcode)
	require.Equal(t, []prm.Segment{{Addr: e.mr.Local(0, 5).Addr, LKey: e.mr.Local(0, 5).LKey, Length: 5}}, w.Segments)
	require.Equal(t, trace.ReceiveQueue, receive.Queue)
	var segments []prm.Segment
	require.NoError(t, prm.ParseReceive(receive.Bytes, &segments))
	require.Equal(t, uint32(4096), segments[0].Length)

	done := rec.of(trace.Completion)
	require.Len(t, done, 2)
	for i, opcode := range []prm.CQEOpcode{prm.CQEReceive, prm.CQERequester} {
		require.Equal(t, opcode, prm.CQE(done[i].Bytes).Opcode())
		require.Equal(t, qpn, prm.CQE(done[i].Bytes).QPN())
		require.Equal(t, uint32(i), done[i].Index)
	}
	posted := map[trace.Queue][]byte{}
	for _, v := range rec.of(trace.RecordRead) {
		posted[v.Queue] = v.Bytes
	}
	require.Equal(t, map[trace.Queue][]byte{trace.SendQueue: {0, 0, 0, 1}, trace.ReceiveQueue: {0, 0, 0, 1}}, posted)
	for _, v := range rec.of(trace.Work) {
		require.Equal(t, os.Getpid(), v.Process)
		require.Equal(t, 1, v.File)
		require.Equal(t, soft.Name(), v.NIC)
	}
	e.poll(t, 2)
}

// Commands are told with what went in and what came out.
func TestTraceOfCommands(t *testing.T) {
	var rec recorder
	soft := newNIC(t, softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork(), Trace: rec.tell})
	e := newEnd(t, soft, region.Local)
	require.Len(t, rec.of(trace.Open), 1)
	require.NotEmpty(t, rec.of(trace.Map))
	require.Equal(t, prm.PageSize, rec.of(trace.Map)[0].Length)

	c := rec.command(t, "CREATE_QP").Command
	require.Equal(t, uint32(uapi.CmdCreateQP), c.Write)
	made := c.Objects[len(c.Objects)-1]
	require.Equal(t, trace.Object{Kind: uapi.ObjectQP, Handle: made.Handle, Number: e.pair.Endpoint().QPN, New: true}, made)
	require.Len(t, c.Find(uapi.AttrUHWIn).In, uapi.Size[prm.CreateQPRequest]())
	require.Equal(t, enc(made.Handle), c.Find(uapi.AttrCoreOut).Out[:4])
	require.Equal(t, enc(made.Number), c.Find(uapi.AttrCoreOut).Out[4:8])
	require.Len(t, c.Bytes, uapi.HeaderSize+len(c.Attrs)*uapi.AttrSize)
	require.NotEqual(t, c.Bytes, c.Result, "outputs are marked")

	page := rec.of(trace.Ioctl)
	page = slices.DeleteFunc(page, func(r *trace.Record) bool { return r.Command.Name != "UAR_ALLOC" })
	require.NotEmpty(t, page)
	c = page[0].Command
	require.True(t, c.Objects[0].New)
	require.Equal(t, uint64(c.Objects[0].Handle), c.Find(prm.AttrUARHandle).Result)
	require.True(t, c.Find(prm.AttrUARHandle).New)
	require.Equal(t, enc(c.Objects[0].Number), c.Find(prm.AttrUARPageNumber).Out)

	file, err := soft.Open()
	require.NoError(t, err)
	require.ErrorIs(t, file.Ioctl([]byte{1, 2, 3}), syscall.EFAULT)
	require.NoError(t, file.Close())
	refused := rec.of(trace.Ioctl)
	last := refused[len(refused)-1]
	require.Equal(t, syscall.EFAULT, last.Errno)
	require.Equal(t, "header of 3 bytes", last.Reason)
	require.Equal(t, []byte{1, 2, 3}, last.Command.Bytes)
	require.Equal(t, 2, last.File)
	require.Len(t, rec.of(trace.Close), 1)
}

func enc[T any](v T) []byte { return uapi.Bytes(&v) }

// The trace of a file is what was asked for by a setting: lines at the file's end.
func TestTraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(path, []byte("before\n"), 0o600))
	var rec recorder
	for range 2 {
		soft, err := softnic.New(&softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork(), TraceFile: path, Trace: rec.tell})
		require.NoError(t, err)
		file, err := soft.Open()
		require.NoError(t, err)
		require.Error(t, file.Ioctl(nil))
		require.NoError(t, soft.Close())
		require.NoError(t, file.Close(), "what comes after the NIC is not told")
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(b)
	require.True(t, strings.HasPrefix(text, "before\n# farwire trace 1"), text)
	require.Equal(t, 2, strings.Count(text, " OPEN"), text)
	require.Equal(t, 2, strings.Count(text, " = -1 EFAULT (header of 0 bytes)\n"), text)
	require.Len(t, rec.of(trace.Open), 2, "both are told")

	_, err = softnic.New(&softnic.Config{Link: softnic.LinkMemory, TraceFile: t.TempDir()})
	require.ErrorContains(t, err, "trace")
	_, err = softnic.New(&softnic.Config{Link: softnic.LinkMemory, MTU: 9, TraceFile: path})
	require.ErrorContains(t, err, "MTU")
	_, err = softnic.New(&softnic.Config{Link: softnic.LinkUDP, Addr: netip.MustParseAddr("203.0.113.1"), TraceFile: path})
	require.Error(t, err)
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(b), "# farwire trace 1"), "the file of a NIC that was not made is closed")
}

// exchange is what a log says of a message that e sends to itself, in which numbers and
// addresses have names.
func exchange(t *testing.T, b *bytes.Buffer, log *trace.Log, e *end) []string {
	t.Helper()
	require.NoError(t, log.Close())
	local := e.mr.Local(0, 1)
	names := strings.NewReplacer(fmt.Sprintf("%#x", e.pair.Endpoint().QPN), "QPN", fmt.Sprintf("%#x", local.Addr+4096), "ADDR+4096",
		fmt.Sprintf("%#x", local.Addr), "ADDR", fmt.Sprintf("%#x", local.LKey), "KEY")
	var list []string
	numbers := regexp.MustCompile(`(page|cqn)=0x[0-9a-f]+`)
	for line := range strings.Lines(b.String()) {
		if f := strings.Fields(line); f[0] != "#" {
			list = append(list, numbers.ReplaceAllString(names.Replace(strings.Join(f[3:], " ")), "$1=N"))
		}
	}
	return list
}

// The log of a known exchange is known too.
func TestLogOfExchange(t *testing.T) {
	var b bytes.Buffer
	log := trace.NewLog(&b)
	soft := newNIC(t, softnic.Config{Link: softnic.LinkMemory, Network: softnic.NewNetwork(), Trace: log.Trace})
	e := newEnd(t, soft, region.Local)
	connect(t, e, e, region.Local)
	require.NoError(t, e.pair.Receive(7, e.mr.Local(4096, 64)))
	require.NoError(t, e.pair.Receive(8, e.mr.Local(4096, 4)))
	require.NoError(t, e.pair.Post(qp.Entry{Op: qp.SendImm, ID: 9, Imm: 77, Inline: []byte("hello"), Signaled: true}))
	e.pair.Ring()
	e.poll(t, 2)
	require.NoError(t, e.pair.Post(qp.Entry{Op: qp.Send, ID: 10, Local: e.mr.Local(0, 5)}))
	e.pair.Ring()
	e.poll(t, 2)
	got := exchange(t, &b, log, e)
	start := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, "DOORBELL") })
	for _, s := range got[:start] {
		require.True(t, strings.Contains(s, " = ") || strings.HasPrefix(s, "OPEN") || strings.HasPrefix(s, "DBREC SQ qpn=QPN posted=0"), s)
	}
	require.Equal(t, []string{
		"DOORBELL page=N register=0x800 qpn=QPN index=0 SEND_IMM ds=2 BLUEFLAME",
		"DBREC SQ qpn=QPN posted=1",
		"SEND_WQE qpn=QPN index=0 SEND_IMM SIGNALED ds=2 imm=0x4d length=5 inline=68656c6c6f",
		"DBREC RQ qpn=QPN posted=2",
		"RECV_WQE qpn=QPN index=0 sge{addr=ADDR+4096 length=64 lkey=KEY}",
		"CQE cqn=N index=0 qpn=QPN RESP_SEND_IMM wqe_counter=0 byte_cnt=5 imm_inval_pkey=0x4d src_qp=QPN GRH owner=0",
		"CQE cqn=N index=1 qpn=QPN REQ SEND_IMM wqe_counter=0 owner=0",
		"DOORBELL page=N register=0x900 qpn=QPN index=1 SEND ds=2 BLUEFLAME",
		"DBREC SQ qpn=QPN posted=2",
		"SEND_WQE qpn=QPN index=1 SEND ds=2 length=5 sge{addr=ADDR length=5 lkey=KEY}",
		"RECV_WQE qpn=QPN index=1 sge{addr=ADDR+4096 length=4 lkey=KEY}",
	}, got[start:start+11])
	rest := strings.Join(got[start+11:], "\n")
	require.Contains(t, rest, `RESP_ERR wqe_counter=1 syndrome=0x1 status="local length"`)
	require.Contains(t, rest, "REQ_ERR SEND wqe_counter=1 syndrome=0x5 status=flushed vendor_err_synd=0xf9 detail=flushed", "the queue pair is its own peer")
	require.Contains(t, rest, "ASYNC_EVENT")
	require.Contains(t, rest, "NOTE receive failed qpn=QPN counter=1")
}

// What another process does is told with its number. How often it rang cannot be known.
func TestTraceOfProcess(t *testing.T) {
	var rec recorder
	soft := newNIC(t, memoryOnly(softnic.Config{Trace: rec.tell}))
	p := openFor(t, soft)
	e := newEndOn(t, soft, p, region.Local)
	connect(t, e, e, region.Local)
	e.nop(t)
	require.Empty(t, rec.of(trace.Doorbell), "nobody has looked")
	require.True(t, p.Poll())
	e.poll(t, 2)
	require.Len(t, rec.of(trace.Doorbell), 1)
	require.Zero(t, rec.of(trace.Doorbell)[0].Rings)
	require.Len(t, rec.of(trace.Work), 2)
	require.Len(t, rec.of(trace.Completion), 2)
	_, err := p.Map(1, 4096)
	require.ErrorIs(t, err, syscall.EINVAL)
	maps := rec.of(trace.Map)
	require.Equal(t, syscall.EINVAL, maps[len(maps)-1].Errno)
	require.NotEmpty(t, maps[len(maps)-1].Reason)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, v := range rec.records {
		if v.Kind != trace.Note {
			require.Equal(t, processNumber, v.Process, "%+v", v)
			require.Equal(t, 1, v.File)
		}
	}
}
