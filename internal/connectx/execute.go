package connectx

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/farwire/farwire/internal/ifc"
)

// request is a command in execution: its input and its output, of the least sizes
// that its handler asks for.
type request struct{ in, out []byte }

// object is the number of the object that the command is about.
func (r *request) object() uint32 { return uint32(ifc.Object.Get(r.in)) }

func (r *request) modifier() uint16 { return uint16(ifc.Command.Modifier.Get(r.in)) }

// answer gives the driver a new object's number.
func (r *request) answer(number uint32) { ifc.Answer.Number.Put(r.out, uint64(number)) }

// refused is a command's error: the status that firmware gives, and why.
type refused struct {
	status ifc.Status
	reason string
}

func (e *refused) Error() string { return e.reason }

func refuse(status ifc.Status, format string, args ...any) error {
	return &refused{status, fmt.Sprintf(format, args...)}
}

// handler carries out a command. Inputs and outputs of less than in and out bytes are
// refused.
type handler struct {
	name    string
	in, out int
	do      func(*Device, *request) error
}

// handlers are the commands that every device has.
var handlers map[ifc.Opcode]handler

func init() {
	const head = ifc.HeadSize
	handlers = map[ifc.Opcode]handler{
		ifc.NOP:                  {"NOP", head, head, nothing},
		ifc.EnableDevice:         {"ENABLE_HCA", head, head, (*Device).enable},
		ifc.DisableDevice:        {"DISABLE_HCA", head, head, (*Device).disable},
		ifc.InitDevice:           {"INIT_HCA", head, head, (*Device).initialize},
		ifc.TeardownDevice:       {"TEARDOWN_HCA", head, head, (*Device).teardown},
		ifc.QueryISSI:            {"QUERY_ISSI", head, 112, (*Device).queryISSI},
		ifc.SetISSI:              {"SET_ISSI", head, head, (*Device).setISSI},
		ifc.QueryPages:           {"QUERY_PAGES", head, head, nothing}, // needs none
		ifc.ManagePages:          {"MANAGE_PAGES", head, head, (*Device).managePages},
		ifc.SetDriverVersion:     {"SET_DRIVER_VERSION", head, head, (*Device).setDriverVersion},
		ifc.QueryCapabilities:    {"QUERY_HCA_CAP", head, head + capabilitySize, (*Device).queryCapabilities},
		ifc.SetCapabilities:      {"SET_HCA_CAP", head + capabilitySize, head, (*Device).setCapabilities},
		ifc.QueryAdapter:         {"QUERY_ADAPTER", head, adapterSize, (*Device).queryAdapter},
		ifc.QuerySpecialContexts: {"QUERY_SPECIAL_CONTEXTS", head, 32, (*Device).querySpecialContexts},
		ifc.AccessRegister:       {"ACCESS_REG", head, head, (*Device).accessRegister},
		ifc.QueryVirtualPort:     {"QUERY_HCA_VPORT_CONTEXT", head, head + 512, (*Device).queryVirtualPort},
		ifc.QueryGID:             {"QUERY_HCA_VPORT_GID", head, head, (*Device).queryGID},
		ifc.QueryPKey:            {"QUERY_HCA_VPORT_PKEY", head, head, (*Device).queryPKey},
		ifc.MADInterface:         {"MAD_IFC", ifc.MAD + ifc.MADSize, ifc.MAD + ifc.MADSize, (*Device).mad},
		ifc.CreateEQ:             {"CREATE_EQ", ifc.Pages, head, (*Device).createEQ},
		ifc.DestroyEQ:            {"DESTROY_EQ", head, head, (*Device).destroyEQ},
		ifc.QueryEQ:              {"QUERY_EQ", head, ifc.Pages, (*Device).queryEQ},
		ifc.AllocUAR:             {"ALLOC_UAR", head, head, (*Device).allocUAR},
		ifc.DeallocUAR:           {"DEALLOC_UAR", head, head, (*Device).deallocUAR},
		ifc.AllocPD:              {"ALLOC_PD", head, head, (*Device).allocPD},
		ifc.DeallocPD:            {"DEALLOC_PD", head, head, (*Device).deallocPD},
		ifc.AllocDomain:          {"ALLOC_TRANSPORT_DOMAIN", head, head, makeIdle(classDomain)},
		ifc.DeallocDomain:        {"DEALLOC_TRANSPORT_DOMAIN", head, head, unmakeIdle(classDomain)},
		ifc.AllocXRCD:            {"ALLOC_XRCD", head, head, makeIdle(classXRCD)},
		ifc.DeallocXRCD:          {"DEALLOC_XRCD", head, head, unmakeIdle(classXRCD)},
		ifc.CreateXRCSRQ:         {"CREATE_XRC_SRQ", ifc.Pages, head, makeIdle(classSRQ)},
		ifc.DestroyXRCSRQ:        {"DESTROY_XRC_SRQ", head, head, unmakeIdle(classSRQ)},
		ifc.CreateRMP:            {"CREATE_RMP", ifc.Pages, head, (*Device).createRMP},
		ifc.DestroyRMP:           {"DESTROY_RMP", head, head, (*Device).destroyRMP},
		ifc.QueryRMP:             {"QUERY_RMP", head, ifc.Pages, (*Device).queryRMP},
		ifc.ModifyRMP:            {"MODIFY_RMP", ifc.Pages, head, (*Device).modifyRMP},
		ifc.CreateMKey:           {"CREATE_MKEY", ifc.Pages, head, (*Device).createMKey},
		ifc.DestroyMKey:          {"DESTROY_MKEY", head, head, (*Device).destroyMKey},
		ifc.QueryMKey:            {"QUERY_MKEY", head, ifc.Context + contextSize, (*Device).queryMKey},
		ifc.CreateCQ:             {"CREATE_CQ", ifc.Pages, head, (*Device).createCQ},
		ifc.DestroyCQ:            {"DESTROY_CQ", head, head, (*Device).destroyCQ},
		ifc.QueryCQ:              {"QUERY_CQ", head, ifc.Pages, (*Device).queryCQ},
		ifc.ModifyCQ:             {"MODIFY_CQ", ifc.Pages, head, (*Device).modifyCQ},
		ifc.CreateQP:             {"CREATE_QP", ifc.Pages, head, (*Device).createQP},
		ifc.DestroyQP:            {"DESTROY_QP", head, head, (*Device).destroyQP},
		ifc.QueryQP:              {"QUERY_QP", head, ifc.Pages, (*Device).queryQP},
		ifc.ToReset:              {"2RST_QP", head, head, (*Device).modifyQP},
		ifc.ToError:              {"2ERR_QP", head, head, (*Device).modifyQP},
		ifc.ResetToInit:          {"RST2INIT_QP", ifc.Pages, head, (*Device).modifyQP},
		ifc.InitToInit:           {"INIT2INIT_QP", ifc.Pages, head, (*Device).modifyQP},
		ifc.InitToRTR:            {"INIT2RTR_QP", ifc.Pages, head, (*Device).modifyQP},
		ifc.RTRToRTS:             {"RTR2RTS_QP", ifc.Pages, head, (*Device).modifyQP},
		ifc.RTSToRTS:             {"RTS2RTS_QP", ifc.Pages, head, (*Device).modifyQP},
	}
}

