package verbs

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/stretchr/testify/require"
)

// commands has every command: how it is called, what it must send, what is
// answered, and what must come back. call returns an error for a wrong result.
var commands = []struct {
	name string // in errors
	call func(t *testing.T, c *Context) (check func(), err error)
	step
}{
	{
		name: "query device",
		call: func(t *testing.T, c *Context) (func(), error) {
			a, err := c.QueryDevice()
			return func() {
				require.Equal(t, DeviceAttr{
					FirmwareVersion: 1, NodeGUID: 0x0102030405060708, SystemGUID: 0x1112131415161718,
					MaxMRSize: 2, PageSizes: 3, VendorID: 4, VendorPartID: 5, HardwareVersion: 6,
					MaxQP: 7, MaxQPWR: 8, CapFlags: 9, MaxSGE: 10, MaxSGERead: 11, MaxCQ: 12, MaxCQE: 13,
					MaxMR: 14, MaxPD: 15, MaxPeerReads: 16, MaxReads: 19, AtomicCap: 21,
					MaxSRQ: 33, MaxSRQWR: 34, MaxSRQSGE: 35, MaxPKeys: 36, LocalCAAckDelay: 37, Ports: 2,
				}, a)
			}, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 0100000000000000\n0x0 in 0000000000000000\n0x1 out 176",
			reply: map[uint16][]byte{1: queryDeviceReply()},
		},
	},
	{
		name: "query device",
		call: func(t *testing.T, c *Context) (func(), error) {
			out := make([]byte, 4)
			a, err := c.QueryDeviceEx([]byte{1}, out)
			return func() {
				require.Equal(t, uint32(7), a.MaxQP)
				require.Equal(t, uint64(3), a.ODPCaps)
				require.Equal(t, uint32(31), a.RCODPCaps)
				require.Equal(t, uint64(0xffff), a.TimestampMask)
				require.Equal(t, uint64(1000000), a.CoreClock)
				require.Equal(t, uint64(8), a.CapFlagsEx)
				require.Equal(t, uint16(50), a.MaxCQModCount)
				require.Equal(t, uint16(60), a.MaxCQModPeriod)
				require.Equal(t, "more", string(out))
			}, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 0100008000000000\n0x0 in 0000000000000000\n0x1 out 304\n0x1000 in 01\n0x1001 out 4",
			reply: map[uint16][]byte{1: queryDeviceExReply(), 0x1001: []byte("more")},
		},
	},
	{
		name: "query port",
		call: func(t *testing.T, c *Context) (func(), error) {
			p, err := c.QueryPort(2)
			return func() {
				require.Equal(t, PortAttr{
					CapFlags: 1, MaxMsgSize: 1 << 31, GIDs: 256, PKeys: 128, LID: 0x0102, SMLID: 0x0304,
					State: PortActive, MaxMTU: MTU4096, ActiveMTU: MTU1024, LMC: 7, SL: 9, Width: 2, Speed: 32,
					PhysState: 5, LinkLayer: LinkEthernet, GRHRequired: true,
				}, p)
			}, err
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 0200000000000000\n0x0 in 00000000000000000200000000000000\n0x1 out 40",
			reply: map[uint16][]byte{1: le(uint32(1), uint32(1<<31), uint32(0), uint32(0), uint32(256), uint16(128),
				uint16(0x0102), uint16(0x0304), uint8(4), uint8(5), uint8(3), uint8(7), uint8(8), uint8(9),
				uint8(10), uint8(11), uint8(2), uint8(32), uint8(5), uint8(2), uint8(1), uint8(0))},
		},
	},
	{
		name: "query GID table",
		call: func(t *testing.T, c *Context) (func(), error) {
			g, err := c.GIDs(2)
			return func() {
				require.Equal(t, []GIDEntry{
					{Index: 5, GID: GID{0xfe, 0x80, 15: 1}, Type: GIDTypeRoCEv2, IfIndex: 3},
				}, g)
			}, err
		},
		step: step{
			want:  "QUERY_GID_TABLE driver 1\n0x0 in 2000000000000000\n0x2 out 8192\n0x3 out 8",
			reply: map[uint16][]byte{2: gidReply(), 3: le(uint64(3))},
		},
	},
	{
		name: "allocate protection domain",
		call: func(t *testing.T, c *Context) (func(), error) {
			out := make([]byte, 8)
			pd, err := c.AllocPD(out)
			return func() {
				require.Equal(t, uint32(9), pd)
				require.Equal(t, le(uint32(0x101), uint32(0)), out)
			}, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 0300000000000000\n0x0 in 0000000000000000\n0x1 out 4\n0x1001 out 8",
			reply: map[uint16][]byte{1: le(uint32(9)), 0x1001: le(uint32(0x101))},
		},
	},
	{
		name: "free protection domain",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.DeallocPD(9) },
		step: step{want: "INVOKE_WRITE driver 1\n0x2 in 0400000000000000\n0x0 in 09000000"},
	},
	{
		name: "register memory",
		call: func(t *testing.T, c *Context) (func(), error) {
			m, err := c.RegMR(RegMR{PD: 9, Addr: 0x7f0000001000, Length: 0x2000, IOVA: 0x5000,
				Access: AccessLocalWrite | AccessRemoteRead | AccessRelaxedOrdering})
			return func() { require.Equal(t, MR{Handle: 1, LKey: 0x200, RKey: 0x300}, m) }, err
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 0900000000000000\n" +
				"0x0 in 0000000000000000001000" + "00007f0000" + "0020000000000000" + "0050000000000000" + "09000000" + "05001000\n" +
				"0x1 out 12",
			reply: map[uint16][]byte{1: le(uint32(1), uint32(0x200), uint32(0x300))},
		},
	},
	{
		name: "register dma-buf",
		call: func(t *testing.T, c *Context) (func(), error) {
			m, err := c.RegDmabufMR(RegDmabufMR{PD: 9, FD: 6, Offset: 0x1000, Length: 0x2000, IOVA: 0x3000, Access: AccessRemoteRead})
			return func() { require.Equal(t, MR{Handle: 4, LKey: 5, RKey: 6}, m) }, err
		},
		step: step{
			want: "REG_DMABUF_MR driver 1\n0x0 new 0\n0x7 out 4\n0x8 out 4\n0x1 object 9\n0x2 in 0010000000000000\n" +
				"0x3 in 0020000000000000\n0x4 in 0030000000000000\n0x5 in 06000000\n0x6 in 04000000",
			reply: map[uint16][]byte{7: le(uint32(5)), 8: le(uint32(6))},
			fresh: map[uint16]uint64{0: 4},
		},
	},
	{
		name: "deregister memory",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.DeregMR(4) },
		step: step{want: "INVOKE_WRITE driver 1\n0x2 in 0d00000000000000\n0x0 in 04000000"},
	},
	{
		name: "create completion channel",
		call: func(t *testing.T, c *Context) (func(), error) {
			ch, err := c.CreateCompChannel()
			return func() {
				require.Equal(t, int32(23), ch.FD())
				require.NoError(t, ch.Close())
			}, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 1100000000000000\n0x0 in 0000000000000000\n0x1 out 4",
			reply: map[uint16][]byte{1: le(uint32(23))},
		},
	},
	{
		name: "create completion queue",
		call: func(t *testing.T, c *Context) (func(), error) {
			out := make([]byte, 8)
			q, err := c.CreateCQ(CreateCQ{UserHandle: 0x1122334455667788, Entries: 255, Vector: 2,
				Channel: &CompChannel{fd: 23}, In: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, Out: out, Pinned: 16384})
			return func() {
				require.Equal(t, CQ{Handle: 8, Entries: 255}, q)
				require.Equal(t, le(uint64(0x400)), out)
			}, err
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 1200000000000000\n" +
				"0x0 in 00000000000000008877665544332211ff000000020000001700000000000000\n" +
				"0x1 out 8\n0x1000 in 010203040506070809\n0x1001 out 8",
			reply: map[uint16][]byte{1: le(uint32(8), uint32(255)), 0x1001: le(uint64(0x400))},
		},
	},
	{
		name: "create completion queue",
		call: func(t *testing.T, c *Context) (func(), error) {
			_, err := c.CreateCQ(CreateCQ{Entries: 1})
			return nil, err
		},
		step: step{ // without a channel
			want: "INVOKE_WRITE driver 1\n0x2 in 1200000000000000\n" +
				"0x0 in 000000000000000000000000000000000100000000000000ffffffff00000000\n0x1 out 8",
		},
	},
	{
		name: "destroy completion queue",
		call: func(t *testing.T, c *Context) (func(), error) {
			comp, async, err := c.DestroyCQ(8)
			return func() {
				require.Equal(t, uint32(3), comp)
				require.Equal(t, uint32(4), async)
			}, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 1400000000000000\n0x0 in 00000000000000000800000000000000\n0x1 out 8",
			reply: map[uint16][]byte{1: le(uint32(3), uint32(4))},
		},
	},
	{
		name: "arm completion queue",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.ReqNotifyCQ(8, true) },
		step: step{want: "INVOKE_WRITE driver 1\n0x2 in 1700000000000000\n0x0 in 0800000001000000"},
	},
	{
		name: "arm completion queue",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.ReqNotifyCQ(8, false) },
		step: step{want: "INVOKE_WRITE driver 1\n0x2 in 1700000000000000\n0x0 in 0800000000000000"},
	},
	{
		name: "create shared receive queue",
		call: func(t *testing.T, c *Context) (func(), error) {
			out := make([]byte, 8)
			q, err := c.CreateSRQ(CreateSRQ{UserHandle: 0x1122, PD: 9, MaxWR: 7, MaxSGE: 3, In: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, Out: out})
			return func() {
				require.Equal(t, SRQ{Handle: 6, MaxWR: 15, MaxSGE: 4}, q)
				require.Equal(t, byte(1), out[0])
			}, err
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 2000000000000000\n" +
				"0x0 in 0000000000000000221100000000000009000000070000000300000000000000\n" +
				"0x1 out 16\n0x1000 in 010203040506070809\n0x1001 out 8",
			reply: map[uint16][]byte{1: le(uint32(6), uint32(15), uint32(4), uint32(0)), 0x1001: {1}},
		},
	},
	{
		name: "set limit of shared receive queue",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.LimitSRQ(6, 5) },
		step: step{want: "INVOKE_WRITE driver 1\n0x2 in 2100000000000000\n0x0 in 06000000020000000000000005000000"},
	},
	{
		name: "destroy shared receive queue",
		call: func(t *testing.T, c *Context) (func(), error) {
			async, err := c.DestroySRQ(6)
			return func() { require.Equal(t, uint32(2), async) }, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 2300000000000000\n0x0 in 00000000000000000600000000000000\n0x1 out 4",
			reply: map[uint16][]byte{1: le(uint32(2))},
		},
	},
	{
		name: "create queue pair",
		call: func(t *testing.T, c *Context) (func(), error) {
			out := make([]byte, 40)
			q, err := c.CreateQP(CreateQP{UserHandle: 0x1122, PD: 9, SendCQ: 8, RecvCQ: 7, Type: RC,
				Cap: QPCap{SendWR: 1, RecvWR: 2, SendSGE: 3, RecvSGE: 4, Inline: 5}, In: make([]byte, 56), Out: out})
			return func() {
				require.Equal(t, QP{Handle: 11, QPN: 0x123, Cap: QPCap{SendWR: 21, RecvWR: 22, SendSGE: 23, RecvSGE: 24, Inline: 25}}, q)
				require.Equal(t, byte(1), out[0])
			}, err
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 1800000000000000\n" +
				"0x0 in 00000000000000002211000000000000090000000800000007000000000000000100000002000000030000000400000005000000" + "00020000\n" +
				"0x1 out 32\n0x1000 in " + zeros(56) + "\n0x1001 out 40",
			reply: map[uint16][]byte{
				1:      le(uint32(11), uint32(0x123), uint32(21), uint32(22), uint32(23), uint32(24), uint32(25), uint32(0)),
				0x1001: {1},
			},
		},
	},
	{
		name: "create queue pair",
		call: func(t *testing.T, c *Context) (func(), error) {
			srq := uint32(6)
			_, err := c.CreateQP(CreateQP{Type: UD, SRQ: &srq, SignalAll: true})
			return nil, err
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 1800000000000000\n" +
				"0x0 in 00000000000000000000000000000000000000000000000000000000" + "06000000" + zeros(20) + "01040100\n0x1 out 32",
		},
	},
	{
		name: "modify queue pair to RTR",
		call: func(t *testing.T, c *Context) (func(), error) {
			return nil, c.ModifyQP(11, allAttributes, MaskInitToRTR|MaskAccess)
		},
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 1a00000000000000\n" +
				"0x0 in " + destHex + zeros(32) +
				"0b000000" + "89911200" + // handle, mask
				"0d000000" + "0e000000" + "0f000000" + "10000000" + "03000000" + // Q_Key, PSNs, peer, access
				"11000000" + // P_Key index, alternate
				"02010500" + "00" + // state, current, MTU, migration, notify
				"1213" + "14" + "01" + "151617" + // reads, peer reads, RNR timer, port, timeout, retries
				"00000000", // alternate and reserved
		},
	},
	{
		name: "modify queue pair",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.ModifyQP(11, QPAttr{}, MaskAccess) },
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 1a00000000000000\n0x0 in " + zeros(64) + "0b00000008000000" + zeros(40),
		},
	},
	{
		name: "query queue pair",
		call: func(t *testing.T, c *Context) (func(), error) {
			a, qc, err := c.QueryQP(11, MaskState)
			return func() {
				require.Equal(t, allAttributes, a)
				require.Equal(t, QPCap{SendWR: 1, RecvWR: 2, SendSGE: 3, RecvSGE: 4, Inline: 5}, qc)
			}, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 1900000000000000\n0x0 in 00000000000000000b00000001000000\n0x1 out 128",
			reply: map[uint16][]byte{1: queryQPReply()},
		},
	},
	{
		name: "destroy queue pair",
		call: func(t *testing.T, c *Context) (func(), error) {
			n, err := c.DestroyQP(11)
			return func() { require.Equal(t, uint32(2), n) }, err
		},
		step: step{
			want:  "INVOKE_WRITE driver 1\n0x2 in 1b00000000000000\n0x0 in 00000000000000000b00000000000000\n0x1 out 4",
			reply: map[uint16][]byte{1: le(uint32(2))},
		},
	},
	{
		name: "post send",
		call: func(t *testing.T, c *Context) (func(), error) { return nil, c.PostSend(11) },
		step: step{
			want: "INVOKE_WRITE driver 1\n0x2 in 1c00000000000000\n0x0 in 00000000000000000b000000000000000000000080000000\n0x1 out 4",
		},
	},
	{
		name: "allocate UAR",
		call: func(t *testing.T, c *Context) (func(), error) {
			var handle uint32
			offset := make([]byte, 8)
			err := c.Invoke("allocate UAR", 0x1008, 0x1000,
				AttrNewObject(0x1000, &handle), AttrConst(0x1001, 1), AttrOut(0x1002, offset),
				AttrIn(0x77, []byte{1}).Optional(), AttrIn(0x78, nil), AttrOut(0x79, nil))
			return func() {
				require.Equal(t, uint32(12), handle)
				require.Equal(t, le(uint64(0x900000)), offset)
			}, err
		},
		step: step{
			want:  "UAR_ALLOC driver 1\n0x1000 new 0\n0x1001 in 0100000000000000\n0x1002 out 8\n0x77? in 01",
			reply: map[uint16][]byte{0x1002: le(uint64(0x900000))},
			fresh: map[uint16]uint64{0x1000: 12},
		},
	},
	{
		name: "free UAR",
		call: func(t *testing.T, c *Context) (func(), error) {
			return nil, c.Invoke("free UAR", 0x1008, 0x1001, AttrObject(0x1000, 12))
		},
		step: step{want: "UAR_DESTROY driver 1\n0x1000 object 12"},
	},
}

