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
// A connection uses the port whose RoCE v2 GID is the local address of the route to
// the peer; hardware first, and if no card has that address the software NIC, which is
// not fast hardware: Config.Logger is told of each device that is opened, and why that
// one. Both ends choose for themselves, from the two addresses of their TCP connection.
//
// Addresses of this machine reach only this machine, and no card has a loopback
// address: connections between two addresses of one machine use the software NIC, also
// where there is hardware. Naming a device overrides that.
//
// FARWIRE_DEVICE, or Config.Device which goes before it, names the device instead: an
// RDMA device such as "mlx5_0", or "soft" for the software NIC. Its GID is then the one
// of the local address if it has it, else its best. FARWIRE_SOFTNIC sets the software
// NIC up, faults included; see package softnic.
//
// The software NIC speaks UDP port 4791 of the address it uses. For connections within
// the machine that is an address of its own in 127.0.0.0/8, so that any number of
// processes can have one; towards other machines it is the local address of the route,
// which one process can have, and which must not be an IPv6 link-local one. An address
// that FARWIRE_SOFTNIC names is used for all of them.
//
// A device is opened for the first connection that needs it and closed with the last.
package rdma
