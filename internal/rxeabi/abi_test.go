package rxeabi

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/coracle"
)

func TestLayouts(t *testing.T) {
	size := func(n uintptr) uint64 { return uint64(n) }
	coracle.Compare(t, []string{"rdma/rdma_user_rxe.h"}, []coracle.Number{
		{"sizeof(struct mminfo)", size(unsafe.Sizeof(MapInfo{}))},
		{"offsetof(struct mminfo, offset)", size(unsafe.Offsetof(MapInfo{}.Offset))},
		{"offsetof(struct mminfo, size)", size(unsafe.Offsetof(MapInfo{}.Size))},
		{"sizeof(struct rxe_create_cq_resp)", size(unsafe.Sizeof(CreateCQResp{}))},
		{"sizeof(struct rxe_create_qp_resp)", size(unsafe.Sizeof(CreateQPResp{}))},
		{"offsetof(struct rxe_create_qp_resp, rq_mi)", size(unsafe.Offsetof(CreateQPResp{}.Receives))},
		{"offsetof(struct rxe_create_qp_resp, sq_mi)", size(unsafe.Offsetof(CreateQPResp{}.Sends))},

		{"sizeof(struct rxe_queue_buf)", size(unsafe.Sizeof(Queue{}))},
		{"offsetof(struct rxe_queue_buf, log2_elem_size)", size(unsafe.Offsetof(Queue{}.Log2ElemSize))},
		{"offsetof(struct rxe_queue_buf, index_mask)", size(unsafe.Offsetof(Queue{}.IndexMask))},
		{"offsetof(struct rxe_queue_buf, producer_index)", size(unsafe.Offsetof(Queue{}.ProducerIndex))},
		{"offsetof(struct rxe_queue_buf, consumer_index)", size(unsafe.Offsetof(Queue{}.ConsumerIndex))},
		{"offsetof(struct rxe_queue_buf, data)", size(unsafe.Sizeof(Queue{}))},

		{"sizeof(struct rxe_send_wqe)", size(unsafe.Sizeof(SendEntry{}))},
		{"offsetof(struct rxe_send_wqe, wr.wr_id)", size(unsafe.Offsetof(SendEntry{}.ID))},
		{"offsetof(struct rxe_send_wqe, wr.opcode)", size(unsafe.Offsetof(SendEntry{}.Opcode))},
		{"offsetof(struct rxe_send_wqe, wr.send_flags)", size(unsafe.Offsetof(SendEntry{}.Flags))},
		{"offsetof(struct rxe_send_wqe, wr.ex.imm_data)", size(unsafe.Offsetof(SendEntry{}.Imm))},
		{"offsetof(struct rxe_send_wqe, wr.wr)", size(unsafe.Offsetof(SendEntry{}.Op))},
		{"sizeof(((struct rxe_send_wqe *)0)->wr.wr)", size(unsafe.Sizeof(SendEntry{}.Op))},
		{"offsetof(struct rxe_send_wqe, status)", size(unsafe.Offsetof(SendEntry{}.Status))},
		{"offsetof(struct rxe_send_wqe, state)", size(unsafe.Offsetof(SendEntry{}.State))},
		{"offsetof(struct rxe_send_wqe, iova)", size(unsafe.Offsetof(SendEntry{}.IOVA))},
		{"offsetof(struct rxe_send_wqe, has_rd_atomic)", size(unsafe.Offsetof(SendEntry{}.HasReadRes))},
		{"offsetof(struct rxe_send_wqe, dma)", size(unsafe.Offsetof(SendEntry{}.DMA))},
		{"offsetof(struct rxe_send_wqe, dma.sge)", size(unsafe.Sizeof(SendEntry{}))},
		{"offsetof(struct rxe_send_wqe, dma.inline_data)", size(unsafe.Sizeof(SendEntry{}))},

		{"sizeof(((struct rxe_send_wr *)0)->wr.rdma)", size(unsafe.Sizeof(Remote{}))},
		{"offsetof(struct rxe_send_wr, wr.rdma.remote_addr) - offsetof(struct rxe_send_wr, wr)", size(unsafe.Offsetof(Remote{}.Addr))},
		{"offsetof(struct rxe_send_wr, wr.rdma.rkey) - offsetof(struct rxe_send_wr, wr)", size(unsafe.Offsetof(Remote{}.RKey))},
		{"sizeof(((struct rxe_send_wr *)0)->wr.atomic)", size(unsafe.Sizeof(Atomic{}))},
		{"offsetof(struct rxe_send_wr, wr.atomic.remote_addr) - offsetof(struct rxe_send_wr, wr)", size(unsafe.Offsetof(Atomic{}.Addr))},
		{"offsetof(struct rxe_send_wr, wr.atomic.compare_add) - offsetof(struct rxe_send_wr, wr)", size(unsafe.Offsetof(Atomic{}.CompareAdd))},
		{"offsetof(struct rxe_send_wr, wr.atomic.swap) - offsetof(struct rxe_send_wr, wr)", size(unsafe.Offsetof(Atomic{}.Swap))},
		{"offsetof(struct rxe_send_wr, wr.atomic.rkey) - offsetof(struct rxe_send_wr, wr)", size(unsafe.Offsetof(Atomic{}.RKey))},

		{"sizeof(struct rxe_recv_wqe)", size(unsafe.Sizeof(ReceiveEntry{}))},
		{"offsetof(struct rxe_recv_wqe, wr_id)", size(unsafe.Offsetof(ReceiveEntry{}.ID))},
		{"offsetof(struct rxe_recv_wqe, dma)", size(unsafe.Offsetof(ReceiveEntry{}.DMA))},

		{"sizeof(struct rxe_dma_info)", size(unsafe.Sizeof(DMA{}))},
		{"offsetof(struct rxe_dma_info, length)", size(unsafe.Offsetof(DMA{}.Length))},
		{"offsetof(struct rxe_dma_info, resid)", size(unsafe.Offsetof(DMA{}.Rest))},
		{"offsetof(struct rxe_dma_info, cur_sge)", size(unsafe.Offsetof(DMA{}.Segment))},
		{"offsetof(struct rxe_dma_info, num_sge)", size(unsafe.Offsetof(DMA{}.Segments))},
		{"offsetof(struct rxe_dma_info, sge_offset)", size(unsafe.Offsetof(DMA{}.SegmentOff))},

		{"sizeof(struct rxe_sge)", size(unsafe.Sizeof(Segment{}))},
		{"offsetof(struct rxe_sge, addr)", size(unsafe.Offsetof(Segment{}.Addr))},
		{"offsetof(struct rxe_sge, length)", size(unsafe.Offsetof(Segment{}.Length))},
		{"offsetof(struct rxe_sge, lkey)", size(unsafe.Offsetof(Segment{}.LKey))},
	})
}