func TestCommands(t *testing.T) {
	for _, cmd := range commands {
		t.Run(cmd.name, func(t *testing.T) {
			s := newScript(t)
			c := newContext(t, s)
			s.expect(cmd.step)
			check, err := cmd.call(t, c)
			require.NoError(t, err)
			if check != nil {
				check()
			}
		})
	}
}

// Every command reports the errno, its own name, and a removed device.
func TestCommandErrors(t *testing.T) {
	for _, cmd := range commands {
		for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.EIO, syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP} {
			t.Run(cmd.name+"/"+errno.Error(), func(t *testing.T) {
				s := newScript(t)
				c := newContext(t, s)
				s.expect(step{want: cmd.want, err: errno})
				_, err := cmd.call(t, c)
				var e *SyscallError
				require.ErrorAs(t, err, &e)
				require.Equal(t, cmd.name, e.Call)
				require.Equal(t, errno, e.Errno)
				require.ErrorIs(t, err, errno)
				require.Equal(t, errno == syscall.EIO, errors.Is(err, ErrDeviceRemoved))
				require.Equal(t, errno == syscall.EPROTONOSUPPORT || errno == syscall.EOPNOTSUPP, errors.Is(err, errors.ErrUnsupported))
			})
		}
		t.Run(cmd.name+"/no errno", func(t *testing.T) {
			s := newScript(t)
			c := newContext(t, s)
			broken := errors.New("broken file")
			s.expect(step{want: cmd.want, err: broken})
			_, err := cmd.call(t, c)
			require.ErrorIs(t, err, broken)
			require.ErrorContains(t, err, cmd.name)
		})
		t.Run(cmd.name+"/closed", func(t *testing.T) {
			s := newScript(t)
			c := newContext(t, s)
			require.NoError(t, c.Close())
			_, err := cmd.call(t, c)
			require.ErrorIs(t, err, os.ErrClosed)
		})
	}
}

