package trace

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said is what a log says of records, without its first line and without times.
func said(t testing.TB, records ...*Record) []string {
	var b bytes.Buffer
	l := NewLog(&b)
	for _, r := range records {
		l.Trace(r)
	}
	require.NoError(t, l.Close())
	head, rest, _ := strings.Cut(b.String(), "\n")
	require.Regexp(t, `^# farwire trace 1, process \d+, seconds from \d{4}-`, head)
	var list []string
	for line := range strings.Lines(rest) {
		time, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		require.Regexp(t, regexp.MustCompile(`^\d+\.\d{6}$`), time)
		list = append(list, what)
	}
	return list
}

// enc is the memory of a structure.
func enc[T any](v T) []byte { return bytes.Clone(uapi.Bytes(&v)) }

// unhex is bytes in hex, with spaces.
func unhex(s string) (b []byte) {
	s = strings.ReplaceAll(s, " ", "")
	for ; s != ""; s = s[2:] {
		var v byte
		for _, c := range []byte(s[:2]) {
			v = v<<4 | byte(strings.IndexByte("0123456789abcdef", c))
		}
		b = append(b, v)
	}
	return b
}

// be is a word of a doorbell record as it lies in memory.
func be(v uint32) []byte { return []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)} }

func cqe(c prm.Completion) []byte {
	b := make([]byte, prm.CQESize)
	prm.PutCQE(b, c)
	last := prm.LastWord(c)
	copy(b[prm.CQELastWord:], uapi.Bytes(&last))
	return append(bytes.Clone(c.Inline), b...)
}

