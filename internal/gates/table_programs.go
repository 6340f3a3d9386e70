package main

// deviceGates look at the devices.
var deviceGates = []programGate{
	{group: "devices", name: "list", program: "ibv_devices", checks: []check{says(1, "mlx5_0")}},
	{group: "devices", name: "all attributes", program: "ibv_devinfo -v", checks: []check{
		says(1, "hca_id:\tmlx5_0"), says(1, "state:\t\t\tPORT_ACTIVE"), saysOn(roce, "link_layer:\t\tEthernet"), saysOn(ib, "link_layer:\t\tInfiniBand")}},
	{group: "devices", name: "two NICs", flags: "-n 2", program: "ibv_devinfo -v", checks: []check{
		says(1, "hca_id:\tmlx5_0"), says(1, "hca_id:\tmlx5_1"), says(2, "state:\t\t\tPORT_ACTIVE")}},
	{group: "devices", name: "oldest interface", flags: "-nic kernel=old,cqe=0,bf=off", program: "ibv_devinfo -v",
		checks: []check{says(1, "state:\t\t\tPORT_ACTIVE")}},
}

// pingpong is a pair of one of rdma-core's examples, which exchange 200 messages
// and look at every byte of what they get.
func pingpong(name, program string, more ...check) programGate {
	return programGate{group: "pingpong", name: name, program: "ibv_" + program + "_pingpong -c -n 200", client: sameAsServer,
		checks: append([]check{says(2, "200 iters in"), says(0, "invalid data"), packets}, more...)}
}

func (g programGate) with(arguments string) programGate { g.program += " " + arguments; return g }
func (g programGate) set(flags string) programGate      { g.flags = flags; return g }
func (g programGate) only(l layer) programGate          { g.on = []layer{l}; return g }

// wide makes completions 128 bytes long.
func (g programGate) wide() programGate { g.env = "MLX5_CQE_SIZE=128"; return g }

// pingpongGates are rdma-core's examples over every transport, by polling and by
// events, on NICs with every kind of doorbell page and completion.
var pingpongGates = []programGate{
	pingpong("RC", "rc"),
	pingpong("RC, events", "rc", events).with("-e"),
	pingpong("RC, new posting interface", "rc", events).with("-e -N"),
	// By events the program takes it for an error that a wake-up finds nothing new.
	pingpong("RC, timestamps", "rc").with("-t"),
	pingpong("RC, 32 bytes, in completions", "rc").with("-s 32"),
	pingpong("RC, 64 bytes, in completions of 128", "rc", events).with("-s 64 -e").wide(),
	pingpong("RC, 1 MB", "rc", events).with("-s 1000000 -e"),
	pingpong("RC, path MTU 256", "rc", events).with("-m 256 -e"),
	pingpong("RC, three receives at a time", "rc", events).with("-r 3 -e"),
	pingpong("RC by IPv4 GID", "rc", events).with("-g 1 -e").only(roce),
	pingpong("RC by GID", "rc", events).with("-g 0 -e").only(ib),
	pingpong("RC, static doorbell pages", "rc", events).with("-e").set("-nic uar=static"),
	pingpong("RC, completions of version 0", "rc", events).with("-e").set("-nic cqe=0"),
	pingpong("RC, no BlueFlame", "rc", events, noBlueFlame).with("-e -s 64").set("-nic bf=off"),
	pingpong("RC, oldest interface", "rc", events).with("-e").set("-nic kernel=old,cqe=0,bf=off"),
	pingpong("RC, port MTU 1024", "rc", events).with("-e -m 1024").set("-nic mtu=1024"),
	pingpong("RC, packets lost, doubled and late", "rc", events).with("-e").set("-impair loss=0.02,dup=0.02,reorder=0.02,seed=3"),
	twoNICs(pingpong("RC, two NICs", "rc", events).with("-e")),
	pingpong("UC", "uc"),
	pingpong("UC, events", "uc", events).with("-e"),
	pingpong("UC, static doorbell pages", "uc", events).with("-e").set("-nic uar=static,cqe=0,bf=off"),
	pingpong("UC, 20 bytes, in completions", "uc", events).with("-e -s 20"),
	pingpong("UD", "ud").with("-s 1024"),
	pingpong("UD, events", "ud", events).with("-s 2048 -e"),
	pingpong("UD by IPv4 GID", "ud", events).with("-s 1024 -e -g 1").only(roce),
	pingpong("UD by GID", "ud", events).with("-s 1024 -e -g 0").only(ib),
	pingpong("UD, oldest interface", "ud", events).with("-s 1024 -e").set("-nic kernel=old,cqe=0,bf=off"),
	pingpong("UD, 20 bytes, in completions of 128", "ud", events).with("-s 20 -e").wide(),
	pingpong("SRQ, 16 queue pairs", "srq"),
	pingpong("SRQ, 4 queue pairs, events", "srq", events).with("-q 4 -e"),
	pingpong("SRQ, static doorbell pages", "srq", events).with("-e").set("-nic uar=static,cqe=0,bf=off"),
	pingpong("SRQ, 20 bytes, in completions", "srq", events).with("-e -s 20"),
}

