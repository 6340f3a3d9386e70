// Package device is the part of an opened mlx5 NIC that completion queues and queue
// pairs share, over what every driver has (package nic): doorbell pages and records,
// and the table that finds the queue pair of a completion.
package device
