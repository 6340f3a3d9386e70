// Package farwire is the root of the Farwire module: RDMA for Go with no cgo.
//
// The packages to import are rdma (net.Conn and net.Listener over queue pairs),
// rdma/mlx5 and its children (the raw objects of a ConnectX) and rdma/softnic
// (a ConnectX in software). The root holds only the module's own checks.
package farwire
