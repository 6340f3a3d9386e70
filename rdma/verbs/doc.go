// Package verbs has the words that every RDMA driver shares (GIDs, MTUs, access
// rights, queue-pair states, completion statuses, endpoints), finds the devices
// of the system, and marshals the kernel's user-verbs commands.
//
// Commands travel over a [File]: an opened device node ([Device.Open]) or a
// software NIC. A [Context] is one user context on a File; its methods are the
// commands. Driver-private parts of commands are opaque bytes here.
//
// Only the RDMA_VERBS_IOCTL interface of the kernel is used, never the older
// write() commands, so it also works under sandboxes that allow nothing else.
// Linux 5.4 and newer are supported. On other systems everything but
// [Device.Open] works.
package verbs
