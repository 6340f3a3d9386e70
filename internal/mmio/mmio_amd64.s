#include "textflag.h"

// Ordinary memory is strongly ordered here (stores after stores, and everything
// after loads): the barriers between accesses to memory are no instruction, and
// the call keeps the compiler from reordering. Doorbell pages are write combining,
// which only fences order.

// func ToDevice()
TEXT ·ToDevice(SB), NOSPLIT, $0-0
	// udma_to_device_barrier: nothing
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

// func BlueFlame(record *uint32, be uint32, reg, entry *[8]uint64, blocks uint32)
TEXT ·BlueFlame(SB), NOSPLIT, $0-36
	MOVQ record+0(FP), AX
	MOVL be+8(FP), BX
	MOVQ reg+16(FP), CX
	MOVQ entry+24(FP), DX
	MOVL blocks+32(FP), SI
	// udma_to_device_barrier: nothing
	MOVL BX, (AX)
	// mmio_wc_start
	SFENCE
copy:
	// mmio_memcpy_x64
	MOVOU (DX), X0
	MOVOU X0, (CX)
	MOVOU 16(DX), X0
	MOVOU X0, 16(CX)
	MOVOU 32(DX), X0
	MOVOU X0, 32(CX)
	MOVOU 48(DX), X0
	MOVOU X0, 48(CX)
	ADDQ $64, DX
	ADDQ $64, CX
	DECL SI
	JNE copy
	// mmio_flush_writes
	SFENCE
	RET
