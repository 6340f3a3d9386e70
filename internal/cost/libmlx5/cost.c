// The work of cost (see ../main.go) on libibverbs and libmlx5:
//
//	cost count|time
//
// For each operation it writes a line: its name, and in the mode count its entries
// and how many times it was done between two breakpoints, in the mode time the least
// nanoseconds for an entry. Names with /ex are of the newer of libibverbs' two
// interfaces: ibv_wr_* and ibv_start_poll.
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// As in ../driver.go and ../work.go.
enum { ringEntries = 256, batch = 32, polled = 16, message = 64 };
enum { warmCalls = 4000, counts = 3, timings = 400 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq_ex *sends, *receives;
static struct ibv_qp *qp;
static struct ibv_qp_ex *qpx;
static char memory[4096] __attribute__((aligned(4096)));

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void must(int ok, const char *what) {
	if (!ok)
		fail(what);
}

static struct ibv_cq_ex *makeCQ(void) {
	struct ibv_cq_init_attr_ex a = {
		.cqe = ringEntries - 1,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_IMM,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &a);
	must(cq != NULL, "create completion queue");
	return cq;
}

static void makeQP(void) {
	struct ibv_qp_init_attr_ex a = {
		.send_cq = ibv_cq_ex_to_cq(sends),
		.recv_cq = ibv_cq_ex_to_cq(receives),
		.cap = {.max_send_wr = ringEntries, .max_recv_wr = ringEntries, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = message},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	qp = ibv_create_qp_ex(ctx, &a);
	must(qp != NULL, "create queue pair");
	qpx = ibv_qp_to_qp_ex(qp);
}

// connect makes the queue pair its own peer.
static void connect(void) {
	union ibv_gid gid;
	must(!ibv_query_gid(ctx, 1, 0, &gid), "query GID");
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .grh = {.dgid = gid, .hop_limit = 64}, .port_num = 1},
	};
	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void open(void) {
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list && list[0], "device list");
	ctx = ibv_open_device(list[0]);
	must(ctx != NULL, "open device");
	pd = ibv_alloc_pd(ctx);
	must(pd != NULL, "protection domain");
	mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	must(mr != NULL, "memory region");
	sends = makeCQ();
	receives = makeCQ();
	makeQP();
	connect();
}

// An operation; see ../work.go.
struct operation {
	const char *name;
	int entries, calls;
	void (*before)(int calls);
	void (*run)(void);
	void (*after)(int calls);
};

static int failures; // of the calls that are measured

// settle waits until the NIC has done what was posted: a command comes after it.
static void settle(void) {
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	must(!ibv_query_qp(qp, &a, IBV_QP_STATE, &i), "query queue pair");
	must(failures == 0, "measured call");
}

static struct ibv_wc completions[ringEntries];

// drain takes n completions, which must be there.
static void drain(struct ibv_cq_ex *cq, int n) {
	settle();
	int got = ibv_poll_cq(ibv_cq_ex_to_cq(cq), ringEntries, completions);
	must(got == n, "completions");
	for (int i = 0; i < n; i++)
		must(completions[i].status == IBV_WC_SUCCESS, "completion");
}

static struct ibv_sge sge;
static struct ibv_send_wr sendOne, sendInline, writes[batch];
static struct ibv_recv_wr receiveOne, receiveMany[batch];