// Outputs are stored only on success.
func TestOutputsUntouchedOnError(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	s.expect(step{
		want: "UAR_ALLOC driver 1\n0x1000 new 0\n0x1001 in 0100000000000000\n0x1002 out 8",
		err:  syscall.EINVAL,
	})
	handle, out := uint32(77), []byte("untouched"[:8])
	err := c.Invoke("allocate UAR", 0x1008, 0x1000, AttrNewObject(0x1000, &handle), AttrConst(0x1001, 1), AttrOut(0x1002, out))
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Equal(t, uint32(77), handle)
	require.Equal(t, "untouche", string(out))
}

func TestCompChannelDescriptorRefused(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	s.eventsErr = syscall.EMFILE
	s.expect(step{want: "INVOKE_WRITE driver 1\n0x2 in 1100000000000000\n0x0 in 0000000000000000\n0x1 out 4"})
	_, err := c.CreateCompChannel()
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, "open completion channel")
}

// A table with more GIDs than asked for is asked for again.
func TestGIDsGrow(t *testing.T) {
	s := newScript(t)
	c := newContext(t, s)
	ask := func(bytes string) string {
		return "QUERY_GID_TABLE driver 1\n0x0 in 2000000000000000\n0x2 out " + bytes + "\n0x3 out 8"
	}
	s.expect(
		step{want: ask("8192"), err: syscall.EINVAL},
		step{want: ask("16384"), reply: map[uint16][]byte{2: gidReply(), 3: le(uint64(3))}},
	)
	g, err := c.GIDs(1)
	require.NoError(t, err)
	require.Len(t, g, 1)

	s.expect(
		step{want: ask("8192"), err: syscall.EINVAL},
		step{want: ask("16384"), err: syscall.EINVAL},
		step{want: ask("32768"), err: syscall.EINVAL},
		step{want: ask("65504"), err: syscall.EINVAL},
	)
	_, err = c.GIDs(1)
	require.ErrorIs(t, err, syscall.EINVAL, "it ends")

	s.expect(step{want: ask("8192"), reply: map[uint16][]byte{3: le(uint64(1 << 40))}})
	g, err = c.GIDs(1)
	require.NoError(t, err, "a count beyond the table is not believed")
	require.Empty(t, g)
}

