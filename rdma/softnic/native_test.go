package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// nativeCQ and nativeQP build the native creation methods; a negative channel or
// event file is left out.
type nativeCQ struct {
	cqe, vector    uint32
	flags          uint64
	channel, event int64
	page           uint32
	udata          prm.CreateCQRequest
}

func (r *raw) createNativeCQ(q nativeCQ) (handle uint64, cqe uint32, err error) {
	var reply []byte
	err = r.callThen(uapi.ObjectCQ, uapi.MethodCQCreate, func(c *uapi.Command) {
		c.NewObject(uapi.AttrCreateCQHandle)
		c.In(uapi.AttrCreateCQCQE, enc(q.cqe))
		c.In(uapi.AttrCreateCQUserHandle, enc(uint64(0xc0)))
		c.In(uapi.AttrCreateCQCompVector, enc(q.vector))
		c.In(uapi.AttrCreateCQFlags, enc(q.flags))
		reply = c.Out(uapi.AttrCreateCQRespCQE, 4)
		if q.channel >= 0 {
			c.Object(uapi.AttrCreateCQCompChannel, uint64(q.channel))
		}
		if q.event >= 0 {
			c.Object(uapi.AttrCreateCQEventFD, uint64(q.event))
		}
		if q.page != 0 {
			c.In(prm.AttrCreateCQPage, enc(q.page))
		}
		c.In(uapi.AttrUHWIn, prm.Bytes(&q.udata))
		c.Out(uapi.AttrUHWOut, 8)
	}, func(c *uapi.Command) { handle = c.Data(0) })
	if err == nil {
		cqe = binary.NativeEndian.Uint32(reply)
	}
	return handle, cqe, err
}

func TestNativeQueues(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	good := nativeCQ{cqe: 20, channel: -1, event: -1, udata: r.cqUdata(buf, record)}
	for name, tt := range map[string]struct {
		change func(*nativeCQ)
		want   syscall.Errno
	}{
		"good":            {func(q *nativeCQ) {}, 0},
		"page attribute":  {func(q *nativeCQ) { q.page, q.udata.Flags, q.udata.UARPage = r.page, 0, 0 }, 0},
		"unknown page":    {func(q *nativeCQ) { q.page, q.udata.Flags = r.page+1, 0 }, syscall.EINVAL},
		"flags":           {func(q *nativeCQ) { q.flags = 1 << 40 }, syscall.EINVAL},
		"unknown flag":    {func(q *nativeCQ) { q.flags = 4 }, syscall.EINVAL},
		"channel":         {func(q *nativeCQ) { q.channel = 5 }, syscall.EBADF},
		"channel -1":      {func(q *nativeCQ) { q.channel = 1<<32 - 1 }, syscall.EBADF},
		"event file":      {func(q *nativeCQ) { q.event = 5 }, syscall.EBADF},
		"good event file": {func(q *nativeCQ) { q.event = int64(r.async.fd) }, 0},
		"vector":          {func(q *nativeCQ) { q.vector = 1 }, syscall.EINVAL},
	} {
		q := good
		tt.change(&q)
		h, cqe, err := r.createNativeCQ(q)
		requireErrno(t, tt.want, err, name)
		if err != nil {
			continue
		}
		require.EqualValues(t, 31, cqe, name)
		require.NoError(t, r.call(uapi.ObjectCQ, uapi.MethodCQDestroy, func(c *uapi.Command) {
			c.Object(uapi.AttrDestroyCQHandle, h)
			c.Out(uapi.AttrDestroyCQResp, 8)
		}))
	}
	require.Zero(t, n.Counters().CQs)
	cq, _, err := r.createNativeCQ(good)
	require.NoError(t, err)
	testNativeQueuePair(t, r, cq)
}

