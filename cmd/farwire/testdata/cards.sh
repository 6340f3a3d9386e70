#!/bin/sh
# A guest with two InfiniBand cards on one network: they reach each other.
set -eu
ip link set lo up

# up waits until a card's port is active.
up() {
	n=0
	until grep -q -s ACTIVE /sys/class/infiniband/$1/ports/1/state; do
		n=$((n + 1))
		[ $n -lt 600 ] || { echo "the port of $1 stays down"; exit 1; }
		sleep 0.1
	done
}

# pingpong runs a program's server on the first card and its client, which tries until the
# server listens, on the second.
pingpong() {
	echo "== $*"
	"$@" -d mlx5_0 >server 2>&1 &
	server=$!
	n=0
	until "$@" -d mlx5_1 127.0.0.1; do
		n=$((n + 1))
		[ $n -lt 50 ] || { cat server; exit 1; }
		sleep 0.5
	done
	wait $server || { cat server; exit 1; }
}

up mlx5_0
up mlx5_1
pingpong ibv_rc_pingpong -c -n 50
pingpong ibv_ud_pingpong -c -n 50 -s 1024

if dmesg | grep -i -E 'warning|call trace|bug:'; then exit 1; fi
