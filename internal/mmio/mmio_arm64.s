#include "textflag.h"

// Barrier operands, by their names in the architecture manual. The NIC is an
// observer in the outer shareable domain.
#define OSHLD $1
#define OSHST $2
#define OSH $3
#define ST $14

// func ToDevice()
TEXT ·ToDevice(SB), NOSPLIT, $0-0
	// udma_to_device_barrier
	DMB OSHST
	RET

// func FromDevice()
TEXT ·FromDevice(SB), NOSPLIT, $0-0
	// udma_from_device_barrier
	DMB OSHLD
	RET

// func Record(record *uint32, be uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVD record+0(FP), R0
	MOVWU be+8(FP), R1
	// udma_to_device_barrier
	DMB OSHST
	MOVW R1, (R0)
	RET

// func Release(record *uint32, be uint32)
TEXT ·Release(SB), NOSPLIT, $0-12
	MOVD record+0(FP), R0
	MOVWU be+8(FP), R1
	// loads before stores: no barrier of rdma-core's orders these
	DMB OSH
	MOVW R1, (R0)
	RET

// func Ring(record *uint32, be uint32, reg *uint64, doorbell uint64)
TEXT ·Ring(SB), NOSPLIT, $0-32
	MOVD record+0(FP), R0
	MOVWU be+8(FP), R1
	MOVD reg+16(FP), R2
	MOVD doorbell+24(FP), R3
	// udma_to_device_barrier
	DMB OSHST
	MOVW R1, (R0)
	// mmio_wc_start
	DSB ST
	// mmio_write64_be
	MOVD R3, (R2)
	// mmio_flush_writes
	DSB ST
	RET

// func BeginBlueFlame(record *uint32, be uint32)
TEXT ·BeginBlueFlame(SB), NOSPLIT, $0-12
	MOVD record+0(FP), R0
	MOVWU be+8(FP), R1
	// udma_to_device_barrier
	DMB OSHST
	MOVW R1, (R0)
	// mmio_wc_start
	DSB ST
	RET

// func Copy64(dst, src unsafe.Pointer)
TEXT ·Copy64(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	// mmio_memcpy_x64. The loads come first: many cores combine stores into one
	// 64-byte write only if nothing is between them (Linux, arch/arm64/include/asm/io.h).
	LDP (R1), (R2, R3)
	LDP 16(R1), (R4, R5)
	LDP 32(R1), (R6, R7)
	LDP 48(R1), (R8, R9)
	MOVD R2, (R0)
	MOVD R3, 8(R0)
	MOVD R4, 16(R0)
	MOVD R5, 24(R0)
	MOVD R6, 32(R0)
	MOVD R7, 40(R0)
	MOVD R8, 48(R0)
	MOVD R9, 56(R0)
	RET

// func Flush()
TEXT ·Flush(SB), NOSPLIT, $0-0
	// mmio_flush_writes
	DSB ST
	RET