func testNativeQueuePair(t *testing.T, r *raw, cq uint64) {
	_, buf := r.alloc(16 << 10)
	_, record := r.alloc(8)
	udata := r.qpUdata(16, 16, buf, record)
	type request struct {
		kind     uint64
		flags    uint64
		pd, cq   int64
		event    int64
		sourceQP bool
	}
	create := func(q request) (h uint64, reply []byte, err error) {
		err = r.callThen(uapi.ObjectQP, uapi.MethodQPCreate, func(c *uapi.Command) {
			c.NewObject(uapi.AttrCreateQPHandle)
			if q.pd >= 0 {
				c.Object(uapi.AttrCreateQPPD, uint64(q.pd))
			}
			if q.cq >= 0 {
				c.Object(uapi.AttrCreateQPSendCQ, uint64(q.cq))
				c.Object(uapi.AttrCreateQPRecvCQ, uint64(q.cq))
			}
			c.In(uapi.AttrCreateQPUserHandle, enc(uint64(1)))
			c.In(uapi.AttrCreateQPCap, enc(uapi.QPCap{MaxSendWR: 16, MaxRecvWR: 16}))
			c.Const(uapi.AttrCreateQPType, q.kind)
			c.In(uapi.AttrCreateQPFlags, enc(q.flags))
			if q.event >= 0 {
				c.Object(uapi.AttrCreateQPEventFD, uint64(q.event))
			}
			if q.sourceQP {
				c.In(uapi.AttrCreateQPSourceQPN, enc(uint32(1)))
			}
			reply = c.Out(uapi.AttrCreateQPRespCap, 20)
			c.Out(uapi.AttrCreateQPRespQPN, 4)
			c.In(uapi.AttrUHWIn, prm.Bytes(&udata))
			c.Out(uapi.AttrUHWOut, 40)
		}, func(c *uapi.Command) { h = c.Data(0) })
		return h, reply, err
	}
	good := request{kind: uapi.QPTypeRC, flags: nativeSignalAll, pd: int64(r.pd), cq: int64(cq), event: -1}
	for name, tt := range map[string]struct {
		change func(*request)
		want   syscall.Errno
	}{
		"type":       {func(q *request) { q.kind = 8 }, syscall.EOPNOTSUPP},
		"flags":      {func(q *request) { q.flags = 1 }, syscall.EINVAL},
		"no domain":  {func(q *request) { q.pd = -1 }, syscall.EINVAL},
		"bad domain": {func(q *request) { q.pd = 99 }, syscall.ENOENT},
		"CQ for PD":  {func(q *request) { q.pd = q.cq }, syscall.EINVAL},
		"no CQ":      {func(q *request) { q.cq = -1 }, syscall.EINVAL},
		"event file": {func(q *request) { q.event = 5 }, syscall.EBADF},
		"source":     {func(q *request) { q.sourceQP = true }, syscall.EOPNOTSUPP},
	} {
		q := good
		tt.change(&q)
		_, _, err := create(q)
		requireErrno(t, tt.want, err, name)
	}
	h, reply, err := create(good)
	require.NoError(t, err)
	require.EqualValues(t, 16, binary.NativeEndian.Uint32(reply))
	resp, _, err := r.write(uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: uint32(h)}), 128, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, resp[122], "signals all")
	require.EqualValues(t, 16, binary.NativeEndian.Uint32(resp[68:]))
	require.NoError(t, r.call(uapi.ObjectQP, uapi.MethodQPDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroyQPHandle, h)
		c.Out(uapi.AttrDestroyQPResp, 4)
	}))
}

