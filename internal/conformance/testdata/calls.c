/*
 * Executes calls of libibverbs that standard input names, one a line: a word and
 * numbers. Each is answered by one line, "ok" and what it has to tell, once it is
 * done. The words are those of the cases below; calls_test.go makes them.
 */
#include <infiniband/verbs.h>
#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, LINKS = 64, SEGMENTS = 32, GIDS = 256 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_port_attr port;
static struct ibv_gid_entry gids[GIDS];
static ssize_t gid_count;
static struct ibv_mr *regions[MOST];
static struct ibv_cq *queues[MOST];
static struct ibv_qp *pairs[MOST];
static struct ibv_srq *shared[MOST];

/* The sends that wait for "ring". */
static struct ibv_send_wr sends[LINKS];
static struct ibv_sge segments[LINKS][SEGMENTS];
static int waiting;

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* The rest of the line is numbers; next is the one after those taken. */
static char *rest;

static uint64_t next(void) { return strtoull(rest, &rest, 0); }

/* A slot of a table of MOST. */
static int slot(void)
{
	uint64_t n = next();
	check(n < MOST, "slot");
	return n;
}

static int list(struct ibv_sge *s)
{
	int n = next();
	check(n <= SEGMENTS, "segments");
	for (int i = 0; i < n; i++) {
		struct ibv_mr *mr = regions[slot()];
		s[i].addr = (uintptr_t)mr->addr + next();
		s[i].length = next();
		s[i].lkey = mr->lkey;
	}
	return n;
}

static void open_device(void)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	check(all && all[0], "device");
	check((context = ibv_open_device(all[0])) != NULL, "open");
	ibv_free_device_list(all);
	check((pd = ibv_alloc_pd(context)) != NULL, "protection domain");
	check((channel = ibv_create_comp_channel(context)) != NULL, "channel");
	gid_count = ibv_query_gid_table(context, gids, GIDS, 0);
	if (gid_count < 0) /* the table needs the interfaces too, which sysfs does not tell */
		for (gid_count = 0; gid_count < GIDS; gid_count++) {
			gids[gid_count].gid_index = gid_count;
			if (ibv_query_gid(context, 1, gid_count, &gids[gid_count].gid))
				break;
		}
}

/* Registers memory whose byte i is i mod 251. */
static void register_memory(void)
{
	int id = slot();
	size_t length = next();
	int access = next();
	unsigned char *memory = aligned_alloc(4096, (length + 4095) / 4096 * 4096);

	check(memory != NULL, "memory");
	for (size_t i = 0; i < length; i++)
		memory[i] = i % 251;
	check((regions[id] = ibv_reg_mr(pd, memory, length, access)) != NULL, "region");
}

static void deregister_memory(void)
{
	int id = slot();
	void *memory = regions[id]->addr;

	check(!ibv_dereg_mr(regions[id]), "deregister");
	free(memory);
}

static void create_queue(void)
{
	int id = slot();
	int entries = next();

	/* The library makes room for one entry more. */
	check((queues[id] = ibv_create_cq(context, entries - 1, NULL, channel, 0)) != NULL, "completion queue");
}

static void create_pair(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
			IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ,
	};
	int id = slot();

	attr.send_cq = queues[slot()];
	attr.recv_cq = queues[slot()];
	attr.cap.max_send_wr = next();
	attr.cap.max_recv_wr = next();
	attr.cap.max_send_sge = next();
	attr.cap.max_recv_sge = next();
	attr.cap.max_inline_data = next();
	if (next()) {
		/* The operations are named, so that no room is left for others. */
		pairs[id] = ibv_create_qp_ex(context, &attr);
	} else {
		struct ibv_qp_init_attr plain = {
			.send_cq = attr.send_cq, .recv_cq = attr.recv_cq, .cap = attr.cap, .qp_type = IBV_QPT_RC,
		};
		pairs[id] = ibv_create_qp(pd, &plain);
	}
	check(pairs[id] != NULL, "queue pair");
}

