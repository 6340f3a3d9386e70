//go:build !(mips || mips64 || ppc64 || s390x)

package prm

const bigEndian = false
