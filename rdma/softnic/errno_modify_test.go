package softnic

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/uapi"
)

// The state machine: every pair of states, and every bit of the mask.
func TestTransitions(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	path := []uapi.ModifyQP{q.toInit(), q.toRTR(q), q.toRTS()}
	reach := func(state uint8) {
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
		for i, m := range path {
			if state == uapi.QPErr && i < 1 || state <= uapi.QPRTS && uint8(i) < state {
				require.NoError(t, r.modify(m))
			}
		}
		if state == uapi.QPErr {
			require.NoError(t, r.modify(q.to(uapi.QPErr)))
		}
		require.Equal(t, state, q.state())
	}
	all := path[0]
	all.Dest, all.PathMTU, all.DestQPNum = path[1].Dest, path[1].PathMTU, path[1].DestQPNum
	states := []uint8{uapi.QPReset, uapi.QPInit, uapi.QPRTR, uapi.QPRTS, uapi.QPErr}
	for _, from := range states {
		for to := uint8(0); to <= 7; to++ {
			tr, ok := transitionOf(from, to)
			m := all
			m.QPState, m.AttrMask = to, tr.required|uapi.QPAttrState
			reach(from)
			if !ok {
				requireErrno(t, syscall.EINVAL, r.modify(m), "%d to %d", from, to)
				require.Equal(t, from, q.state())
				continue
			}
			for bit := range 21 {
				b := uint32(1) << bit
				if b == uapi.QPAttrState {
					continue
				}
				wrong := m
				wrong.AttrMask ^= b
				if wrong.AttrMask&b != 0 && tr.optional&b != 0 {
					continue
				}
				requireErrno(t, syscall.EINVAL, r.modify(wrong), "%d to %d with mask %#x", from, to, wrong.AttrMask)
				require.Equal(t, from, q.state())
			}
			requireErrno(t, 0, r.modify(m), "%d to %d", from, to)
			require.Equal(t, to, q.state())
		}
	}
	reach(uapi.QPReset)
	wrong := q.toInit()
	wrong.AttrMask |= uapi.QPAttrRateLimit
	requireErrno(t, syscall.EOPNOTSUPP, r.modify(wrong))
}