static void create_shared(void)
{
	struct ibv_srq_init_attr attr = {};
	int id = slot();

	attr.attr.max_wr = next();
	attr.attr.max_sge = next();
	check((shared[id] = ibv_create_srq(pd, &attr)) != NULL, "shared receive queue");
}

static void limit_shared(void)
{
	struct ibv_srq_attr attr = {};
	int id = slot();

	attr.srq_limit = next();
	check(!ibv_modify_srq(shared[id], &attr, IBV_SRQ_LIMIT), "limit");
}

/* A queue pair that takes receives of a shared receive queue. */
static void create_sharing_pair(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
	};
	int id = slot();

	attr.send_cq = queues[slot()];
	attr.recv_cq = queues[slot()];
	attr.srq = shared[slot()];
	attr.cap.max_send_wr = next();
	attr.cap.max_send_sge = next();
	attr.cap.max_inline_data = next();
	check((pairs[id] = ibv_create_qp_ex(context, &attr)) != NULL, "queue pair");
}

static uint32_t psn(int id) { return 0x123456 + id; }

static void connect_pair(void)
{
	int id = slot(), peer = slot();
	int access = next(), peer_reads = next(), reads = next(), timeout = next();
	uint32_t gid = next();
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = pairs[peer]->qp_num, .rq_psn = psn(peer),
		.max_dest_rd_atomic = peer_reads, .min_rnr_timer = 12, .ah_attr = { .port_num = 1 },
	};
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS, .sq_psn = psn(id), .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = reads, .timeout = timeout,
	};

	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		receive.ah_attr.dlid = port.lid;
	} else {
		receive.ah_attr.is_global = 1;
		receive.ah_attr.grh.sgid_index = gid;
		receive.ah_attr.grh.hop_limit = 64;
		for (ssize_t i = 0; i < gid_count; i++)
			if (gids[i].gid_index == gid)
				receive.ah_attr.grh.dgid = gids[i].gid;
	}
	check(!ibv_modify_qp(pairs[id], &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	check(!ibv_modify_qp(pairs[id], &receive,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	check(!ibv_modify_qp(pairs[id], &send,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void fail_pair(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	check(!ibv_modify_qp(pairs[slot()], &attr, IBV_QP_STATE), "ERR");
}

static void query_pair(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	check(!ibv_query_qp(pairs[slot()], &attr, IBV_QP_STATE, &init), "query queue pair");
}

/* Posts several receives into the same memory at once, to a queue pair or a shared queue. */
static void post_receives(int to_shared)
{
	struct ibv_sge into[SEGMENTS];
	struct ibv_recv_wr wr[LINKS], *bad;
	int id = slot();
	int n = next(), segments;

	check(n <= LINKS, "receives");
	segments = list(into);
	for (int i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = i, .sg_list = into, .num_sge = segments, .next = i < n - 1 ? &wr[i + 1] : NULL,
		};
	check(!(to_shared ? ibv_post_srq_recv(shared[id], wr, &bad) : ibv_post_recv(pairs[id], wr, &bad)), "receive");
}

static void add_send(void)
{
	check(waiting < LINKS, "chain");
	struct ibv_send_wr *wr = &sends[waiting];

	memset(wr, 0, sizeof *wr);
	wr->wr_id = waiting;
	wr->opcode = next();
	wr->send_flags = next();
	wr->imm_data = htobe32(next());
	struct ibv_mr *remote = regions[slot()];
	uint64_t at = (uintptr_t)remote->addr + next();
	uint64_t compare_add = next(), swap = next();
	switch (wr->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr->wr.atomic.remote_addr = at;
		wr->wr.atomic.rkey = remote->rkey;
		wr->wr.atomic.compare_add = compare_add;
		wr->wr.atomic.swap = swap;
		break;
	default:
		wr->wr.rdma.remote_addr = at;
		wr->wr.rdma.rkey = remote->rkey;
	}
	wr->sg_list = segments[waiting];
	wr->num_sge = list(segments[waiting]);
	if (waiting > 0)
		sends[waiting - 1].next = wr;
	waiting++;
}

static void ring(void)
{
	struct ibv_send_wr *bad;

	check(!ibv_post_send(pairs[slot()], sends, &bad), "send");
	waiting = 0;
}

/* Polls until there were so many completions, and tells how many failed. */
static int poll_queue(void)
{
	struct ibv_cq *cq = queues[slot()];
	int want = next(), failed = 0;

	while (want > 0) {
		struct ibv_wc wc[8];
		int n = ibv_poll_cq(cq, want < 8 ? want : 8, wc);
		check(n >= 0, "poll");
		for (int i = 0; i < n; i++)
			failed += wc[i].status != IBV_WC_SUCCESS;
		want -= n;
	}
	return failed;
}

static void arm(void)
{
	struct ibv_cq *cq = queues[slot()];

	check(!ibv_req_notify_cq(cq, next()), "arm");
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *user;

	check(!ibv_get_cq_event(channel, &cq, &user), "event");
	check(cq == queues[slot()], "event of another queue");
	ibv_ack_cq_events(cq, 1);
}

static void close_device(void)
{
	check(!ibv_destroy_comp_channel(channel), "destroy channel");
	check(!ibv_dealloc_pd(pd), "free protection domain");
	check(!ibv_close_device(context), "close");
}

/* Tells the files of the libraries that this process has loaded. */
static void libraries(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096], last[4096] = "";

	check(maps != NULL, "maps");
	while (fgets(line, sizeof line, maps)) {
		char *name = strrchr(line, '/');
		if (!name || (strncmp(name, "/libmlx5.", 9) && strncmp(name, "/libibverbs.", 12)) || !strcmp(name, last))
			continue;
		strcpy(last, name);
		printf(" %.*s", (int)strcspn(name + 1, "\n"), name + 1);
	}
	fclose(maps);
}

int main(void)
{
	char line[4096], word[32];

	while (fgets(line, sizeof line, stdin)) {
		int used = 0;
		check(sscanf(line, "%31s%n", word, &used) == 1, "word");
		rest = line + used;
		int failed = 0;
		fputs("ok ", stdout);
#define CALL(name) !strcmp(word, name)
		if (CALL("open")) open_device();
		else if (CALL("libraries")) libraries();
		else if (CALL("port")) check(!ibv_query_port(context, 1, &port), "query port");
		else if (CALL("mr")) register_memory();
		else if (CALL("cq")) create_queue();
		else if (CALL("qp")) create_pair();
		else if (CALL("connect")) connect_pair();
		else if (CALL("query")) query_pair();
		else if (CALL("recv")) post_receives(0);
		else if (CALL("srq")) create_shared();
		else if (CALL("limit")) limit_shared();
		else if (CALL("sharingqp")) create_sharing_pair();
		else if (CALL("recvsrq")) post_receives(1);
		else if (CALL("destroysrq")) check(!ibv_destroy_srq(shared[slot()]), "destroy shared receive queue");
		else if (CALL("send")) add_send();
		else if (CALL("ring")) ring();
		else if (CALL("poll")) failed = poll_queue();
		else if (CALL("arm")) arm();
		else if (CALL("event")) take_event();
		else if (CALL("fail")) fail_pair();
		else if (CALL("destroyqp")) check(!ibv_destroy_qp(pairs[slot()]), "destroy queue pair");
		else if (CALL("destroycq")) check(!ibv_destroy_cq(queues[slot()]), "destroy completion queue");
		else if (CALL("deregmr")) deregister_memory();
		else if (CALL("close")) close_device();
		else check(0, word);
		if (failed)
			printf("%d failed", failed);
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
