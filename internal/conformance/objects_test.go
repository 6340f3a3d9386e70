package conformance

import (
	"fmt"
	"math/bits"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// announce names what a command brings along, before its fields are told: memory, and
// the numbers by which the program knows its objects.
func (d *decoder) announce(what string, c *trace.Command, driver []byte) {
	switch what {
	case "register memory":
		r := view[uapi.RegMR](input(c, uapi.AttrCoreIn))
		d.place(fmt.Sprintf("mr%d", d.count["mr"]+1), r.Start, r.Length)
	case "create completion queue":
		r := view[prm.CreateCQRequest](driver)
		entries := view[uapi.CreateCQ](input(c, uapi.AttrCoreIn)).Cqe
		user := view[uapi.CreateCQ](input(c, uapi.AttrCoreIn)).UserHandle
		if c.Object == uapi.ObjectCQ {
			entries = uint32(word(input(c, uapi.AttrCreateCQCQE)))
			user = word(input(c, uapi.AttrCreateCQUserHandle))
		}
		d.define("user", user)
		d.queue(fmt.Sprintf("cq%d", d.count["cq"]+1), r.BufAddr, uint64(entries+1)*uint64(r.EntrySize), r.RecordAddr)
	case "create shared receive queue":
		r, q := view[prm.CreateSRQRequest](driver), view[uapi.CreateSRQ](input(c, uapi.AttrCoreIn))
		if c.Object == uapi.ObjectSRQ {
			q.MaxWR, q.MaxSGE = uint32(word(input(c, uapi.AttrCreateSRQMaxWR))), uint32(word(input(c, uapi.AttrCreateSRQMaxSGE)))
			q.UserHandle = word(input(c, uapi.AttrCreateSRQUserHandle))
		}
		d.define("user", q.UserHandle)
		entries := uint64(1) << bits.Len32(q.MaxWR)
		d.queue(fmt.Sprintf("srq%d", d.count["srq"]+1), r.BufAddr, entries*uint64(prm.SharedStride(int(q.MaxSGE))), r.RecordAddr)
	case "create queue pair":
		r := view[prm.CreateQPRequest](driver)
		user := view[uapi.CreateQP](input(c, uapi.AttrCoreIn)).UserHandle
		if c.Object == uapi.ObjectQP {
			user = word(input(c, uapi.AttrCreateQPUserHandle))
		}
		d.define("user", user)
		if r.UserIndex != prm.NoUserIndex {
			d.define("user index", uint64(r.UserIndex))
		}
		receives, size := uint64(r.Receives)<<r.ReceiveShift, uint64(r.SendBlocks)*prm.Block
		d.rings[fmt.Sprintf("qpn%d", d.count["qpn"]+1)] = &sendRing{r.BufAddr + receives, make([]byte, size)}
		d.queue(fmt.Sprintf("qp%d", d.count["qp"]+1), r.BufAddr, receives+size, r.RecordAddr)
	}
}

// queue names the memory of a queue. The kernel wants its ring to start at a page, and
// drivers keep records to cache lines of their own.
func (d *decoder) queue(name string, ring, size, record uint64) {
	const page, line = 4096, 64
	d.place(fmt.Sprintf("%s ring (page+%d)", name, ring%page), ring, size)
	d.place(fmt.Sprintf("%s record (line+%d)", name, record%line), record, prm.RecordSize)
	d.records[name] = record
}

// made names the objects that a command made, and forgets the record of one that it
// destroyed.
func (d *decoder) made(what string, c *trace.Command) {
	core := output(c, uapi.AttrCoreOut)
	switch what {
	case "get context":
		if c.Method == uapi.MethodInvokeWrite {
			d.define("fd", uint64(view[uapi.GetContextResp](core).AsyncFD))
		}
	case "allocate asynchronous events":
		d.define("fd", c.Find(uapi.AttrAsyncEventFD).Result)
	case "create completion channel":
		d.define("fd", uint64(view[uapi.CreateCompChannelResp](core).FD))
	case "allocate protection domain":
		d.define("pd", uint64(view[uapi.AllocPDResp](core).PDHandle))
	case "register memory":
		r := view[uapi.RegMRResp](core)
		d.define("mr", uint64(r.MRHandle))
		d.define("lkey", uint64(r.Lkey))
		d.define("rkey", uint64(r.Rkey))
	case "create completion queue":
		handle := uint64(view[uapi.CreateCQResp](core).CQHandle)
		if c.Object == uapi.ObjectCQ {
			handle = c.Find(uapi.AttrCreateCQHandle).Result
		}
		d.define("cq", handle)
		d.define("cqn", uint64(view[prm.CreateCQResponse](output(c, uapi.AttrUHWOut)).CQN))
	case "create shared receive queue":
		handle := uint64(view[uapi.CreateSRQResp](core).SRQHandle)
		if c.Object == uapi.ObjectSRQ {
			handle = c.Find(uapi.AttrCreateSRQHandle).Result
		}
		d.define("srq", handle)
		d.define("srqn", uint64(view[prm.CreateSRQResponse](output(c, uapi.AttrUHWOut)).SRQN))
	case "create queue pair":
		r := view[uapi.CreateQPResp](core)
		handle, qpn := uint64(r.QPHandle), uint64(r.Qpn)
		if c.Object == uapi.ObjectQP {
			handle, qpn = c.Find(uapi.AttrCreateQPHandle).Result, word(output(c, uapi.AttrCreateQPRespQPN))
		}
		d.define("qp", handle)
		d.define("qpn", qpn)
	case "allocate doorbell page":
		d.define("uar", c.Find(prm.AttrUARHandle).Result)
		d.define("page", word(output(c, prm.AttrUARPageNumber)))
		d.define("offset", word(output(c, prm.AttrUARMapOffset)))
	case "destroy completion queue", "destroy queue pair", "destroy shared receive queue":
		for _, o := range c.Objects {
			switch o.Kind {
			case uapi.ObjectCQ:
				delete(d.records, d.of("cq", uint64(o.Handle)))
			case uapi.ObjectQP:
				delete(d.records, d.of("qp", uint64(o.Handle)))
			case uapi.ObjectSRQ:
				delete(d.records, d.of("srq", uint64(o.Handle)))
			}
		}
	}
}
