// Package wire has only tests: the software NIC's protocol against the Linux kernel's
// own, rdma_rxe, over a pair of virtual Ethernet interfaces. They need a real kernel:
// make vm. docs/wire.md tells what is proven by them.
package wire
