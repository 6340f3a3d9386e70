#include "textflag.h"

// Ordinary memory is strongly ordered here (stores after stores, and everything
// after loads): the barriers between accesses to memory are no instruction, and
// the call keeps the compiler from reordering. Doorbell pages are write combining,
// which only fences order.

// func ToDevice()
TEXT ·ToDevice(SB), NOSPLIT, $0-0
	// udma_to_device_barrier: nothing
	RET

// func FromDevice()
TEXT ·FromDevice(SB), NOSPLIT, $0-0
	// udma_from_device_barrier: nothing. rdma-core has an LFENCE, which only
	// loads from write-combining memory need; completions are in ordinary memory.
	RET

// func Record(record *uint32, be uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL be+8(FP), BX
	// udma_to_device_barrier: nothing
	MOVL BX, (AX)
	RET

// func Release(record *uint32, be uint32)
TEXT ·Release(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL be+8(FP), BX
	// loads before stores: nothing
	MOVL BX, (AX)
	RET

// func Ring(record *uint32, be uint32, reg *uint64, doorbell uint64)
TEXT ·Ring(SB), NOSPLIT, $0-32
	MOVQ record+0(FP), AX
	MOVL be+8(FP), BX
	MOVQ reg+16(FP), CX
	MOVQ doorbell+24(FP), DX
	// udma_to_device_barrier: nothing
	MOVL BX, (AX)
	// mmio_wc_start
	SFENCE
	// mmio_write64_be
	MOVQ DX, (CX)
	// mmio_flush_writes
	SFENCE
	RET

// func BeginBlueFlame(record *uint32, be uint32)
TEXT ·BeginBlueFlame(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL be+8(FP), BX
	// udma_to_device_barrier: nothing
	MOVL BX, (AX)
	// mmio_wc_start
	SFENCE
	RET

// func Copy64(dst, src unsafe.Pointer)
TEXT ·Copy64(SB), NOSPLIT, $0-16
	MOVQ dst+0(FP), AX
	MOVQ src+8(FP), BX
	// mmio_memcpy_x64
	MOVQ (BX), CX
	MOVQ CX, (AX)
	MOVQ 8(BX), CX
	MOVQ CX, 8(AX)
	MOVQ 16(BX), CX
	MOVQ CX, 16(AX)
	MOVQ 24(BX), CX
	MOVQ CX, 24(AX)
	MOVQ 32(BX), CX
	MOVQ CX, 32(AX)
	MOVQ 40(BX), CX
	MOVQ CX, 40(AX)
	MOVQ 48(BX), CX
	MOVQ CX, 48(AX)
	MOVQ 56(BX), CX
	MOVQ CX, 56(AX)
	RET

// func Flush()
TEXT ·Flush(SB), NOSPLIT, $0-0
	// mmio_flush_writes
	SFENCE
	RET
