// Package vfiouser serves a PCI device to a virtual machine monitor over the
// vfio-user protocol (QEMU's docs/interop/vfio-user.rst, version 0.1): the monitor
// connects to a Unix socket, learns of the device's regions and interrupts, shares
// the guest's memory by descriptors, and sends every access to a region as a
// message. QEMU has the monitor's side since 10.1, as its device vfio-user-pci.
//
// A device is a [Device] with the regions and interrupt vectors of a [Config].
// [Server.Memory] is the guest's memory as the device may reach it,
// [Server.Interrupts] raises MSI-X vectors. What the monitor sends is checked
// before anything is done by it: a message that breaks the protocol ends the
// connection, one that asks for what cannot be is answered with an errno, and
// memory that goes away under a mapping fails the access to it and no more.
//
// The package knows nothing of any device, and uses no cgo and no privilege.
package vfiouser
