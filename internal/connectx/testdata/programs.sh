#!/bin/sh
# The device is there, its port is up, and queue pairs reach each other through it. LINK
# is ib, or eth for RoCE v2: at the interface's IPv4 and IPv6 addresses.
set -e
ip link set lo up
# One line is not counted: the device has no vendor-specific capability.
complaints() { dmesg | grep -i -E 'mlx5.*(fail|error)|warning|call trace' | grep -v mlx5_pci_vsc_init; }

# come_up waits until the port is active, on Ethernet with addresses.
come_up() {
	n=0
	until ibv_devinfo | grep PORT_ACTIVE; do
		n=$((n + 1))
		[ $n -lt 200 ] || { ibv_devinfo; exit 1; }
		if [ $LINK = eth ]; then
			for d in /sys/class/infiniband/mlx5_0/device/net/*; do
				[ -e "$d/operstate" ] || continue
				ip link set ${d##*/} up
				ip addr replace 10.9.0.1/24 dev ${d##*/}
				ip addr replace fd00:9::1/64 dev ${d##*/} nodad
			done
		fi
		sleep 0.05
	done
	if [ $LINK = eth ]; then
		v4=$(gid_index ffff:0a09:0001)
		v6=$(gid_index fd00:0009:)
	fi
}

# gid_index waits for the RoCE v2 GID that has some text in it, and says its index.
gid_index() {
	for n in $(seq 200); do
		for g in /sys/class/infiniband/mlx5_0/ports/1/gids/*; do
			i=${g##*/}
			if grep -q $1 $g && grep -q 'RoCE v2' /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/$i; then
				echo $i
				return
			fi
		done
		sleep 0.05
	done
	echo "no GID with $1" >&2
	return 1
}

# pair runs the two ends of a program.
pair() {
	echo "== $*"
	"$@" >/tmp/server 2>&1 &
	server=$!
	n=0
	until "$@" 127.0.0.1 >/tmp/client 2>&1; do
		n=$((n + 1))
		if [ $n = 20 ] || ! grep -q -i "connect" /tmp/client; then
			cat /tmp/server /tmp/client
			exit 1
		fi
		sleep 0.2
	done
	wait $server || { cat /tmp/server; exit 1; }
	tail -4 /tmp/client
}

# pingpongs and perftests take the option that names a GID, if there is one to name.
pingpongs() {
	pair ibv_rc_pingpong -n 50 "$@"
	pair ibv_rc_pingpong -n 50 -e "$@"
	pair ibv_uc_pingpong -n 50 "$@"
	pair ibv_ud_pingpong -n 50 -s 1024 "$@"
	pair ibv_srq_pingpong -n 50 -q 2 "$@"
}
perftests() {
	pair ib_write_bw -n 50 -F "$@"
	pair ib_read_bw -n 50 -F "$@"
	pair ib_send_bw -n 50 -F "$@"
	pair ib_atomic_bw -n 50 -F "$@"
	pair ib_atomic_bw -n 50 -F -A CMP_AND_SWAP "$@"
}

if complaints; then exit 1; fi
come_up
case $LINK in
ib)
	pingpongs
	perftests
	;;
eth)
	pingpongs -g $v4
	pingpongs -g $v6
	perftests -x $v4
	perftests -x $v6
	;;
esac

# What the driver asks the device about its queues.
for f in /sys/kernel/debug/mlx5/*/EQs/*/num_eqes /sys/kernel/debug/mlx5/*/CQs/*/num_cqes; do
	echo "$f $(cat $f)"
	[ $(($(cat $f))) -gt 0 ] || exit 1
done

# The driver goes and comes back.
rmmod mlx5_ib
rmmod mlx5_core
insmod /lib/modules/mlx5_core.ko
insmod /lib/modules/mlx5_ib.ko
come_up
pair ibv_rc_pingpong -n 20 ${v4:+-g $v4}
if complaints; then exit 1; fi