// lines are records and what is said of them.
var lines = []struct {
	name string
	r    Record
	want string
}{
	{"close", Record{Kind: Close}, "CLOSE"},
	{"mapping", Record{Kind: Map, Offset: 0x900000, Length: 4096, Number: 9}, "MMAP offset=0x900000 length=4096 = 0 page=0x9"},
	{"mapping refused", Record{Kind: Map, Offset: 4096, Length: 1, Errno: syscall.EINVAL, Reason: "invalid argument"},
		"MMAP offset=0x1000 length=1 = -1 EINVAL (invalid argument)"},
	{"send doorbell", Record{Kind: Doorbell, Number: 9, Offset: 0x800, Bytes: append(unhex("0000050a 00010402"), make([]byte, 248)...), BlueFlame: true},
		"DOORBELL page=0x9 register=0x800 qpn=0x104 index=5 SEND ds=2 BLUEFLAME"},
	{"several doorbells", Record{Kind: Doorbell, Number: 9, Offset: 0x900, Rings: 3, Bytes: unhex("00000509 00010403")},
		"DOORBELL page=0x9 register=0x900 qpn=0x104 index=5 RDMA_WRITE_IMM ds=3 rings=3"},
	{"doorbell lost", Record{Kind: Doorbell, Number: 9, Offset: 0x800, Rings: 2}, "DOORBELL page=0x9 register=0x800 overtaken rings=2"},
	{"arm", Record{Kind: Doorbell, Number: 9, Offset: 0x20, Bytes: unhex("21000007 00000045"), Rings: 1},
		"DOORBELL page=0x9 register=0x20 cqn=0x45 sn=2 ci=7 SOLICITED"},
	{"send record", Record{Kind: RecordRead, Queue: SendQueue, Number: 0x104, Bytes: be(6)}, "DBREC SQ qpn=0x104 posted=6"},
	{"receive record", Record{Kind: RecordRead, Queue: ReceiveQueue, Number: 0x104, Bytes: be(500)}, "DBREC RQ qpn=0x104 posted=500"},
	{"shared record", Record{Kind: RecordRead, Queue: SharedQueue, Number: 0x51, Bytes: be(70000)}, "DBREC SRQ srqn=0x51 posted=70000"},
	{"consumer index", Record{Kind: RecordRead, Queue: CompletionQueue, Number: 0x45, Bytes: be(12)}, "DBREC CQ cqn=0x45 ci=12"},
	{"arm record", Record{Kind: RecordRead, Queue: ArmWord, Number: 0x45, Bytes: be(0x10000003)}, "DBREC ARM cqn=0x45 sn=1 ci=3 NEXT"},
	{"arm record never written", Record{Kind: RecordRead, Queue: ArmWord, Number: 0x45, Bytes: be(0xffffffff)}, "DBREC ARM cqn=0x45 arm=0xffffffff"},
	{"write with immediate", Record{Kind: Work, Queue: SendQueue, Number: 0x104, Index: 5, QPType: uapi.QPTypeRC,
		Bytes: unhex("00000509 00010403 0000000a 00000007 00007f0000001000 0000abcd 00000000 00001000 0000ef01 000055aa00002000")},
		"SEND_WQE qpn=0x104 index=5 RDMA_WRITE_IMM SIGNALED|SOLICITED ds=3 imm=0x7 remote_addr=0x7f0000001000 rkey=0xabcd length=4096 " +
			"sge{addr=0x55aa00002000 length=4096 lkey=0xef01}"},
	{"inline", Record{Kind: Work, Queue: SendQueue, Number: 0x104, Index: 5, QPType: uapi.QPTypeRC,
		Bytes: unhex("0000050a 00010402 00000000 00000000 80000005 68656c6c 6f000000 00000000")},
		"SEND_WQE qpn=0x104 index=5 SEND ds=2 length=5 inline=68656c6c6f"},
	{"atomic", Record{Kind: Work, Queue: SendQueue, Number: 0x104, QPType: uapi.QPTypeRC,
		Bytes: unhex("00000011 00010404 00000008 00000000" + "0000000000001000 0000abcd 00000000" + "0000000000000002 0000000000000001" + "00000008 0000ef01 0000000000002000")},
		"SEND_WQE qpn=0x104 index=0 COMPARE_SWAP SIGNALED ds=4 remote_addr=0x1000 rkey=0xabcd swap_add=0x2 compare=0x1 length=8 sge{addr=0x2000 length=8 lkey=0xef01}"},
	{"datagram", Record{Kind: Work, Queue: SendQueue, Number: 0x104, QPType: uapi.QPTypeUD,
		Bytes: unhex("0000000a 00010404 00000008 00000000" + "11111111 00000000 80000222 0000c000 00000000 000102030405 00 40 40000000 00000000000000000000ffff7f000001")},
		"SEND_WQE qpn=0x104 index=0 SEND SIGNALED ds=4 av{qpn=0x222 qkey=0x11111111 gid=127.0.0.1 sgid_index=0 lid_udp_sport=49152 sl=0 hop_limit=64} length=0"},
	{"bad entry", Record{Kind: Work, Queue: SendQueue, Number: 0x104, QPType: uapi.QPTypeRC, Reason: "unknown control flags",
		Bytes: unhex("0000000a 00010401 00000001 00000000")},
		`SEND_WQE qpn=0x104 index=0 SEND 0x1 bytes=0000000a000104010000000100000000 error="unknown control flags"`},
	{"no entry", Record{Kind: Work, Queue: SendQueue, Number: 0x104, Reason: "gone"}, "SEND_WQE qpn=0x104 index=0 bytes= error=gone"},
	{"receive", Record{Kind: Work, Queue: ReceiveQueue, Number: 0x104, Index: 3,
		Bytes: unhex("00000040 0000ef01 0000000000002000 00000000 00000100 0000000000000000")},
		"RECV_WQE qpn=0x104 index=3 sge{addr=0x2000 length=64 lkey=0xef01}"},
	{"bad receive", Record{Kind: Work, Queue: ReceiveQueue, Number: 0x104, Bytes: []byte{1}}, "RECV_WQE qpn=0x104 index=0 bytes=01"},
	{"shared receive", Record{Kind: Work, Queue: SharedQueue, Number: 0x51, Index: 3,
		Bytes: unhex("00000004 00000000 0000000000000000 00000040 0000ef01 0000000000002000")},
		"SRQ_WQE srqn=0x51 index=3 next=4 sge{addr=0x2000 length=64 lkey=0xef01}"},
	{"sent", Record{Kind: Completion, Queue: CompletionQueue, Number: 0x45, Index: 7,
		Bytes: cqe(prm.Completion{QPN: 0x104, SendOpcode: prm.OpSend, WQECounter: 5, Owner: 1})},
		"CQE cqn=0x45 index=7 qpn=0x104 REQ SEND wqe_counter=5 owner=1"},
	{"read", Record{Kind: Completion, Queue: CompletionQueue, Number: 0x45,
		Bytes: cqe(prm.Completion{QPN: 0x104, SendOpcode: prm.OpRead, ByteCount: 3, Format: prm.CQEInline32, Inline: nil})},
		"CQE cqn=0x45 index=0 qpn=0x104 REQ RDMA_READ wqe_counter=0 byte_cnt=3 inline=000000 owner=0"},
	{"received", Record{Kind: Completion, Queue: CompletionQueue, Number: 0x45,
		Bytes: cqe(prm.Completion{Opcode: prm.CQEReceiveImm, QPN: 0x104, UserIndex: 9, ByteCount: 64, Imm: 7, RemoteQPN: 0x222, GRH: true, Solicited: true, SourceLID: 2})},
		"CQE cqn=0x45 index=0 qpn=0x104 RESP_SEND_IMM wqe_counter=0 byte_cnt=64 imm_inval_pkey=0x7 src_qp=0x222 slid=2 GRH SOLICITED srqn_uidx=0x9 owner=0"},
	{"received in the completion", Record{Kind: Completion, Queue: CompletionQueue, Number: 0x45,
		Bytes: cqe(prm.Completion{Opcode: prm.CQEReceive, QPN: 0x104, ByteCount: 2, Format: prm.CQEInline64, Inline: append([]byte("hi"), make([]byte, 62)...)})},
		"CQE cqn=0x45 index=0 qpn=0x104 RESP_SEND wqe_counter=0 byte_cnt=2 src_qp=0x0 inline=6869 owner=0"},
	{"failed", Record{Kind: Completion, Queue: CompletionQueue, Number: 0x45, Reason: "refused by the peer",
		Bytes: cqe(prm.Completion{Opcode: prm.CQERequesterError, QPN: 0x104, SendOpcode: prm.OpWrite, Syndrome: prm.SyndromeRemoteAccess, VendorSyndrome: 0x88})},
		`CQE cqn=0x45 index=0 qpn=0x104 REQ_ERR RDMA_WRITE wqe_counter=0 syndrome=0x13 status="remote access" vendor_err_synd=0x88 detail="refused by the peer" owner=0`},
	{"compressed", Record{Kind: Completion, Queue: CompletionQueue, Number: 0x45, Bytes: cqe(prm.Completion{Opcode: prm.CQEReceive, Format: prm.CQECompressed})},
		"CQE cqn=0x45 index=0 qpn=0x0 RESP_SEND wqe_counter=0 byte_cnt=0 src_qp=0x0 format=3 owner=0"},
	{"half a completion", Record{Kind: Completion, Number: 0x45, Bytes: []byte{7}}, "CQE cqn=0x45 index=0 bytes=07"},
	{"completion event", Record{Kind: CompletionEvent, FD: 5, Queue: CompletionQueue, Number: 0x45, Bytes: enc(uapi.CompEvent{CQHandle: 0xabc})},
		"COMP_EVENT fd=5 cqn=0x45 element=0xabc"},
	{"event", Record{Kind: AsyncEvent, FD: 4, Queue: QueuePair, Number: 0x104, Bytes: enc(uapi.AsyncEvent{Element: 1, EventType: uapi.EventQPFatal})},
		"ASYNC_EVENT fd=4 qpn=0x104 QP_FATAL element=0x1"},
	{"event of a port", Record{Kind: AsyncEvent, FD: 4, Bytes: enc(uapi.AsyncEvent{Element: 1, EventType: 99})}, "ASYNC_EVENT fd=4 99 element=0x1"},
	{"half an event", Record{Kind: AsyncEvent, FD: 4, Bytes: []byte{1}}, "ASYNC_EVENT fd=4 bytes=01"},
	{"half a word", Record{Kind: RecordRead, Queue: ArmWord, Number: 0x45, Bytes: []byte{1}}, "DBREC ARM cqn=0x45 bytes=01"},
	{"bad shared receive", Record{Kind: Work, Queue: SharedQueue, Number: 0x51, Bytes: []byte{1}}, "SRQ_WQE srqn=0x51 index=0 bytes=01"},
	{"note", Record{Kind: Note, Reason: "send failed\nqpn=260"}, "NOTE send failed qpn=260"},
	{"a kind to come", Record{Kind: 99, Bytes: bytes.Repeat([]byte{1}, 257)}, "UNKNOWN kind=99 bytes=" + strings.Repeat("01", 256) + "+1"},
}