// nothing is done for commands that ask for what the device does anyway, or whose answer
// is all zeros.
func nothing(*Device, *request) error { return nil }

// execute carries a command out: the output begins with its status. d.mu is held.
func (d *Device) execute(in, out []byte) {
	op := ifc.Opcode(ifc.Command.Opcode.Get(in))
	h, ok := handlers[op]
	if !ok && !infiniBand(d.nic) {
		h = ethernetHandlers[op]
	}
	err := d.dispatch(h, op, &request{in, out})
	if err == nil {
		d.log.Debug("command", "name", h.name)
		return
	}
	clear(out)
	ifc.Answer.Status.Put(out, uint64(statusOf(err)))
	d.log.Warn("command refused", "name", h.name, "opcode", fmt.Sprintf("%#x", uint16(op)), "status", statusOf(err), "reason", err)
}

func (d *Device) dispatch(h handler, op ifc.Opcode, r *request) error {
	switch {
	case h.do == nil:
		return refuse(ifc.BadOpcode, "opcode %#x", uint16(op))
	case d.function == nil:
		return refuse(ifc.InternalError, "the NIC has failed")
	case ifc.Command.User.Get(r.in) != 0:
		return refuse(ifc.BadParameter, "user context %d", ifc.Command.User.Get(r.in))
	case len(r.in) < h.in:
		return refuse(ifc.BadInputLength, "input of %d bytes, %d needed", len(r.in), h.in)
	case len(r.out) < h.out:
		return refuse(ifc.BadOutputSize, "output of %d bytes, %d needed", len(r.out), h.out)
	}
	if err := d.mayUse(op); err != nil {
		return err
	}
	return h.do(d, r)
}

// statusOf is the status of a command that failed, here or in the NIC.
func statusOf(err error) ifc.Status {
	var r *refused
	if errors.As(err, &r) {
		return r.status
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return ifc.BadResource
	case errors.Is(err, syscall.ENOMEM):
		return ifc.ExceedsLimit
	case errors.Is(err, syscall.EBUSY):
		return ifc.ResourceBusy
	case errors.Is(err, syscall.EIO):
		return ifc.InternalError
	}
	return ifc.BadParameter
}
