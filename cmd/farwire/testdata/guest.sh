#!/bin/sh
# One of two guests with a card each on one network. ROLE is server or client, LINK ib or
# eth, NUMBER the last byte of its addresses and PORT the server's, on the machine that
# both run on.
set -eu

# The way to that machine, by which the programs exchange addresses, is an e1000.
ip link set lo up
for d in /sys/class/net/*; do
	case $(readlink $d/device/driver || true) in
	*/e1000)
		ip addr add 10.0.2.15/24 dev ${d##*/}
		ip link set ${d##*/} up
		;;
	*/mlx5_core) port=${d##*/} ;;
	esac
done
gid=
if [ $LINK = eth ]; then
	# Frames are not carried, so nobody answers ARP: each is told of the others.
	ip addr add 10.9.0.$NUMBER/24 dev $port
	ip link set $port up
	for n in 1 2 3; do
		[ $n = $NUMBER ] || ip neigh add 10.9.0.$n lladdr 02:00:00:00:00:0$n dev $port nud permanent
	done
fi
n=0
until grep -q ACTIVE /sys/class/infiniband/mlx5_0/ports/1/state; do
	n=$((n + 1))
	[ $n -lt 600 ] || { echo "the port stays down"; exit 1; }
	sleep 0.1
done
if [ $LINK = eth ]; then
	n=0
	until [ -n "$gid" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || { echo "no GID of 10.9.0.$NUMBER"; exit 1; }
		for g in /sys/class/infiniband/mlx5_0/ports/1/gids/*; do
			i=${g##*/}
			if grep -q ffff:0a09:000$NUMBER $g && grep -q 'RoCE v2' /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/$i; then
				gid="-g $i"
			fi
		done
		sleep 0.1
	done
fi

# talk runs a program: one end of it here, the other in the other guest.
talk() {
	echo "== $*"
	if [ $ROLE = server ]; then
		"$@"
		return
	fi
	n=0
	until "$@" -p $PORT 10.0.2.2; do # the server may not listen yet
		n=$((n + 1))
		[ $n -lt 200 ] || exit 1
		sleep 0.5
	done
}
export FARWIRE_DEVICE=mlx5_0
if [ $ROLE = server ]; then
	./echo -listen :18516 &
	echo=$!
fi
talk ibv_rc_pingpong -c -n 50 $gid
talk ibv_rc_pingpong -c -e -n 50 -s 100000 $gid
talk ibv_ud_pingpong -c -n 50 -s 1024 $gid
if [ $ROLE = client ]; then
	./echo -n 50 -dial 10.0.2.2:$ECHO
	exit
fi
# The last client is a program on the machine itself.
talk ibv_rc_pingpong -c -n 50 $gid
kill $echo
