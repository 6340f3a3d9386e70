# The software ConnectX is mlx5_0, and its port comes up.
ip link set lo up
port=/sys/class/infiniband/mlx5_0/ports/1
n=0
until grep -q -s ACTIVE $port/state; do
	n=$((n + 1))
	[ $n -lt 200 ] || exit 1
	sleep 0.05
done