static void prepare(void) {
	sge = (struct ibv_sge){(uintptr_t)memory, message, mr->lkey};
	sendOne = (struct ibv_send_wr){.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	sendInline = sendOne;
	sendInline.send_flags |= IBV_SEND_INLINE;
	receiveOne = (struct ibv_recv_wr){.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	for (int i = 0; i < batch; i++) {
		int last = i == batch - 1;
		writes[i] = (struct ibv_send_wr){
			.wr_id = 1, .next = last ? NULL : &writes[i + 1], .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = last ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = {.remote_addr = (uintptr_t)memory, .rkey = mr->rkey},
		};
		receiveMany[i] = receiveOne;
		receiveMany[i].next = last ? NULL : &receiveMany[i + 1];
	}
}

static void nothing(int calls) { (void)calls; }
static void runNothing(void) {}

static void post(void) {
	struct ibv_send_wr *bad;
	failures |= ibv_post_send(qp, &sendOne, &bad);
}

static void postInline(void) {
	struct ibv_send_wr *bad;
	failures |= ibv_post_send(qp, &sendInline, &bad);
}

static void postBatch(void) {
	struct ibv_send_wr *bad;
	failures |= ibv_post_send(qp, writes, &bad);
}

static void postEx(void) {
	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, sge.lkey, sge.addr, sge.length);
	failures |= ibv_wr_complete(qpx);
}

static void postInlineEx(void) {
	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_inline_data(qpx, memory, message);
	failures |= ibv_wr_complete(qpx);
}

static void postBatchEx(void) {
	ibv_wr_start(qpx);
	for (int i = 0; i < batch; i++) {
		qpx->wr_id = 1;
		qpx->wr_flags = i == batch - 1 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_rdma_write(qpx, mr->rkey, (uintptr_t)memory);
		ibv_wr_set_sge(qpx, sge.lkey, sge.addr, sge.length);
	}
	failures |= ibv_wr_complete(qpx);
}

static void sent(int calls) { drain(sends, calls); }

static void postReceive(void) {
	struct ibv_recv_wr *bad;
	failures |= ibv_post_recv(qp, &receiveOne, &bad);
}

static void postReceives(void) {
	struct ibv_recv_wr *bad;
	failures |= ibv_post_recv(qp, receiveMany, &bad);
}

static void send(int n) {
	while (n-- > 0)
		post();
}

// received has the receives that calls have posted filled.
static void received(int calls) {
	send(calls);
	drain(sends, calls);
	drain(receives, calls);
}

static void receivedBatch(int calls) { received(calls * batch); }

static void completeSends(int calls) {
	send(calls);
	settle();
}

static void completeManySends(int calls) { completeSends(calls * polled); }

static void completeReceives(int calls) {
	for (int i = 0; i < calls; i++)
		postReceive();
	send(calls);
	drain(sends, calls);
}

static void completeManyReceives(int calls) { completeReceives(calls * polled); }

static void poll(struct ibv_cq_ex *cq, int n) { failures |= ibv_poll_cq(ibv_cq_ex_to_cq(cq), n, completions) != n; }
static void pollSend(void) { poll(sends, 1); }
static void pollSends(void) { poll(sends, polled); }
static void pollReceive(void) { poll(receives, 1); }
static void pollReceives(void) { poll(receives, polled); }

// pollEx reads of each completion what ibv_poll_cq gives, and puts it down as that does.
static inline void pollEx(struct ibv_cq_ex *cq, int n) {
	struct ibv_poll_cq_attr a = {};
	int err = ibv_start_poll(cq, &a);
	must(!err, "start poll");
	for (struct ibv_wc *c = completions;; c++) {
		c->wr_id = cq->wr_id;
		c->status = cq->status;
		c->opcode = ibv_wc_read_opcode(cq);
		c->qp_num = ibv_wc_read_qp_num(cq);
		c->byte_len = ibv_wc_read_byte_len(cq);
		c->wc_flags = ibv_wc_read_wc_flags(cq);
		if (c->wc_flags & IBV_WC_WITH_IMM)
			c->imm_data = ibv_wc_read_imm_data(cq);
		if (--n == 0)
			break;
		err = ibv_next_poll(cq);
		failures |= err;
	}
	ibv_end_poll(cq);
}

static void pollSendEx(void) { pollEx(sends, 1); }
static void pollSendsEx(void) { pollEx(sends, polled); }
static void pollReceiveEx(void) { pollEx(receives, 1); }
static void pollReceivesEx(void) { pollEx(receives, polled); }

static void polledSends(int calls) {
	(void)calls;
	drain(sends, 0);
}

static void polledReceives(int calls) {
	(void)calls;
	drain(receives, 0);
}

static const struct operation operations[] = {
	{"empty", 1, 64, nothing, runNothing, nothing},
	{"post", 1, 64, nothing, post, sent},
	{"post/ex", 1, 64, nothing, postEx, sent},
	{"post-32", batch, 4, nothing, postBatch, sent},
	{"post-32/ex", batch, 4, nothing, postBatchEx, sent},
	{"post-inline", 1, 64, nothing, postInline, sent},
	{"post-inline/ex", 1, 64, nothing, postInlineEx, sent},
	{"receive", 1, 64, nothing, postReceive, received},
	{"receive-32", batch, 4, nothing, postReceives, receivedBatch},
	{"poll-send", 1, 64, completeSends, pollSend, polledSends},
	{"poll-send/ex", 1, 64, completeSends, pollSendEx, polledSends},
	{"poll-send-16", polled, 8, completeManySends, pollSends, polledSends},
	{"poll-send-16/ex", polled, 8, completeManySends, pollSendsEx, polledSends},
	{"poll-receive", 1, 64, completeReceives, pollReceive, polledReceives},
	{"poll-receive/ex", 1, 64, completeReceives, pollReceiveEx, polledReceives},
	{"poll-receive-16", polled, 8, completeManyReceives, pollReceives, polledReceives},
	{"poll-receive-16/ex", polled, 8, completeManyReceives, pollReceivesEx, polledReceives},
};

static __attribute__((noinline)) void breakpoint(void) { __asm__ volatile("int3"); }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

// least is the fewest nanoseconds that the operation's calls took, in some rounds.
static double least(const struct operation *o, int rounds) {
	double best = 1e18;
	while (rounds-- > 0) {
		o->before(o->calls);
		double start = now();
		for (int i = 0; i < o->calls; i++)
			o->run();
		double took = now() - start;
		if (took < best)
			best = took;
		o->after(o->calls);
	}
	return best;
}

static void count(const struct operation *o) {
	for (int i = 0; i < counts; i++) {
		o->before(1);
		breakpoint();
		o->run();
		breakpoint();
		o->after(1);
	}
}

int main(int argc, char **argv) {
	if (argc != 2 || (strcmp(argv[1], "count") && strcmp(argv[1], "time"))) {
		fprintf(stderr, "usage: cost count|time\n");
		return 2;
	}
	open();
	prepare();
	for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
		const struct operation *o = &operations[i];
		least(o, warmCalls / o->entries / o->calls + 1);
		if (argv[1][0] == 'c') {
			count(o);
			printf("%s %d %d\n", o->name, o->entries, counts);
		} else {
			printf("%s %.2f\n", o->name, least(o, timings) / (o->calls * o->entries));
		}
	}
	return 0;
}