func TestLines(t *testing.T) {
	for _, c := range lines {
		c.r.NIC, c.r.Process, c.r.File = "mlx5_0", 4711, 1
		require.Equal(t, []string{"mlx5_0 4711.1 " + c.want}, said(t, &c.r), c.name)
	}
}

func TestOpen(t *testing.T) {
	require.Contains(t, said(t, &Record{Kind: Open, Process: os.Getpid()})[0], "OPEN")
	require.Equal(t, []string{"x -1.1 OPEN"}, said(t, &Record{Kind: Open, NIC: "x", Process: -1, File: 1}))
}

// A word of a doorbell record is shown when it changes, and once more for another file
// or queue of the same number.
func TestRecordsThatChange(t *testing.T) {
	read := func(file int, v uint32) *Record {
		return &Record{Kind: RecordRead, NIC: "x", File: file, Queue: SendQueue, Number: 1, Bytes: be(v)}
	}
	destroy := &Record{Kind: Ioctl, NIC: "x", File: 1,
		Command: &Command{Name: "DESTROY_QP", Objects: []Object{{Kind: uapi.ObjectQP, Number: 1}}}}
	got := said(t, read(1, 0), read(1, 0), read(2, 0), read(1, 1), read(1, 1), destroy, read(1, 1),
		&Record{Kind: Close, NIC: "x", File: 2}, read(2, 0), read(1, 1))
	require.Equal(t, []string{
		"x 0.1 DBREC SQ qpn=0x1 posted=0",
		"x 0.2 DBREC SQ qpn=0x1 posted=0",
		"x 0.1 DBREC SQ qpn=0x1 posted=1",
		"x 0.1 DESTROY_QP = 0",
		"x 0.1 DBREC SQ qpn=0x1 posted=1",
		"x 0.2 CLOSE",
		"x 0.2 DBREC SQ qpn=0x1 posted=0",
	}, got)
}

