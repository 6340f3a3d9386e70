package verbs

import "github.com/farwire/farwire/internal/uapi"

// AllocPD allocates a protection domain and returns its handle. out receives
// the driver's response, which mlx5 insists on.
func (c *Context) AllocPD(out []byte) (handle uint32, err error) {
	var req uapi.AllocPD
	var resp uapi.AllocPDResp
	err = c.write(op{name: "allocate protection domain"}, uapi.CmdAllocPD, uapi.Bytes(&req), uapi.Bytes(&resp), nil, out)
	return resp.PDHandle, err
}

// DeallocPD frees a protection domain. EBUSY means that something still uses it.
func (c *Context) DeallocPD(handle uint32) error {
	req := uapi.DeallocPD{PDHandle: handle}
	return c.write(op{name: "free protection domain"}, uapi.CmdDeallocPD, uapi.Bytes(&req), nil, nil, nil)
}

// RegMR is the request of [Context.RegMR].
type RegMR struct {
	PD     uint32
	Addr   uint64 // of memory outside the Go heap, mapped until after DeregMR
	Length uint64 // bytes
	IOVA   uint64 // address that work requests use; must equal Addr modulo the page size
	Access Access
}

// An MR is a registered memory region.
type MR struct {
	Handle uint32
	LKey   uint32 // for work requests of this side
	RKey   uint32 // for the peer's
}

// RegMR pins and registers host memory. Each registration counts in full
// against the locked-memory limit. Optional access bits are dropped where the
// kernel would refuse them.
func (c *Context) RegMR(r RegMR) (MR, error) {
	req := uapi.RegMR{
		Start: r.Addr, Length: r.Length, HcaVa: r.IOVA,
		PDHandle: r.PD, AccessFlags: uint32(c.access(r.Access)),
	}
	var resp uapi.RegMRResp
	err := c.write(op{name: "register memory", pins: true, bytes: r.Length}, uapi.CmdRegMR, uapi.Bytes(&req), uapi.Bytes(&resp), nil, nil)
	return MR{Handle: resp.MRHandle, LKey: resp.Lkey, RKey: resp.Rkey}, err
}

// RegDmabufMR is the request of [Context.RegDmabufMR].
type RegDmabufMR struct {
	PD     uint32
	FD     int    // dma-buf descriptor; stays the caller's and may be closed afterwards
	Offset uint64 // into the dma-buf
	Length uint64 // bytes
	IOVA   uint64 // address that work requests use; must equal Offset modulo the page size
	Access Access
}

// RegDmabufMR registers a dma-buf, for instance a GPU's memory. It needs Linux
// 5.12 and a driver that can (errors.ErrUnsupported otherwise).
func (c *Context) RegDmabufMR(r RegDmabufMR) (MR, error) {
	var m MR
	err := c.invoke(op{name: "register dma-buf"}, uapi.ObjectMR, uapi.MethodRegDmabufMR,
		AttrNewObject(uapi.AttrRegDmabufHandle, &m.Handle),
		outValue(uapi.AttrRegDmabufLKey, &m.LKey),
		outValue(uapi.AttrRegDmabufRKey, &m.RKey),
		AttrObject(uapi.AttrRegDmabufPD, r.PD),
		inValue(uapi.AttrRegDmabufOffset, r.Offset),
		inValue(uapi.AttrRegDmabufLength, r.Length),
		inValue(uapi.AttrRegDmabufIOVA, r.IOVA),
		inValue(uapi.AttrRegDmabufFD, uint32(r.FD)),
		inValue(uapi.AttrRegDmabufAccess, uint32(c.access(r.Access))))
	return m, err
}

// DeregMR removes a registration. Its memory may be unmapped afterwards, not
// before.
func (c *Context) DeregMR(handle uint32) error {
	req := uapi.DeregMR{MRHandle: handle}
	return c.write(op{name: "deregister memory"}, uapi.CmdDeregMR, uapi.Bytes(&req), nil, nil, nil)
}

func (c *Context) access(a Access) Access {
	if c.support&uapi.CoreSupportOptionalMRAccess == 0 {
		a &^= accessOptional
	}
	return a
}