func TestAttributeErrors(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	cq := r.createCQ(16, false)
	q := r.createQP(16, 16, cq, cq)
	tests := []struct {
		name   string
		from   uint8
		change func(*uapi.ModifyQP)
		want   syscall.Errno
	}{
		{"port 2", uapi.QPReset, func(m *uapi.ModifyQP) { m.PortNum = 2 }, syscall.EINVAL},
		{"port 0", uapi.QPReset, func(m *uapi.ModifyQP) { m.PortNum = 0 }, syscall.EINVAL},
		{"pkey", uapi.QPReset, func(m *uapi.ModifyQP) { m.PkeyIndex = 1 }, syscall.EINVAL},
		{"access", uapi.QPReset, func(m *uapi.ModifyQP) { m.QPAccessFlags = 1 << 9 }, syscall.EINVAL},
		{"MTU 0", uapi.QPInit, func(m *uapi.ModifyQP) { m.PathMTU = 0 }, syscall.EINVAL},
		{"MTU 6", uapi.QPInit, func(m *uapi.ModifyQP) { m.PathMTU = 6 }, syscall.EINVAL},
		{"reads", uapi.QPInit, func(m *uapi.ModifyQP) { m.MaxDestRdAtomic = 17 }, syscall.EINVAL},
		{"RNR timer", uapi.QPInit, func(m *uapi.ModifyQP) { m.MinRnrTimer = 32 }, syscall.EINVAL},
		{"peer number", uapi.QPInit, func(m *uapi.ModifyQP) { m.DestQPNum = 1 << 24 }, syscall.EINVAL},
		{"path port", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.PortNum = 2 }, syscall.EINVAL},
		{"path reserved", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Reserved = 2 }, syscall.EINVAL},
		{"static rate", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.StaticRate = 99 }, syscall.EINVAL},
		{"service level", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Sl = 16 }, syscall.EINVAL},
		{"not global", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.IsGlobal = 0 }, syscall.EINVAL},
		{"source beyond the table", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.SgidIndex = 8 }, syscall.EINVAL},
		{"source slot empty", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.SgidIndex = 7 }, syscall.ENODATA},
		{"RoCE v1", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.SgidIndex = 2 }, syscall.EOPNOTSUPP},
		{"no peer", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid = [16]byte{} }, syscall.EINVAL},
		{"multicast", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[0] = 0xff }, syscall.EINVAL},
		{"IPv4 multicast", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[12] = 224 }, syscall.EINVAL},
		{"IPv6 from IPv4", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[0] = 0x20 }, syscall.EINVAL},
		{"nobody", uapi.QPInit, func(m *uapi.ModifyQP) { m.Dest.Dgid[14] ^= 1 }, syscall.ETIMEDOUT},
		{"timeout", uapi.QPRTR, func(m *uapi.ModifyQP) { m.Timeout = 32 }, syscall.EINVAL},
		{"retries", uapi.QPRTR, func(m *uapi.ModifyQP) { m.RetryCnt = 8 }, syscall.EINVAL},
		{"RNR retries", uapi.QPRTR, func(m *uapi.ModifyQP) { m.RnrRetry = 8 }, syscall.EINVAL},
		{"reads as initiator", uapi.QPRTR, func(m *uapi.ModifyQP) { m.MaxRdAtomic = 17 }, syscall.EINVAL},
		{"current state", uapi.QPRTR, func(m *uapi.ModifyQP) {
			m.AttrMask |= uapi.QPAttrCurState
			m.CurQPState = uapi.QPRTS
		}, syscall.EINVAL},
		{"right current state", uapi.QPRTR, func(m *uapi.ModifyQP) {
			m.AttrMask |= uapi.QPAttrCurState
			m.CurQPState = uapi.QPRTR
		}, 0},
		{"migration armed", uapi.QPRTR, func(m *uapi.ModifyQP) { m.AttrMask |= uapi.QPAttrPathMigState; m.PathMigState = 2 }, syscall.EINVAL},
		{"migrated", uapi.QPRTR, func(m *uapi.ModifyQP) { m.AttrMask |= uapi.QPAttrPathMigState }, 0},
		{"alternate path", uapi.QPRTR, func(m *uapi.ModifyQP) { m.AttrMask |= uapi.QPAttrAltPath }, syscall.EINVAL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, r.modify(q.to(uapi.QPReset)))
			path := []uapi.ModifyQP{q.toInit(), q.toRTR(q), q.toRTS()}
			for _, m := range path[:tt.from] {
				require.NoError(t, r.modify(m))
			}
			m := path[tt.from]
			tt.change(&m)
			requireErrno(t, tt.want, r.modify(m))
		})
	}
	// The extended command, and the driver's part.
	require.NoError(t, r.modify(q.to(uapi.QPReset)))
	ex := uapi.ExModifyQP{Base: q.toInit()}
	for name, tt := range map[string]struct {
		change func(*uapi.ExModifyQP)
		want   syscall.Errno
	}{
		"unknown bit": {func(m *uapi.ExModifyQP) { m.Base.AttrMask |= 1 << 26 }, syscall.EOPNOTSUPP},
		"rate limit":  {func(m *uapi.ExModifyQP) { m.Base.AttrMask |= uapi.QPAttrRateLimit }, syscall.EINVAL},
		"reserved":    {func(m *uapi.ExModifyQP) { m.Reserved = 1 }, syscall.EOPNOTSUPP},
	} {
		m := ex
		tt.change(&m)
		_, _, err := r.write(uapi.CmdExModifyQP, enc(m), 8, nil, 0)
		requireErrno(t, tt.want, err, name)
	}
	_, _, err := r.write(uapi.CmdExModifyQP, enc(ex), 8, make([]byte, 12), 0)
	requireErrno(t, syscall.EINVAL, err, "short driver request")
	_, _, err = r.write(uapi.CmdExModifyQP, enc(ex), 8, make([]byte, 16), 16)
	requireErrno(t, 0, err)
}
