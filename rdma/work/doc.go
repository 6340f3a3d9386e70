// Package work is the words of queue pairs and completion queues, the same for
// every NIC: entries and receives, the memory they name, and their completions.
// The drivers' packages, such as rdma/mlx5 and rdma/rxe, take and give them.
package work