func TestNativeQueries(t *testing.T) {
	n := newTestNIC(t, private())
	r := newRaw(t, n)
	var port, table, count, resp []byte
	require.NoError(t, r.call(uapi.ObjectDevice, uapi.MethodQueryPort, func(c *uapi.Command) {
		c.Const(uapi.AttrQueryPortPort, 1)
		port = c.Out(uapi.AttrQueryPortResp, 48)
	}))
	require.EqualValues(t, 4, port[26])
	require.EqualValues(t, n.MTU(), port[28])
	require.EqualValues(t, 2, port[37])
	require.EqualValues(t, 1, port[38])
	require.NoError(t, r.call(uapi.ObjectDevice, uapi.MethodQueryGIDTable, func(c *uapi.Command) {
		c.Const(uapi.AttrGIDTableEntrySize, 40)
		table = c.Out(uapi.AttrGIDTableEntries, 400)
		count = c.Out(uapi.AttrGIDTableNumEntries, 8)
	}))
	require.EqualValues(t, 4, binary.NativeEndian.Uint64(count))
	gid := n.GID()
	require.Equal(t, gid[:], table[120:136])
	require.EqualValues(t, 3, table[136])
	require.EqualValues(t, uapi.GIDTypeRoCEv2, table[144])
	require.NoError(t, r.call(uapi.ObjectDevice, uapi.MethodQueryContext, func(c *uapi.Command) {
		c.Out(uapi.AttrContextNumCompVectors, 4)
		c.Out(uapi.AttrContextCoreSupport, 8)
		resp = c.Out(prm.AttrQueryContextResponse, 72)
	}))
	require.EqualValues(t, 64, resp[12])
	require.EqualValues(t, 1, resp[44])
	device, _, err := r.write(uapi.CmdExQueryDevice, enc(uapi.ExQueryDevice{}), 304, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 16384, binary.NativeEndian.Uint32(device[52:]))
	require.EqualValues(t, 304, binary.NativeEndian.Uint32(device[180:]))
	var number, inSwitch []byte
	require.NoError(t, r.call(uapi.ObjectPD, prm.MethodPDQuery, func(c *uapi.Command) {
		c.Object(prm.AttrQueryPDHandle, uint64(r.pd))
		number = c.Out(prm.AttrQueryPDNumber, 4)
	}))
	d, ok := r.file.objects.get(uapi.ObjectPD, uint64(r.pd))
	require.True(t, ok)
	require.Equal(t, d.(*pd).number, binary.NativeEndian.Uint32(number))
	require.Equal(t, syscall.ENOENT, r.call(uapi.ObjectPD, prm.MethodPDQuery, func(c *uapi.Command) {
		c.Object(prm.AttrQueryPDHandle, 1000)
		c.Out(prm.AttrQueryPDNumber, 4)
	}))
	for n, want := range []error{syscall.EINVAL, nil} {
		err := r.call(uapi.ObjectDevice, prm.MethodQueryPort, func(c *uapi.Command) {
			c.In(prm.AttrQueryPortNumber, binary.NativeEndian.AppendUint32(nil, uint32(n)))
			inSwitch = c.Out(prm.AttrQueryPortResponse, 40)
			copy(inSwitch, "left from before")
		})
		require.Equal(t, want, err)
	}
	require.Equal(t, make([]byte, 40), inSwitch, "nothing of it is valid")
	m := r.regMR(4096, 0)
	var lkey, length []byte
	require.NoError(t, r.call(uapi.ObjectMR, uapi.MethodQueryMR, func(c *uapi.Command) {
		c.Object(uapi.AttrQueryMRHandle, uint64(m.handle))
		lkey = c.Out(uapi.AttrQueryMRLKey, 4)
		c.Out(uapi.AttrQueryMRRKey, 4)
		length = c.Out(uapi.AttrQueryMRLength, 8)
		c.Out(uapi.AttrQueryMRIOVA, 8)
	}))
	require.Equal(t, m.key, binary.NativeEndian.Uint32(lkey))
	require.EqualValues(t, 4096, binary.NativeEndian.Uint64(length))
	require.NoError(t, r.call(uapi.ObjectMR, uapi.MethodMRDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroyMRHandle, uint64(m.handle))
	}))
	require.NoError(t, r.call(uapi.ObjectPD, uapi.MethodPDDestroy, func(c *uapi.Command) {
		c.Object(uapi.AttrDestroyPDHandle, uint64(r.pd))
	}))
	require.Zero(t, n.Counters().PDs)
}