func TestNumbers(t *testing.T) {
	coracle.Compare(t, []string{"rdma/ib_user_verbs.h"}, []coracle.Number{
		{"IB_UVERBS_WR_RDMA_WRITE", OpWrite}, {"IB_UVERBS_WR_RDMA_WRITE_WITH_IMM", OpWriteImm},
		{"IB_UVERBS_WR_SEND", OpSend}, {"IB_UVERBS_WR_SEND_WITH_IMM", OpSendImm}, {"IB_UVERBS_WR_RDMA_READ", OpRead},
		{"IB_UVERBS_WR_ATOMIC_CMP_AND_SWP", OpCompareSwap}, {"IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD", OpFetchAdd},
	})
}

// Numbers that no header of the kernel's has, but libibverbs' has.
func TestNumbersOfLibibverbs(t *testing.T) {
	coracle.Compare(t, []string{"infiniband/verbs.h"}, []coracle.Number{
		{"IBV_SEND_FENCE", FlagFence}, {"IBV_SEND_SIGNALED", FlagSignaled},
		{"IBV_SEND_SOLICITED", FlagSolicited}, {"IBV_SEND_INLINE", FlagInline},
		{"IBV_WC_RECV", CompletedReceive}, {"IBV_WC_RECV_RDMA_WITH_IMM", CompletedReceiveWrite},
		{"IBV_WC_WITH_IMM", CompletedWithImm},
	})
}

func TestView(t *testing.T) {
	var q [2]Queue
	b := Bytes(&q[0])
	View[Queue](b).IndexMask = 7
	require.EqualValues(t, 7, q[0].IndexMask)
	require.Panics(t, func() { View[Queue](b[1:]) }, "short")
	all := Bytes(&q)
	require.Panics(t, func() { View[Queue](all[1:]) }, "not aligned")
	require.Panics(t, func() { View[Queue](nil) })
}
