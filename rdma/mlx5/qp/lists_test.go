package qp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// Lists are posted in order, with one doorbell, and land like what is posted singly.
func TestLists(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(qp.Config{Sends: 8, Receives: 8, ReceiveSegments: 2})
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	n, err := p.ReceiveAll([]qp.Buffer{
		{ID: 1, Into: h.MR.Local(0, 8)},
		{ID: 2, Into: h.MR.Local(100, 4), More: []region.Segment{h.MR.Local(200, 4)}},
		{ID: 3},
		{ID: 4, More: []region.Segment{h.MR.Local(300, 0), h.MR.Local(400, 8)}},
	})
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Equal(t, 4, p.Room(qp.Receives))
	sent := h.Fill(1000, 8, 5)
	h.File.Record()
	send := qp.Entry{Op: qp.Send, Local: h.MR.Local(1000, 8)}
	last := qp.Entry{Op: qp.Send, Inline: sent, ID: 9, Signaled: true}
	n, err = p.Submit([]qp.Entry{send, send, {Op: qp.WriteImm, Imm: 7}, last})
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Len(t, h.File.Bells(), 1)
	for i, c := range h.Poll(5)[:4] {
		require.NoError(t, c.Err())
		require.EqualValues(t, i+1, c.ID)
	}
	for _, off := range []int{0, 400} {
		require.Equal(t, sent, h.MR.Bytes()[off:][:8])
	}
	require.Equal(t, sent[:4], h.MR.Bytes()[100:104])
	require.Equal(t, sent[4:], h.MR.Bytes()[200:204])
}

// A list ends at what cannot be posted; what is before that is handed over.
func TestListsEndAtErrors(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{})
	p := h.Pair(qp.Config{Sends: 4, Receives: 4})
	one, long := qp.Buffer{Into: h.MR.Local(0, 8)}, qp.Buffer{Into: region.Segment{Length: 1<<31 - 1}}
	send := qp.Entry{Op: qp.Send, Local: h.MR.Local(0, 8), Signaled: true}
	post := func(buffers []qp.Buffer, entries []qp.Entry) (int, error, int, error) {
		r, err := p.ReceiveAll(buffers)
		s, err2 := p.Submit(entries)
		return r, err, s, err2
	}
	wants := func(want int, is error, buffers []qp.Buffer, entries []qp.Entry) {
		t.Helper()
		r, err, s, err2 := post(buffers, entries)
		require.ErrorIs(t, err, is)
		require.ErrorIs(t, err2, is)
		require.Equal(t, []int{want, want}, []int{r, s})
	}
	wants(0, qp.ErrNotConnected, []qp.Buffer{one}, []qp.Entry{send})
	require.NoError(t, p.Connect(region.Local, p.Endpoint()))
	wants(0, nil, nil, nil)
	wants(1, qp.ErrTooLong, []qp.Buffer{one, long, one}, []qp.Entry{send, {Op: qp.Send, Local: long.Into}, send})
	outside := h.MR.Local(-1, 1)
	wants(0, region.ErrRange, []qp.Buffer{{More: []region.Segment{outside}}}, []qp.Entry{{Op: qp.Send, Local: outside}})
	require.Len(t, h.Poll(2), 2)
	wants(4, qp.ErrRoom, []qp.Buffer{one, one, one, one, one}, []qp.Entry{send, send, send, send, send})
	require.Len(t, h.Poll(8), 8)
	wants(4, qp.ErrTooLong, []qp.Buffer{one, one, one, one, long}, []qp.Entry{send, send, send, send, {Op: qp.Send, Local: long.Into}})
	require.Len(t, h.Poll(8), 8)

	none := h.Pair(qp.Config{Sends: 4})
	require.NoError(t, none.Connect(region.Local, none.Endpoint()))
	_, err := none.ReceiveAll([]qp.Buffer{one})
	require.ErrorIs(t, err, qp.ErrNoReceives)
}

func TestListsAllocateNothing(t *testing.T) {
	h := mlx5test.NewHost(t, softnic.Config{Null: true})
	p := h.Pair(qp.Config{Sends: 4, Receives: 4})
	require.NoError(t, p.Connect(region.Local, p.Endpoint()))
	buffers := []qp.Buffer{{Into: h.MR.Local(0, 8)}, {Into: h.MR.Local(0, 8)}}
	entries := []qp.Entry{{Op: qp.Send, Local: h.MR.Local(0, 8), Signaled: true}, {Op: qp.Send, Local: h.MR.Local(0, 8), Signaled: true}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := p.ReceiveAll(buffers); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Submit(entries); err != nil {
			t.Fatal(err)
		}
		var c [4]cq.Completion
		if n, err := h.Done.Poll(c[:]); n != 4 || err != nil {
			t.Fatal(n, err)
		}
	}))
}
