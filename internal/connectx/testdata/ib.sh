#!/bin/sh
# The device is there, its port is up, and queue pairs reach each other through it.
set -e
# One line is not counted: the device has no vendor-specific capability.
ip link set lo up
complaints() { dmesg | grep -i -E 'mlx5.*(fail|error)|warning|call trace' | grep -v mlx5_pci_vsc_init; }
if complaints; then exit 1; fi
ibv_devinfo | grep PORT_ACTIVE

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
pair ibv_rc_pingpong -n 50
pair ibv_rc_pingpong -n 50 -e
pair ibv_uc_pingpong -n 50
pair ibv_ud_pingpong -n 50
pair ibv_srq_pingpong -n 50 -q 2
pair ib_write_bw -n 50 -F
pair ib_read_bw -n 50 -F
pair ib_send_bw -n 50 -F
pair ib_atomic_bw -n 50 -F
pair ib_atomic_bw -n 50 -F -A CMP_AND_SWAP

# The driver goes and comes back.
rmmod mlx5_ib
rmmod mlx5_core
insmod /lib/modules/mlx5_core.ko
insmod /lib/modules/mlx5_ib.ko
ibv_devinfo | grep PORT_ACTIVE
pair ibv_rc_pingpong -n 20
if complaints; then exit 1; fi
