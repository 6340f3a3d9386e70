// Package connectx is a software NIC as a PCI device: registers, the command
// interface and event queues of a ConnectX, for the kernel's own mlx5 drivers in a
// virtual machine. Below the commands it is the same NIC that programs have through
// uverbs: queues, memory and packets are package softnic's, reached as a
// softnic.Function, with the guest's memory for that of the program.
//
// The guest is not trusted. Whatever it writes is judged before it is used: lengths of
// commands, chains of mailboxes, numbers of objects, lists of pages, which are bounded
// in number as well; what it may not have is answered with a status as firmware has
// it (package ifc) and told to the log.
package connectx
