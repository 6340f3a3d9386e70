# The software ConnectX is mlx5_0, and its port comes up: on Ethernet with its interface,
# which gets 10.9.0.1 and fd00:9::1.
ip link set lo up
n=0
until grep -q -s ACTIVE /sys/class/infiniband/mlx5_0/ports/1/state; do
	n=$((n + 1))
	[ $n -lt 200 ] || exit 1
	for d in /sys/class/infiniband/mlx5_0/device/net/*; do
		[ -e "$d/operstate" ] || continue
		if [ "$(cat $d/operstate)" = down ]; then
			ip addr add 10.9.0.1/24 dev ${d##*/} || true
			ip addr add fd00:9::1/64 dev ${d##*/} nodad || true
			ip link set ${d##*/} up
		fi
	done
	sleep 0.05
done
