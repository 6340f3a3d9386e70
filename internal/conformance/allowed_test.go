package conformance

import (
	"fmt"
	"strings"
)

// allowed is a difference that stays, and why. An empty variant is any; "*" is any
// value.
type allowed struct{ variant, what, field, ours, theirs, why string }

func (a *allowed) is(d difference) bool {
	fits := func(want, got string) bool { return want == "*" || want == got }
	return (a.variant == "" || a.variant == d.variant) && fits(a.what, d.what) && a.field == d.field &&
		fits(a.ours, d.ours) && fits(a.theirs, d.theirs)
}

// The reasons that several differences have.
const (
	whyWrite = "The form that every kernel since 5.0 takes. libibverbs tries the native method first and falls back to this form, " +
		"in which all fields are equal (variant \"old kernel\")."
	whyNativeFirst = "libibverbs tries the native method once and then knows."
	whyEvents      = "Objects without one belong to the context's first event descriptor, which is this one."
	whySizes       = "We tell the kernel what the rings hold once they are rounded up, libmlx5 what it was asked for. " +
		"The kernel sizes nothing by it: the rings' sizes are in the driver's request."
	whyScatter = "We leave scatter-to-CQE off: data of small messages would come in the completion, to be copied by the poller into memory " +
		"that it would have to know. The kernel's default is off too."
	whyBind = "libmlx5 reserves room in every entry for binding a memory window, which it would need 192 bytes for, unless the program names the " +
		"operations it will post. We have no such operation. With named operations the sizes are equal."
	whyWaiting = "libmlx5 makes room for receives whose memory the kernel has to bring back first (on-demand paging), which we do not have."
	whyLazy    = "We map a static doorbell page when the kernel assigns a register in it to a queue pair, libmlx5 all of them in advance."
	whyGIDs    = "Without a command for the GID table libibverbs collects it from sysfs, port by port."
)

// differences is the table of docs/conformance.md.
var differences = []allowed{
	{"", "query device, refused", order, none, there, "libibverbs finds out by a command that is too short whether the kernel takes write commands by ioctl."},
	{"", "get context, refused", order, none, there, "libmlx5 asks for the raw command interface (DEVX), in requests of three lengths. The software NIC has none, as we need none. Where there is one the first request is granted, and has bit 0 of Flags."},
	{"", "raw command, refused", order, none, there, "The same: a query of capabilities by a raw command."},
	{"", "query device", "form", "write 0x1", "write 0x80000001", "We need nothing that only the extended query tells."},
	{"", "query device", "room for the driver's response", "0", "104", "The same."},
	{"", "allocate asynchronous events", order, elsewhere, elsewhere, "We make the event descriptor first, so that all objects belong to it; libmlx5 at the end of the opening."},
	{"", "map page about the clock", order, none, there, "It says how timestamps relate to the system's time. We give out none."},
	{"", "query port", order, elsewhere, elsewhere, "We ask for the port once the device is open, libmlx5 while it opens it."},
	{"", "*", "Response", "0", "an address", "Where write() would put the response. Over the ioctl the kernel does not read it."},
	{"", "query port", "form", "write 0x2", "native", whyWrite},
	{"", "free protection domain", "form", "write 0x4", "native", whyWrite},
	{"", "deregister memory", "form", "write 0xd", "native", whyWrite},
	{"", "create completion queue", "form", "write 0x12", "native", whyWrite},
	{"", "destroy completion queue", "form", "write 0x14", "native", whyWrite},
	{"", "create queue pair", "form", "write 0x18", "native", whyWrite},
	{"", "destroy queue pair", "form", "write 0x1b", "native", whyWrite},
	{"", "create completion queue", "AsyncFD", "0", "fd1", whyEvents},
	{"", "create completion queue", "AsyncFD may be ignored", "0", "yes", whyEvents},
	{"", "create queue pair", "AsyncFD", "0", "fd1", whyEvents},
	{"", "create queue pair", "IsSRQ", "0x1", "0", "That there is a shared receive queue, which the native form tells by having its handle."},
	{"", "create shared receive queue", "form", "write 0x20", "native", whyWrite},
	{"", "create shared receive queue", "AsyncFD", "0", "fd1", whyEvents},
	{"", "create shared receive queue", "MaxWR", "0x7", "0xf", whyWaiting},
	{"", "destroy shared receive queue", "form", "write 0x23", "native", whyWrite},
	{"", "create queue pair", "MaxSendSGE", "0x2", "0x1", whySizes},
	{"", "create queue pair", "MaxSendSGE", "0xe", "0xc", whySizes},
	{"", "create queue pair", "MaxRecvSGE", "0x4", "0x3", whySizes},
	{"", "create queue pair", "MaxSendWR", "0x4", "0x3", whySizes},
	{"", "create queue pair", "MaxRecvWR", "0x8", "0x5", whySizes},
	{"", "create queue pair", "MaxInlineData", "0x1c", "0x3c", whyBind},
	{"", "create queue pair", "driver.SendBlocks", "0x4", "0x10", whyBind},
	{"", "create queue pair", "driver.Flags", "0x400", "0x402", whyScatter},
	{"", "create queue pair", "driver.Flags", "0", "0x2", whyScatter},
	{"", "completion in cqn2", "format", "0", "1", whyScatter},
	{"", "entry of qpn2", "compare", "0000000000000000", asItLay, "FETCH_ADD has no use for it. libmlx5 leaves there what lay in the ring."},
	{"", "ring", "compare", "0000000000000000", asItLay, "The same, in the copy of the entry (BlueFlame)."},
	{"", "free doorbell page", order, elsewhere, elsewhere, "libmlx5 frees the page of completion queues last, we in the order of allocation. The pages have nothing to do with each other."},
	{"static pages", "map doorbell page", order, none, there, whyLazy},
	{"static pages", "map doorbell page", order, there, none, whyLazy},
	{"static pages", "map doorbell page", order, elsewhere, elsewhere, whyLazy},
	{"static pages", "query device", order, elsewhere, elsewhere, whyLazy},
	{"old kernel", "map doorbell page", order, none, there, whyLazy},
	{"old kernel", "map doorbell page", order, there, none, whyLazy},
	{"old kernel", "map doorbell page", order, elsewhere, elsewhere, whyLazy},
	{"old kernel", "create completion queue, refused", order, none, there, whyNativeFirst},
	{"old kernel", "create queue pair, refused", order, none, there, whyNativeFirst},
	{"old kernel", "create shared receive queue, refused", order, none, there, whyNativeFirst},
	{"old kernel", "destroy shared receive queue, refused", order, none, there, whyNativeFirst},
	{"old kernel", "destroy completion queue, refused", order, none, there, whyNativeFirst},
	{"old kernel", "destroy queue pair, refused", order, none, there, whyNativeFirst},
	{"old kernel", "query device", order, none, there, whyGIDs},
	{"old kernel", "query port", order, none, there, whyGIDs},
}

// markdown is the table as docs/conformance.md has it.
func markdown() string {
	var b strings.Builder
	b.WriteString("| variant | of what | field | ours | libmlx5's | why |\n|---|---|---|---|---|---|\n")
	for _, a := range differences {
		variant := a.variant
		if variant == "" {
			variant = "any"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", variant, a.what, a.field, a.ours, a.theirs, a.why)
	}
	return strings.ReplaceAll(b.String(), "| * |", "| any |")
}
