// Package vmtest boots Linux kernels in virtual machines and runs the project's
// tests in them: what the software NIC is compared with.
//
// It needs no root, no KVM and nothing but QEMU, apt and dpkg: the kernels are
// Debian's, emulated in software, and boot within seconds. [Fetch] downloads a
// kernel, and [FetchUserland] rdma-core's programs with busybox and iproute2, by
// apt with a state of its own, from the mirror this machine is configured for;
// nothing is installed. [Run] packs both with the jobs into an initramfs, boots
// it and returns what each job answered. A job is a static test binary or a
// shell script, and one boot runs many.
//
// In the guest, package vmtest/guest is process 1. It loads modules, runs the
// set-up script and the jobs, one after the other, and reports by the second
// serial line in the words of package vmtest/plan; the first is the kernel's
// console. Emulation makes Go code some 10 times slower and memory copies some
// 30 times; tests that wait must block, not poll.
package vmtest
