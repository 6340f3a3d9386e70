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

// func BlueFlame(record *uint32, be uint32, reg, entry *[8]uint64, blocks uint32)
TEXT ·BlueFlame(SB), NOSPLIT, $0-36
	MOVD record+0(FP), R0
	MOVWU be+8(FP), R1
	MOVD reg+16(FP), R2
	MOVD entry+24(FP), R3
	MOVWU blocks+32(FP), R4
	// udma_to_device_barrier
	DMB OSHST
	MOVW R1, (R0)
	// mmio_wc_start
	DSB ST
copy:
	// mmio_memcpy_x64. The loads come first: many cores combine stores into one
	// 64-byte write only if nothing is between them (Linux, arch/arm64/include/asm/io.h).
	LDP (R3), (R5, R6)
	LDP 16(R3), (R7, R8)
	LDP 32(R3), (R9, R10)
	LDP 48(R3), (R11, R12)
	MOVD R5, (R2)
	MOVD R6, 8(R2)
	MOVD R7, 16(R2)
	MOVD R8, 24(R2)
	MOVD R9, 32(R2)
	MOVD R10, 40(R2)
	MOVD R11, 48(R2)
	MOVD R12, 56(R2)
	ADD $64, R3
	ADD $64, R2
	SUBW $1, R4
	CBNZW R4, copy
	// mmio_flush_writes
	DSB ST
	RET
