# A Soft-RoCE device, rxe0, on an interface d0 that leads nowhere: 10.9.0.1 and
# fd00:9::1. Its packets come back inside it.
ip link set lo up
ip link add d0 type dummy
ip addr add 10.9.0.1/24 dev d0
ip addr add fd00:9::1/64 dev d0 nodad
ip link set d0 up
rdma link add rxe0 type rxe netdev d0
gids=/sys/class/infiniband/rxe0/ports/1/gids
n=0
until cat $gids/0 $gids/1 $gids/2 | grep -q 0a09:0001; do # the kernel adds them in its own time
	n=$((n + 1))
	[ $n -lt 200 ] || exit 1
	sleep 0.05
done
