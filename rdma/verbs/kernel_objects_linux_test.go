package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/stretchr/testify/require"
)

// kernelObjects are one of everything on Soft-RoCE.
type kernelObjects struct {
	c       *Context
	mem     *hostmem.Memory
	pd      uint32
	mr      MR
	channel *CompChannel
	cq      CQ
	qp      QP
	pages   []*Page // of the completion, receive and send queue
}

// User handles of the completion queue and the queue pair.
const (
	cqUser = 77
	qpUser = 78
)

// newKernelObjects makes them. Those that a test leaves open, because it failed,
// would keep the device from being removed.
func newKernelObjects(t *testing.T, d Device) *kernelObjects {
	t.Helper()
	f, err := d.Open()
	require.NoError(t, err)
	c, err := NewContext(f, DriverRXE, nil, nil)
	require.NoError(t, err)
	o := &kernelObjects{c: c}
	t.Cleanup(o.abandon)
	o.pd, err = c.AllocPD(nil)
	require.NoError(t, err)
	o.mem, err = hostmem.Alloc(8192)
	require.NoError(t, err)
	o.mr, err = c.RegMR(RegMR{PD: o.pd, Addr: o.mem.Addr(), IOVA: o.mem.Addr(), Length: 8192, Access: AccessLocalWrite | AccessRemoteWrite})
	require.NoError(t, err)
	o.channel, err = c.CreateCompChannel()
	require.NoError(t, err)
	cqInfo, qpInfo := make([]byte, 16), make([]byte, 32)
	o.cq, err = c.CreateCQ(CreateCQ{UserHandle: cqUser, Entries: 16, Channel: o.channel, Out: cqInfo})
	require.NoError(t, err)
	o.qp, err = c.CreateQP(CreateQP{UserHandle: qpUser, PD: o.pd, SendCQ: o.cq.Handle, RecvCQ: o.cq.Handle, Type: RC,
		Cap: QPCap{SendWR: 4, RecvWR: 4, SendSGE: 1, RecvSGE: 1}, Out: qpInfo})
	require.NoError(t, err)
	for _, info := range [][]byte{cqInfo, qpInfo, qpInfo[16:]} {
		p, err := c.Map(int64(binary.NativeEndian.Uint64(info)), int(binary.NativeEndian.Uint32(info[8:])))
		require.NoError(t, err)
		o.pages = append(o.pages, p)
	}
	return o
}

// connect connects the queue pair to itself by the GID at an index.
func (o *kernelObjects) connect(t *testing.T, g GIDEntry) {
	t.Helper()
	require.NoError(t, o.c.ModifyQP(o.qp.Handle, QPAttr{State: StateInit, Port: 1, Access: AccessRemoteWrite}, MaskResetToInit))
	require.NoError(t, o.c.ModifyQP(o.qp.Handle, o.rtr(g.Index, g.GID), MaskInitToRTR))
	require.NoError(t, o.c.ModifyQP(o.qp.Handle, QPAttr{State: StateRTS, SendPSN: 5, Timeout: 14, Retries: 7, RNRRetries: 7, Reads: 1}, MaskRTRToRTS))
}

func (o *kernelObjects) rtr(index int, peer GID) QPAttr {
	return QPAttr{State: StateRTR, MTU: MTU1024, RecvPSN: 5, PeerQPN: o.qp.QPN, PeerReads: 1, MinRNRTimer: 12,
		Path: Path{Global: true, GID: peer, SGIDIndex: uint8(index), Port: 1}}
}

// unmap unmaps the queues, which keep the context alive.
func (o *kernelObjects) unmap(t *testing.T) {
	t.Helper()
	for _, p := range o.pages {
		require.NoError(t, p.Unmap())
	}
}

// abandon closes what is still open.
func (o *kernelObjects) abandon() {
	for _, p := range o.pages {
		_ = p.Unmap()
	}
	if o.channel != nil {
		_ = o.channel.Close()
	}
	_ = o.c.Close()
	if o.mem != nil {
		_ = o.mem.Free()
	}
}

// close closes everything and destroys nothing.
func (o *kernelObjects) close(t *testing.T) {
	t.Helper()
	o.unmap(t)
	require.NoError(t, o.channel.Close())
	require.NoError(t, o.c.Close())
	require.NoError(t, o.mem.Free())
}
