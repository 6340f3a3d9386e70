// Package rxeabi is the byte layouts of Soft-RoCE's queues, which its kernel
// driver makes and shares with user space (Linux rdma_user_rxe.h). Everything but
// immediate data is in the host's byte order. Completions are the core's
// (uapi.WorkCompletion).
package rxeabi