var allAttributes = QPAttr{
	State: StateRTR, CurState: StateInit, Access: AccessLocalWrite | AccessRemoteWrite, PKeyIndex: 0x11, Port: 1, QKey: 0x0d,
	Path: Path{
		GID: GID{0xfe, 0x80, 15: 0x99}, LID: 0x0203, Global: true, SGIDIndex: 4, Port: 1, FlowLabel: 0x54321,
		HopLimit: 64, TrafficClass: 0x60, SL: 5, SrcPathBits: 6, StaticRate: 7,
	},
	MTU: MTU4096, Timeout: 0x15, Retries: 0x16, RNRRetries: 0x17, MinRNRTimer: 0x14,
	RecvPSN: 0x0e, SendPSN: 0x0f, Reads: 0x12, PeerReads: 0x13, PeerQPN: 0x10,
}

// destHex is allAttributes.Path in the kernel's form.
const destHex = "fe800000000000000000000000000099" + "21430500" + "0302" + "0000" + "04" + "40" + "60" + "05" + "06" + "07" + "01" + "01"

func zeros(n int) string {
	b := make([]byte, 2*n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}

func queryDeviceReply() []byte {
	b := le(uint64(1))
	b = append(b, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18)
	b = append(b, le(uint64(2), uint64(3))...)
	for i := uint32(4); i <= 35; i++ {
		b = append(b, le(i)...)
	}
	return append(b, le(uint16(36), uint8(37), uint8(2), uint32(0))...)
}

func queryDeviceExReply() []byte {
	b := append(queryDeviceReply(), le(uint32(0), uint32(304), uint64(3), uint32(31), uint32(1), uint32(2), uint32(0))...)
	b = append(b, le(uint64(0xffff), uint64(1000000), uint64(8))...)
	b = append(b, make([]byte, 16+4+4+24)...)
	b = append(b, le(uint16(50), uint16(60), uint32(0))...)
	return append(b, make([]byte, 16)...)
}

func queryQPReply() []byte {
	p := allAttributes.Path.dest()
	b := append([]byte(nil), uapi.Bytes(&p)...)
	b = append(b, make([]byte, 32)...)
	b = append(b, le(uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(0x0d), uint32(0x0e), uint32(0x0f), uint32(0x10), uint32(3))...)
	b = append(b, le(uint16(0x11), uint16(0))...)
	return append(b, 2, 1, 5, 0, 0, 0x12, 0x13, 0x14, 1, 0x15, 0x16, 0x17, 0, 0, 0, 0, 0, 0, 0, 0)
}

// gidReply has one GID of port 1, one of port 2 and an empty slot of port 2.
func gidReply() []byte {
	entry := func(last byte, index, port, typ, ifindex uint32) []byte {
		g := GID{}
		if last != 0 {
			g = GID{0xfe, 0x80, 15: last}
		}
		return append(g[:], le(index, port, typ, ifindex)...)
	}
	b := entry(9, 0, 1, 2, 3)
	b = append(b, entry(0, 4, 2, 0, 0)...)
	return append(b, entry(1, 5, 2, 2, 3)...)
}
