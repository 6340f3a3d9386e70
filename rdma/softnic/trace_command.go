package softnic

import (
	"slices"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/softnic/trace"
)

// commandTrace is a command that is being traced. A nil one is none, for which
// all methods do nothing.
type commandTrace struct {
	trace.Command
	nic    *NIC
	origin origin
	cmd    []byte
	req    uapi.Request
	method *uapi.Method
	mem    memory
}

// traceCommand notes what a command says before it is executed.
func (f *file) traceCommand(cmd []byte, caller Caller, mem memory) *commandTrace {
	if !f.nic.tracing() {
		return nil
	}
	t := &commandTrace{nic: f.nic, origin: origin{f.number, processOf(caller)}, cmd: cmd, mem: mem}
	t.Bytes = slices.Clone(cmd)
	r, err := uapi.Parse(cmd)
	if err != nil {
		return t
	}
	t.req, t.method = r, f.nic.methods.Find(r)
	t.Object, t.Method = r.Object(), r.Method()
	for i := range r.NumAttrs() {
		a := r.At(i)
		t.Attrs = append(t.Attrs, trace.Attr{ID: a.ID(), Length: a.Len(), Flags: a.Flags(), Data: a.Data()})
	}
	if t.method != nil {
		t.Name = t.method.Name
	}
	if t.Object == uapi.ObjectDevice && t.Method == uapi.MethodInvokeWrite {
		t.Write = uint32(r.Find(uapi.AttrWriteCmd).Data())
		if w := uapi.WriteOf(t.Write); w != nil {
			t.Name = w.Name
		}
	}
	return t
}

// inputs notes what the attributes of a command hold that has proved to be well formed,
// before it is executed: of others nothing is copied, as the kernel copies nothing.
func (t *commandTrace) inputs() {
	if t == nil {
		return
	}
	for i := range t.Attrs {
		a := t.req.At(i)
		switch k, ok := t.kind(a); {
		case !ok || k != uapi.In && k != uapi.Flags:
		case a.Inline() != nil:
			t.Attrs[i].In = slices.Clone(a.Inline())
		default:
			t.Attrs[i].In = t.read(a)
		}
	}
}

// kind is what an attribute is; ok is false if the method does not have it.
func (t *commandTrace) kind(a uapi.Attr) (k uapi.Kind, ok bool) {
	if t.method == nil {
		return 0, false
	}
	s := t.method.Spec(a.ID())
	if s == nil {
		return 0, false
	}
	return s.Kind, true
}

// read reads what an attribute points to.
func (t *commandTrace) read(a uapi.Attr) []byte {
	b := make([]byte, a.Len())
	if t.mem.Read(a.Data(), b) != nil {
		return nil
	}
	return b
}

// met notes an object that the command named or made.
func (t *commandTrace) met(kind uint16, handle uint32, object any, made bool) {
	if t == nil {
		return
	}
	o := trace.Object{Kind: kind, Handle: handle, New: made}
	switch v := object.(type) {
	case *pd:
		o.Number = v.number
	case *mr:
		o.Number = v.key
	case *cq:
		o.Number = v.cqn
	case *qp:
		o.Number, o.State = v.qpn, v.state
	case *srq:
		o.Number = v.srqn
	case *uar:
		o.Number = v.index
	}
	t.Objects = append(t.Objects, o)
}

// again forgets what was met, before the command is executed, perhaps once more.
func (t *commandTrace) again() {
	if t != nil {
		t.Objects = t.Objects[:0]
	}
}

// end tells of the command; refused is nil if it was executed.
func (t *commandTrace) end(refused *uapi.RequestError) {
	if t == nil {
		return
	}
	t.Result = t.cmd
	for i := range t.Attrs {
		a := t.req.At(i)
		t.Attrs[i].Result = a.Data()
		switch k, ok := t.kind(a); {
		case ok && k == uapi.NewObject:
			t.Attrs[i].New = true
		case ok && k == uapi.Out && a.Flags()&uapi.FlagValidOutput != 0:
			t.Attrs[i].Out = t.read(a)
		}
	}
	r := trace.Record{Kind: trace.Ioctl, Command: &t.Command}
	if refused != nil {
		r.Errno, r.Reason = refused.Errno, refused.Reason
	}
	t.nic.tell(t.origin, r)
}