func twoNICs(g programGate) programGate {
	g.flags, g.client = "-n 2", "-d mlx5_1"
	return g
}

// perf is a pair of one of perftest's programs. How fast they are is not looked at.
func perf(name, program string, more ...check) programGate {
	return programGate{group: "perftest", name: name, program: program + " -F", client: sameAsServer,
		checks: append([]check{packets}, more...)}
}

// all makes it go through all sizes from 2 bytes to so many, a power of two.
func (g programGate) all(upTo int) programGate {
	g.program += " -a"
	n := 0
	for size := 2; size <= upTo; size *= 2 {
		n++
	}
	g.checks = append(g.checks, sizes(n))
	return g
}

const (
	largest  = 8 << 20 // of perftest's sizes
	datagram = 4096    // the largest one
)

var one = sizes(1)

// perftestGates are perftest's programs: every operation, latency and bandwidth, on
// every transport that has it. Those for bandwidth that work by events have at most 16
// completions to wait for: of more than that perftest 4.5 leaves some in the queue, and
// waits for ever (linux-rdma/perftest, pull request 203).
var perftestGates = []programGate{
	perf("SEND RC latency", "ib_send_lat -n 100", one),
	perf("SEND RC latency, events", "ib_send_lat -n 100 -e", one, events),
	perf("SEND RC latency, all sizes, events", "ib_send_lat -n 5 -e", events).all(largest).only(roce),
	perf("SEND RC latency, inline", "ib_send_lat -n 100 -s 64 -I 64", one, blueFlames),
	perf("SEND RC", "ib_send_bw -n 200", one),
	perf("SEND RC, events", "ib_send_bw -n 200 -t 16 -e", one, events),
	perf("SEND RC, all sizes", "ib_send_bw -n 5").all(largest),
	perf("SEND RC, both ways", "ib_send_bw -n 200 -b", one),
	perf("SEND RC, both ways, events", "ib_send_bw -n 200 -t 16 -r 16 -b -e", one, events),
	perf("SEND RC, inline", "ib_send_bw -n 200 -s 64 -I 64", one),
	perf("SEND RC, lists of 16", "ib_send_bw -n 320 -l 16", one),
	perf("SEND RC, lists of sends and receives", "ib_send_bw -n 320 -l 16 --recv_post_list=16", one),
	perf("SEND RC, 32 queue pairs", "ib_send_bw -n 50 -q 32", one),
	perf("SEND RC, 16 queue pairs, lists, inline, events", "ib_send_bw -n 64 -q 16 -t 4 -l 4 -s 64 -I 64 -e", one, events),
	perf("SEND RC, shared receive queue", "ib_send_bw -n 200 --use-srq -q 4", one),
	perf("SEND RC, old posting interface", "ib_send_bw -n 200 --use_old_post_send", one),
	perf("SEND RC, path MTU 256", "ib_send_bw -n 100 -m 256", one),
	perf("SEND RC, static doorbell pages, 16 queue pairs", "ib_send_bw -n 50 -q 16", one).set("-nic uar=static"),
	perf("SEND RC, completions of version 0", "ib_send_bw -n 200 -t 16 -e", one, events).set("-nic cqe=0"),
	perf("SEND RC, packets lost", "ib_send_bw -n 100 -u 12", one).set("-impair loss=0.002,seed=5"),
	perf("SEND UC latency", "ib_send_lat -n 100 -c UC", one),
	perf("SEND UC", "ib_send_bw -n 200 -c UC", one),
	perf("SEND UC, both ways, events", "ib_send_bw -n 200 -c UC -t 16 -b -e", one, events),
	perf("SEND UC, lists of 8, 4 queue pairs", "ib_send_bw -n 64 -c UC -l 8 -q 4", one),
	perf("SEND UD latency", "ib_send_lat -n 100 -c UD", one),
	perf("SEND UD latency, all sizes, events", "ib_send_lat -n 20 -c UD -e", events).all(datagram).only(ib),
	perf("SEND UD", "ib_send_bw -n 200 -c UD", one),
	perf("SEND UD, both ways, events", "ib_send_bw -n 200 -c UD -t 16 -b -e", one, events),
	perf("SEND UD, inline, lists of 8", "ib_send_bw -n 64 -c UD -s 64 -I 64 -l 8", one),
	perf("SEND UD, 8 queue pairs", "ib_send_bw -n 64 -c UD -q 8", one),
	perf("WRITE RC latency", "ib_write_lat -n 100", one),
	perf("WRITE RC latency, inline", "ib_write_lat -n 100 -s 128 -I 128", one, blueFlames),
	perf("WRITE RC latency, no BlueFlame", "ib_write_lat -n 100 -s 128 -I 128", one, noBlueFlame).set("-nic bf=off"),
	perf("WRITE RC", "ib_write_bw -n 200", one),
	perf("WRITE RC, all sizes", "ib_write_bw -n 5").all(largest),
	perf("WRITE RC, both ways", "ib_write_bw -n 200 -b", one),
	perf("WRITE RC, inline", "ib_write_bw -n 200 -s 64 -I 64", one),
	perf("WRITE RC, lists of 16", "ib_write_bw -n 320 -l 16", one),
	perf("WRITE RC, 64 queue pairs", "ib_write_bw -n 20 -q 64", one),
	perf("WRITE RC, static doorbell pages, 16 queue pairs", "ib_write_bw -n 50 -q 16", one).set("-nic uar=static,bf=off"),
	perf("WRITE UC latency", "ib_write_lat -n 100 -c UC", one),
	perf("WRITE UC", "ib_write_bw -n 200 -c UC", one),
	perf("WRITE UC, lists of 8, 8 queue pairs", "ib_write_bw -n 64 -c UC -l 8 -q 8", one),
	perf("READ latency", "ib_read_lat -n 100", one),
	perf("READ latency, events", "ib_read_lat -n 100 -e", one, events),
	perf("READ", "ib_read_bw -n 200", one),
	perf("READ, events", "ib_read_bw -n 200 -t 16 -e", one, events),
	perf("READ, all sizes, 4 at a time", "ib_read_bw -n 5 -o 4").all(largest),
	perf("READ, both ways", "ib_read_bw -n 100 -b", one),
	perf("READ, lists of 8, 8 queue pairs", "ib_read_bw -n 64 -l 8 -q 8", one),
	perf("compare and swap latency", "ib_atomic_lat -n 100 -A CMP_AND_SWAP", one),
	perf("fetch and add latency, events", "ib_atomic_lat -n 100 -A FETCH_AND_ADD -e", one, events),
	perf("compare and swap", "ib_atomic_bw -n 200 -A CMP_AND_SWAP", one),
	perf("compare and swap, one at a time", "ib_atomic_bw -n 200 -A CMP_AND_SWAP -o 1", one),
	perf("fetch and add", "ib_atomic_bw -n 200 -A FETCH_AND_ADD", one),
	perf("fetch and add, 8 queue pairs, lists, events", "ib_atomic_bw -n 64 -A FETCH_AND_ADD -q 8 -t 8 -l 4 -e", one, events),
	perf("fetch and add, both ways", "ib_atomic_bw -n 100 -A FETCH_AND_ADD -b", one),
}
