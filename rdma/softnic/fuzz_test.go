package softnic

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
)

// pretendMemory is an address space of one small range. The NIC can reach the
// fuzzer's bytes by it and by nothing else.
type pretendMemory struct{ b []byte }

const (
	pretendBase = 1 << 32
	pretendSize = 64 << 10
)

func (m *pretendMemory) at(addr uint64, n int) ([]byte, error) {
	if addr < pretendBase || addr-pretendBase > pretendSize || uint64(n) > pretendSize-(addr-pretendBase) {
		return nil, syscall.EFAULT
	}
	return m.b[addr-pretendBase:][:n], nil
}

func (m *pretendMemory) Read(addr uint64, p []byte) error {
	b, err := m.at(addr, len(p))
	copy(p, b)
	return err
}

func (m *pretendMemory) Write(addr uint64, p []byte) error {
	b, err := m.at(addr, len(p))
	copy(b, p)
	return err
}

func (m *pretendMemory) Load32(addr uint64) (uint32, bool) {
	b, err := m.at(addr, 4)
	if err != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

func (m *pretendMemory) Store32(addr uint64, v uint32) bool {
	b, err := m.at(addr, 4)
	if err != nil {
		return false
	}
	binary.NativeEndian.PutUint32(b, v)
	return true
}

func (m *pretendMemory) update(addr uint64, f func(uint64) uint64) (old uint64, ok bool) {
	b, err := m.at(addr, 8)
	if err != nil {
		return 0, false
	}
	old = binary.NativeEndian.Uint64(b)
	binary.NativeEndian.PutUint64(b, f(old))
	return old, true
}

func (m *pretendMemory) CompareSwap64(addr, compare, swap uint64) (uint64, bool) {
	return m.update(addr, func(v uint64) uint64 {
		if v == compare {
			return swap
		}
		return v
	})
}

func (m *pretendMemory) Add64(addr, n uint64) (uint64, bool) {
	return m.update(addr, func(v uint64) uint64 { return v + n })
}

func (m *pretendMemory) Pin(addr, n uint64, write bool) bool {
	_, err := m.at(addr, int(min(n, 1<<40)))
	return err == nil
}

// pretend is a raw driver whose memory is pretended.
func pretend(t testing.TB) (*NIC, *file, *pretendMemory) {
	cfg := private()
	cfg.Limits = Limits{QPs: 4, CQs: 4, MRs: 4, PDs: 4, UARs: 8, QPEntries: 64, CQEntries: 64}
	n, err := New(&cfg)
	require.NoError(t, err)
	m := &pretendMemory{b: make([]byte, pretendSize)}
	f, err := n.open(0, m)
	require.NoError(t, err)
	return n, f, m
}

// command encodes one in pretended memory.
func command(m *pretendMemory, object, method uint16, build func(*uapi.Command)) []byte {
	var c uapi.Command
	c.Begin(m.b[:8192], pretendBase, object, method, uapi.DriverMLX5)
	build(&c)
	b, err := c.Bytes()
	if err != nil {
		panic(err)
	}
	return b
}

// script is a sequence of commands, each with the memory it refers to.
func script(add func(command, memory []byte)) {
	m := &pretendMemory{b: make([]byte, pretendSize)}
	do := func(object, method uint16, build func(*uapi.Command)) {
		clear(m.b)
		b := command(m, object, method, build)
		add(append([]byte(nil), b...), append([]byte(nil), m.b[:2048]...))
	}
	write := func(cmd uint32, core []byte, reply int, udata []byte, out int) {
		do(uapi.ObjectDevice, uapi.MethodInvokeWrite, func(c *uapi.Command) {
			c.Const(uapi.AttrWriteCmd, uint64(cmd))
			c.In(uapi.AttrCoreIn, core)
			c.Out(uapi.AttrCoreOut, reply)
			c.In(uapi.AttrUHWIn, udata)
			c.Out(uapi.AttrUHWOut, out)
		})
	}
	udata := contextRequest()
	do(uapi.ObjectDevice, uapi.MethodGetContext, func(c *uapi.Command) {
		c.In(uapi.AttrUHWIn, prm.Bytes(&udata))
		c.Out(uapi.AttrUHWOut, 72)
		c.Out(uapi.AttrContextNumCompVectors, 4)
		c.Out(uapi.AttrContextCoreSupport, 8)
	})
	do(uapi.ObjectAsyncEvent, 0, func(c *uapi.Command) { c.NewObject(0) })
	write(uapi.CmdAllocPD, enc(uapi.AllocPD{}), 4, nil, 8)
	do(prm.ObjectUAR, prm.MethodUARAlloc, func(c *uapi.Command) {
		c.NewObject(prm.AttrUARHandle)
		c.Const(prm.AttrUARType, 0)
		c.Out(prm.AttrUARMapOffset, 8)
		c.Out(prm.AttrUARMapLength, 4)
		c.Out(prm.AttrUARPageNumber, 4)
	})
	write(uapi.CmdRegMR, enc(uapi.RegMR{Start: pretendBase, HcaVa: pretendBase, Length: pretendSize, AccessFlags: allAccess}), 12, nil, 0)
	write(uapi.CmdCreateCompChannel, enc(uapi.CreateCompChannel{}), 4, nil, 0)
	cu := prm.CreateCQRequest{BufAddr: pretendBase + 16384, RecordAddr: pretendBase + 8192, EntrySize: 64, Flags: prm.CQUARPageIndex, UARPage: firstPage}
	write(uapi.CmdCreateCQ, enc(uapi.CreateCQ{Cqe: 31, CompChannel: firstFD + 1}), 8, prm.Bytes(&cu), 8)
	qu := prm.CreateQPRequest{BufAddr: pretendBase + 32768, RecordAddr: pretendBase + 8256, SendBlocks: 16, Receives: 16,
		ReceiveShift: 6, Flags: prm.QPUARPageIndex, Register: firstPage}
	write(uapi.CmdCreateQP, enc(uapi.CreateQP{PDHandle: 0, SendCQHandle: 3, RecvCQHandle: 3, MaxSendWR: 16, MaxRecvWR: 16, QPType: 2}), 32, prm.Bytes(&qu), 40)
	write(uapi.CmdModifyQP, enc(uapi.ModifyQP{QPHandle: 4, AttrMask: uapi.RCResetToInit, QPState: uapi.QPInit, PortNum: 1}), 0, nil, 0)
	scriptNative(do, cu, qu)
	write(uapi.CmdExCreateQP, enc(uapi.ExCreateQP{SendCQHandle: 3, RecvCQHandle: 3, MaxSendWR: 16, MaxRecvWR: 16, QPType: 2}), 40, prm.Bytes(&qu), 40)
	write(uapi.CmdQueryQP, enc(uapi.QueryQP{QPHandle: 4}), 128, nil, 0)
	write(uapi.CmdQueryPort, enc(uapi.QueryPort{PortNum: 1}), 40, nil, 0)
	write(uapi.CmdExQueryDevice, enc(uapi.ExQueryDevice{}), 304, nil, 0)
	scriptShared(do, write)
	write(uapi.CmdCreateAH, enc(uapi.CreateAH{Attr: uapi.AHAttr{PortNum: 1, IsGlobal: 1, Grh: uapi.GlobalRoute{SgidIndex: 3}}}), 4, nil, 16)
	write(uapi.CmdDestroyAH, enc(uapi.DestroyAH{AHHandle: 9}), 0, nil, 0)
	write(uapi.CmdResizeCQ, enc(uapi.ResizeCQ{CQHandle: 3, Cqe: 31}), 8, nil, 0)
	write(uapi.CmdExModifyCQ, enc(uapi.ExModifyCQ{CQHandle: 3, AttrMask: uapi.CQModerate}), 0, nil, 0)
	write(uapi.CmdDestroyQP, enc(uapi.DestroyQP{QPHandle: 4}), 4, nil, 0)
	write(uapi.CmdDestroyCQ, enc(uapi.DestroyCQ{CQHandle: 3}), 8, nil, 0)
	for _, m := range mlx5Methods() {
		do(m.Object, m.ID, allAttributes(methodID{m.Object, m.ID}))
	}
}

// scriptShared are the commands of shared receive queues, of either handle that one
// of them can have got.
func scriptShared(do func(object, method uint16, build func(*uapi.Command)),
	write func(cmd uint32, core []byte, reply int, udata []byte, out int)) {
	u := prm.CreateSRQRequest{BufAddr: pretendBase + 4096, RecordAddr: pretendBase + 8320}
	do(uapi.ObjectSRQ, uapi.MethodSRQCreate, func(c *uapi.Command) {
		c.NewObject(uapi.AttrCreateSRQHandle)
		c.Object(uapi.AttrCreateSRQPD, 0)
		c.In(uapi.AttrCreateSRQUserHandle, make([]byte, 8))
		c.In(uapi.AttrCreateSRQMaxWR, enc(uint32(7)))
		c.In(uapi.AttrCreateSRQMaxSGE, enc(uint32(1)))
		c.In(uapi.AttrCreateSRQLimit, make([]byte, 4))
		c.Const(uapi.AttrCreateSRQType, uapi.SRQTypeBasic)
		c.Out(uapi.AttrCreateSRQRespMaxWR, 4)
		c.Out(uapi.AttrCreateSRQRespMaxSGE, 4)
		c.In(uapi.AttrUHWIn, prm.Bytes(&u))
		c.Out(uapi.AttrUHWOut, 8)
	})
	write(uapi.CmdCreateSRQ, enc(uapi.CreateSRQ{MaxWR: 15, MaxSGE: 3}), 16, prm.Bytes(&u), 8)
	for _, handle := range []uint32{7, 8} {
		write(uapi.CmdModifySRQ, enc(uapi.ModifySRQ{SRQHandle: handle, AttrMask: uapi.SRQAttrLimit, SRQLimit: 2}), 0, nil, 0)
		write(uapi.CmdQuerySRQ, enc(uapi.QuerySRQ{SRQHandle: handle}), 16, nil, 0)
		write(uapi.CmdDestroySRQ, enc(uapi.DestroySRQ{SRQHandle: handle}), 4, nil, 0)
	}
}

// Wherever a command says that bytes are which are not: an errno, and nothing left
// of what the command had begun.
func TestUnmappedAttributes(t *testing.T) {
	n, f, m := pretend(t)
	defer n.Close()
	faults, destroyed := 0, 0
	script(func(cmd, image []byte) {
		for i := range (len(cmd) - uapi.HeaderSize) / uapi.AttrSize {
			copy(m.b, image)
			wrong := append([]byte(nil), cmd...)
			at := wrong[uapi.HeaderSize+i*uapi.AttrSize:]
			data := binary.NativeEndian.Uint64(at[8:])
			if data < pretendBase || binary.NativeEndian.Uint16(at[2:]) == 0 {
				continue // not an address of anything
			}
			binary.NativeEndian.PutUint64(at[8:], 4096)
			before := n.Counters()
			err := f.Ioctl(wrong)
			require.Error(t, err, "%x attribute %d", cmd[:8], i)
			if err == syscall.EFAULT {
				faults++
			}
			after := n.Counters()
			if after.QPs < before.QPs || after.CQs < before.CQs || after.SRQs < before.SRQs {
				destroyed++ // the kernel, too, has destroyed when it replies
				continue
			}
			after.Commands, after.FailedCommands = before.Commands, before.FailedCommands
			require.Equal(t, before, after, "%x attribute %d", cmd[:8], i)
		}
		copy(m.b, image)
		_ = f.Ioctl(cmd)
	})
	require.Greater(t, faults, 40)
	require.Equal(t, 2, destroyed)
	require.NoError(t, f.Close())
}

// scriptNative are the native methods, valid after the first objects were made.
func scriptNative(do func(object, method uint16, build func(*uapi.Command)), cu prm.CreateCQRequest, qu prm.CreateQPRequest) {
	do(uapi.ObjectDevice, uapi.MethodQueryContext, func(c *uapi.Command) {
		c.Out(uapi.AttrContextNumCompVectors, 4)
		c.Out(uapi.AttrContextCoreSupport, 8)
		c.Out(prm.AttrQueryContextResponse, 72)
	})
	do(uapi.ObjectDevice, uapi.MethodQueryGIDTable, func(c *uapi.Command) {
		c.Const(uapi.AttrGIDTableEntrySize, 32)
		c.Out(uapi.AttrGIDTableEntries, 256)
		c.Out(uapi.AttrGIDTableNumEntries, 8)
	})
	do(uapi.ObjectDevice, uapi.MethodQueryGIDEntry, func(c *uapi.Command) {
		c.Const(uapi.AttrGIDEntryPort, 1)
		c.Const(uapi.AttrGIDEntryIndex, 3)
		c.In(uapi.AttrGIDEntryFlags, make([]byte, 4))
		c.Out(uapi.AttrGIDEntryResp, 32)
	})
	do(uapi.ObjectMR, uapi.MethodQueryMR, func(c *uapi.Command) {
		c.Object(uapi.AttrQueryMRHandle, 2)
		c.Out(uapi.AttrQueryMRLKey, 4)
		c.Out(uapi.AttrQueryMRRKey, 4)
		c.Out(uapi.AttrQueryMRLength, 8)
		c.Out(uapi.AttrQueryMRIOVA, 8)
	})
	do(uapi.ObjectCQ, uapi.MethodCQCreate, func(c *uapi.Command) {
		c.NewObject(uapi.AttrCreateCQHandle)
		c.In(uapi.AttrCreateCQCQE, enc(uint32(7)))
		c.In(uapi.AttrCreateCQUserHandle, make([]byte, 8))
		c.In(uapi.AttrCreateCQCompVector, make([]byte, 4))
		c.Out(uapi.AttrCreateCQRespCQE, 4)
		c.In(uapi.AttrUHWIn, prm.Bytes(&cu))
		c.Out(uapi.AttrUHWOut, 8)
	})
	do(uapi.ObjectQP, uapi.MethodQPCreate, func(c *uapi.Command) {
		c.NewObject(uapi.AttrCreateQPHandle)
		c.Object(uapi.AttrCreateQPPD, 0)
		c.Object(uapi.AttrCreateQPSendCQ, 3)
		c.Object(uapi.AttrCreateQPRecvCQ, 3)
		c.In(uapi.AttrCreateQPUserHandle, make([]byte, 8))
		c.In(uapi.AttrCreateQPCap, enc(uapi.QPCap{MaxSendWR: 16, MaxRecvWR: 16}))
		c.Const(uapi.AttrCreateQPType, uapi.QPTypeRC)
		c.Out(uapi.AttrCreateQPRespCap, 20)
		c.Out(uapi.AttrCreateQPRespQPN, 4)
		c.In(uapi.AttrUHWIn, prm.Bytes(&qu))
		c.Out(uapi.AttrUHWOut, 40)
	})
}

// FuzzIoctl: whatever bytes a command has, and whatever they refer to, the NIC
// does not panic, answers with an errno, and has nothing left after the close.
func FuzzIoctl(f *testing.F) {
	script(func(command, memory []byte) { f.Add(command, memory) })
	f.Fuzz(func(t *testing.T, cmd, memory []byte) {
		n, file, m := pretend(t)
		defer n.Close()
		script(func(command, image []byte) {
			copy(m.b, image)
			_ = file.Ioctl(command)
		})
		copy(m.b, memory)
		if len(cmd) >= 6 && binary.NativeEndian.Uint16(cmd[2:]) == uapi.ObjectMR &&
			binary.NativeEndian.Uint16(cmd[4:]) == uapi.MethodRegDmabufMR {
			return // it would map descriptors of this process
		}
		if err := file.Ioctl(cmd); err != nil {
			require.IsType(t, syscall.Errno(0), err)
		}
		require.NoError(t, file.Close())
		c := n.Counters()
		require.Zero(t, c.Contexts+c.UARs+c.PDs+c.MRs+c.CQs+c.QPs+c.SRQs+c.AHs+c.EventFiles, "%+v", c)
		require.Zero(t, c.PinnedBytes)
	})
}

// FuzzQueues: whatever is in the queues and records of a connected queue pair,
// the NIC comes to an end of it.
func FuzzQueues(f *testing.F) {
	good := make([]byte, 64)
	prm.PutCtrl(good, &prm.Ctrl{Opcode: prm.OpSend, DS: 2, Flags: prm.CQEUpdate})
	prm.PutData(good[16:], prm.Segment{Addr: pretendBase, LKey: 1, Length: 100})
	recv := make([]byte, 64)
	prm.PutData(recv, prm.Segment{Addr: pretendBase, LKey: 1, Length: 100})
	prm.PutTerminator(recv[16:])
	f.Add(good, recv, uint16(1), uint16(1), uint64(1))
	f.Add(good, recv, uint16(40), uint16(40), ^uint64(0))
	f.Fuzz(func(t *testing.T, sends, receives []byte, posted, received uint16, word uint64) {
		r, cq, q := loopback(t, private(), 16, 16, 64)
		m := r.regMR(4096, allAccess)
		copy(q.buf, receives)
		ring := q.buf[16<<testStride:]
		copy(ring, sends)
		for i := 0; i+16 <= len(ring) && i < len(sends); i += 64 {
			// The numbers cannot be known to the fuzzer.
			binary.BigEndian.PutUint32(ring[i+4:], q.qpn<<8|uint32(ring[i+7]))
			binary.BigEndian.PutUint16(ring[i+1:], uint16(i/64))
		}
		for _, part := range [][]byte{q.buf, ring} {
			for i := 16; i+16 <= len(part); i += 16 {
				if binary.BigEndian.Uint32(part[i+4:]) == 1 {
					prm.PutData(part[i:], prm.Segment{Addr: m.addr, LKey: m.key, Length: binary.BigEndian.Uint32(part[i:])})
				}
			}
		}
		q.storeRecord(prm.RecordReceive, uint32(received))
		q.storeRecord(prm.RecordSend, uint32(posted))
		r.ring(0, prm.SendRegister, word|1)
		r.ring(0, prm.ArmRegister, word)
		for cq.next() != nil {
		}
		require.NoError(t, r.modify(q.to(uapi.QPErr)))
		for cq.next() != nil {
		}
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
	})
}

// FuzzShared: whatever is in a shared receive queue and its record, its queue pairs
// come to an end of it.
func FuzzShared(f *testing.F) {
	good := make([]byte, srqStride)
	prm.PutNext(good, 1)
	prm.PutData(good[16:], prm.Segment{Addr: pretendBase, LKey: 1, Length: 100})
	prm.PutTerminator(good[32:])
	f.Add(good, uint32(1), uint32(0))
	f.Add(append(good, good...), uint32(7), uint32(3))
	f.Add(good, ^uint32(0), uint32(7))
	f.Fuzz(func(t *testing.T, list []byte, posted, limit uint32) {
		r := newRaw(t, newTestNIC(t, private()))
		cq := r.createCQ(64, false)
		s := r.createSRQ(8)
		q := s.queuePair(16, cq)
		q.connect(q)
		m := r.regMR(4096, allAccess)
		copy(s.buf, list)
		for i := 16; i+16 <= len(s.buf); i += 16 {
			if binary.BigEndian.Uint32(s.buf[i+4:]) == 1 { // the key cannot be known to the fuzzer
				prm.PutData(s.buf[i:], prm.Segment{Addr: m.addr, LKey: m.key, Length: binary.BigEndian.Uint32(s.buf[i:])})
			}
		}
		s.posted = posted
		s.store()
		_ = s.modify(uapi.SRQAttrLimit, 0, limit)
		for range 8 {
			q.post(q.entry(prm.OpSend, m, 0, 8, 0, 0))
			for cq.next() != nil {
			}
		}
		require.NoError(t, r.modify(q.to(uapi.QPErr)))
		for cq.next() != nil {
		}
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
	})
}

// FuzzDatagrams: whatever is in the queues of a datagram queue pair, and whatever
// address its entries have, the NIC comes to an end of it.
func FuzzDatagrams(f *testing.F) {
	entry := make([]byte, 5*prm.Unit)
	prm.PutCtrl(entry, &prm.Ctrl{Opcode: prm.OpSend, DS: 5, Flags: prm.CQEUpdate})
	prm.PutAddress(entry[16:], &prm.Address{QKey: testQKey, SourceIndex: 3})
	prm.PutData(entry[64:], prm.Segment{Addr: pretendBase, LKey: 1, Length: 100})
	f.Add(entry, uint16(2), uint32(140), true)
	f.Add(entry, uint16(1), uint32(1), false)
	f.Fuzz(func(t *testing.T, sends []byte, posted uint16, room uint32, known bool) {
		r := newRaw(t, newTestNIC(t, private()))
		cq := r.createCQ(64, false)
		q := r.createUD(16, 16, cq)
		m := r.regMR(8192, allAccess)
		ring := q.buf[16<<testStride:]
		copy(ring, sends)
		binary.BigEndian.PutUint32(ring[4:], q.qpn<<8|uint32(ring[7]))
		binary.BigEndian.PutUint16(ring[1:], 0)
		if known { // what cannot be known to the fuzzer
			a := r.addressOf(t, ahAttr(r.nic, 3), q)
			prm.PutAddress(ring[16:], &a)
			prm.PutData(ring[64:], prm.Segment{Addr: m.addr, LKey: m.key, Length: binary.BigEndian.Uint32(ring[64:])})
		}
		q.receive(m.segment(4096, int(room%4096+1)))
		q.storeRecord(prm.RecordSend, uint32(posted))
		r.ring(0, prm.SendRegister, binary.NativeEndian.Uint64(ring))
		for cq.next() != nil {
		}
		require.NoError(t, r.modify(q.to(uapi.QPErr)))
		for cq.next() != nil {
		}
		require.NoError(t, r.modify(q.to(uapi.QPReset)))
	})
}