// writer notes what is written, and fails after room bytes.
type writer struct {
	mu     sync.Mutex
	writes []string
	room   int
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("full")
	}
	w.writes = append(w.writes, string(p))
	return len(p), nil
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes)
}

// Lines come out soon, together and whole.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{room: 1 << 20}
		l := NewLog(w)
		for range 3 {
			l.Trace(&Record{Kind: Close})
		}
		require.Zero(t, w.count())
		time.Sleep(flushWait)
		synctest.Wait()
		require.Equal(t, 1, w.count())
		require.Equal(t, 4, strings.Count(w.writes[0], "\n"))
		for range 3 { // more of them, all the time, do not put it off
			time.Sleep(flushWait / 2)
			l.Trace(&Record{Kind: Close})
		}
		synctest.Wait()
		require.Equal(t, 2, w.count())
		for range flushSize / 16 {
			l.Trace(&Record{Kind: Close})
		}
		require.Greater(t, w.count(), 1)
		require.NoError(t, l.Close())
		for _, s := range w.writes {
			require.True(t, strings.HasSuffix(s, "CLOSE\n"))
		}
		l.Trace(&Record{Kind: Close})
		require.ErrorIs(t, l.Close(), os.ErrClosed)
	})
}

func TestWriterFails(t *testing.T) {
	w := &writer{}
	l := NewLog(w)
	l.Trace(&Record{Kind: Close})
	require.EqualError(t, l.Flush(), "full")
	w.room = 1 << 20
	l.Trace(&Record{Kind: Close})
	require.EqualError(t, l.Close(), "full", "what is missing is missing")
	require.Empty(t, w.writes)
}
