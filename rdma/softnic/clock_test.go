package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
)

// What the page says about the clock makes the system's time of a completion's
// timestamp.
func TestClockInfo(t *testing.T) {
	r, cq, q := loopback(t, private(), 16, 16, 16)
	page, err := r.file.Map(prm.MapOffset(prm.MapClockInfo, prm.ClockInfoV1, pageSize()), pageSize())
	require.NoError(t, err)
	require.Nil(t, page.Wake)
	nanoseconds, cycles := binary.NativeEndian.Uint64(page.Mem[8:]), binary.NativeEndian.Uint64(page.Mem[16:])
	mult, shift := binary.NativeEndian.Uint32(page.Mem[32:]), binary.NativeEndian.Uint32(page.Mem[36:])
	require.EqualValues(t, 1<<63-1, binary.NativeEndian.Uint64(page.Mem[40:]))
	before := time.Now()
	w := make([]byte, prm.Unit)
	c := q.ctrl(prm.OpNop, 1)
	prm.PutCtrl(w, &c)
	q.post(w)
	stamp := cq.wait().Timestamp()
	at := time.Unix(0, int64(nanoseconds+(stamp-cycles)*uint64(mult)>>shift))
	require.False(t, at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)), "%v", at)
	require.NoError(t, page.Unmap())

	for offset, want := range map[int64]error{
		prm.MapOffset(prm.MapClockInfo, 1, pageSize()): syscall.EOPNOTSUPP,
		prm.MapOffset(prm.MapCoreClock, 0, pageSize()): syscall.EINVAL,
	} {
		_, err := r.file.Map(offset, pageSize())
		require.Equal(t, want, err)
	}
	_, err = r.file.Map(prm.MapOffset(prm.MapClockInfo, 0, pageSize()), 2*pageSize())
	require.Equal(t, syscall.EINVAL, err)
}
