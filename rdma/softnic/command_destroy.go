package softnic

import "github.com/farwire/farwire/internal/uapi"

// gone is what is left of an object that went with its device: its handle, to be
// destroyed once, and what that answers.
type gone struct{ words []byte }

// destroy destroys an object, if nothing uses it, and answers with its last words.
func (c *call) destroy(kind uint16, handle uint64, reply uapi.Attr) error {
	v, err := lookup[any](c, kind, handle)
	if err != nil {
		return err
	}
	if n := users(v); n > 0 {
		return refuse(ebusy, "object %d has %d users", handle, n)
	}
	words := lastWords(v)
	c.file.drop(uint32(handle))
	if words == nil {
		return nil
	}
	return reply.CopyOut(c.mem, words)
}

// users is how many other objects need an object.
func users(v any) int {
	switch o := v.(type) {
	case *pd:
		return o.users
	case *cq:
		return o.users
	case *srq:
		return o.users
	}
	return 0
}

// lastWords is how many events of an object were read, as the response of the
// command that destroys it; those not read vanish. It is nil for what has none.
func lastWords(v any) []byte {
	switch o := v.(type) {
	case *cq:
		var resp uapi.DestroyCQResp
		if o.channel != nil {
			resp.CompEventsReported = o.events - o.channel.forget(o)
		}
		resp.AsyncEventsReported = eventsRead(o.async, o.asyncEvents, o)
		return uapi.Bytes(&resp)
	case *qp:
		return uapi.Bytes(&uapi.DestroyQPResp{EventsReported: eventsRead(o.async, o.asyncEvents, o)})
	case *srq:
		return uapi.Bytes(&uapi.DestroySRQResp{EventsReported: eventsRead(o.async, o.asyncEvents, o)})
	case gone:
		return o.words
	}
	return nil
}

func eventsRead(f *eventFile, raised uint32, owner any) uint32 {
	if f == nil {
		return 0
	}
	return raised - f.forget(owner)
}

// bury destroys everything a file has because the device is gone, and leaves the
// handles.
func (f *file) bury() {
	for _, kind := range objectKinds {
		for h := range f.objects.all(kind) {
			v, _ := f.objects.get(kind, uint64(h))
			left := gone{lastWords(v)}
			f.drop(h)
			f.objects.slots[h] = object{kind, left}
		}
	}
}
