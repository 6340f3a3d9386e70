// Package rdma gives net.Conn and net.Listener over RDMA queue pairs.
//
//	ln, err := rdma.Listen("rdma", ":7471")             // a net.Listener
//	c, err := rdma.Dial("rdma", "db1:7471")             // a net.Conn
//	http.Transport{DialContext: (&rdma.Dialer{}).DialContext}
//
// Networks are "rdma", "rdma4" (IPv4 only) and "rdma6" (IPv6 only); "tcp", "tcp4"
// and "tcp6" mean the same, for callers such as net/http that know no others.
// Addresses are host:port of a TCP port, over which the two queue pairs are
// introduced to each other (package bootstrap). That TCP connection stays open,
// unused, for as long as the connection does: its end tells at once that the
// peer's process has died.
//
// The dynamic types are *[conn.Conn] and *[listener.Listener], which offer more than the
// interfaces: CloseWrite, Stats, WriteBuffers, Device.
//
// # Choice of device
//
// Both ends choose for themselves, from the two addresses of their TCP connection, in
// this order:
//
//  1. Config.Device, else FARWIRE_DEVICE, decides if it is set: "soft" is the software NIC,
//     "hardware" goes on with step 3, and any other name is that of an RDMA device, such
//     as "mlx5_0" or "rxe0".
//  2. Both addresses are this machine's: the software NIC. Addresses of this machine
//     reach only this machine, and no card has a loopback address.
//  3. The port whose RoCE v2 GID is the local address of the route to the peer, on the
//     network interface that has this address; on InfiniBand the port whose IPoIB
//     interface has it. If several have it: a ConnectX before Soft-RoCE, an active port
//     before one that is not, and of several the one the kernel lists first.
//  4. None has it. A device that was named is used nevertheless, with an active port and
//     the best GID there is: of the route's family, and not link-local. "hardware" is an
//     error. Otherwise it is the software NIC, which is not fast hardware.
//
// GIDs that are not used: RoCE v1 ones, those of interfaces in other network namespaces,
// those at an index beyond 255. A link-local address is many interfaces': it must be that
// of the interface the route goes by. Devices of another driver or of another RDMA
// network namespace are not used either.
//
// A chosen device that cannot be opened is an error, and no reason for the software NIC,
// which the peer's card may be unable to reach. Where nothing can be used, the error is a
// *[DeviceError], which names each device and port and says why it was refused.
// Config.Logger is told of each device that is opened, and why that one; [Config.Choose]
// and the command farwire devices -to HOST explain the choice without connecting.
//
// FARWIRE_SOFTNIC sets the software NIC up, faults included; see package softnic.
//
// The software NIC speaks UDP port 4791 of the address it uses. For connections within
// the machine that is an address of its own in 127.0.0.0/8, so that any number of
// processes can have one; towards other machines it is the local address of the route,
// which one process can have, and which must not be an IPv6 link-local one. An address
// that FARWIRE_SOFTNIC names is used for all of them.
//
// A device is opened for the first connection that needs it and closed with the last.
package rdma
