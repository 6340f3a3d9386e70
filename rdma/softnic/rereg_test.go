package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

func (r *raw) rereg(m uapi.ReregMR) (lkey uint32, err error) {
	reply, _, err := r.write(uapi.CmdReregMR, enc(m), 8, nil, 0)
	return binary.NativeEndian.Uint32(reply), err
}

// A region that changes keeps its keys, and is no more than it has become.
func TestReregister(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	m := r.regMR(4096, allAccess)
	other := r.regMR(8192, allAccess)
	pinned := r.nic.Counters().PinnedBytes
	write := func(remote uint64, allowed bool) {
		t.Helper()
		q.post(q.entry(prm.OpWrite, other, 0, 8, remote, m.key))
		if allowed {
			cq.wants(prm.CQERequester, 0, 0)
			return
		}
		// It is its own peer, so that its refusal flushes its own entry.
		cq.wants(prm.CQERequesterError, prm.SyndromeFlushed, detailFlushed)
		r.readAsync(uapi.EventQPAccessErr)
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
		q.posted = 0
		q.storeRecord(prm.RecordSend, 0)
		q.connect(q)
	}
	write(m.addr, true)
	_, addr := r.alloc(8192)
	key, err := r.rereg(uapi.ReregMR{MRHandle: m.handle, Flags: uapi.ReregTranslation, Start: addr, HcaVa: 1 << 30, Length: 8192})
	require.NoError(t, err)
	require.Equal(t, m.key, key)
	require.Equal(t, pinned+4096, r.nic.Counters().PinnedBytes)
	copy(other.b, "written")
	write(1<<30+8184, true)
	require.Equal(t, "written", string(r.mem.Bytes()[addr-r.mem.Addr()+8184:][:7]))
	write(m.addr, false)

	_, err = r.rereg(uapi.ReregMR{MRHandle: m.handle, Flags: uapi.ReregAccess, AccessFlags: uapi.AccessRemoteRead})
	require.NoError(t, err)
	write(1<<30, false)
	_, err = r.rereg(uapi.ReregMR{MRHandle: m.handle, Flags: uapi.ReregAccess, AccessFlags: allAccess})
	require.NoError(t, err)
	write(1<<30, true)

	d := r.allocPD()
	_, err = r.rereg(uapi.ReregMR{MRHandle: m.handle, Flags: uapi.ReregPD, PDHandle: d})
	require.NoError(t, err)
	write(1<<30, false)
	_, _, err = r.write(uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: d}), 0, nil, 0)
	requireErrno(t, syscall.EBUSY, err)
	_, _, err = r.write(uapi.CmdDeregMR, enc(uapi.DeregMR{MRHandle: m.handle}), 0, nil, 0)
	require.NoError(t, err)
	_, _, err = r.write(uapi.CmdDeallocPD, enc(uapi.DeallocPD{PDHandle: d}), 0, nil, 0)
	require.NoError(t, err)
	require.Equal(t, pinned-4096, r.nic.Counters().PinnedBytes)
}

func TestReregisterErrors(t *testing.T) {
	cfg := private()
	cfg.Limits = Limits{MRs: 1, RegionBytes: 1 << 20, PinnedBytes: 64 << 10}
	r := newRaw(t, newTestNIC(t, cfg))
	m := r.regMR(4096, allAccess)
	_, addr := r.alloc(8192)
	for name, tt := range map[string]struct {
		req  uapi.ReregMR
		want syscall.Errno
	}{
		"nothing":      {uapi.ReregMR{}, syscall.EINVAL},
		"unknown flag": {uapi.ReregMR{Flags: 8}, syscall.EOPNOTSUPP},
		"offsets":      {uapi.ReregMR{Flags: uapi.ReregTranslation, Start: addr, HcaVa: 1, Length: 10}, syscall.EINVAL},
		"no region":    {uapi.ReregMR{MRHandle: 99, Flags: uapi.ReregAccess}, syscall.ENOENT},
		"access":       {uapi.ReregMR{Flags: uapi.ReregAccess, AccessFlags: uapi.AccessRemoteWrite}, syscall.EINVAL},
		"domain":       {uapi.ReregMR{Flags: uapi.ReregPD, PDHandle: 99}, syscall.ENOENT},
		"no length":    {uapi.ReregMR{Flags: uapi.ReregTranslation, Start: addr, HcaVa: addr}, syscall.EINVAL},
		"too long":     {uapi.ReregMR{Flags: uapi.ReregTranslation, Start: addr, HcaVa: addr, Length: 1<<20 + 1}, syscall.EINVAL},
		"too much":     {uapi.ReregMR{Flags: uapi.ReregTranslation, Start: addr, HcaVa: addr, Length: 61 << 10}, syscall.ENOMEM},
		"unmapped":     {uapi.ReregMR{Flags: uapi.ReregTranslation, Start: 4096, HcaVa: 4096, Length: 10}, syscall.EFAULT},
		"good":         {uapi.ReregMR{Flags: uapi.ReregTranslation, Start: addr, HcaVa: addr, Length: 10}, 0},
	} {
		if tt.req.MRHandle == 0 {
			tt.req.MRHandle = m.handle
		}
		_, err := r.rereg(tt.req)
		requireErrno(t, tt.want, err, name)
		require.EqualValues(t, 4096, r.nic.Counters().PinnedBytes, name)
	}
}
