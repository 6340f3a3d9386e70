// Package shm carries packets between two processes of one user on one host: through rings
// in memory that they share, without a system call while both are at work.
//
// The two meet at a Unix socket whose name says which address is behind it ([Listen],
// [Dial]). Each looks at whose process the other one is, and goes away if it is another
// user's. The one that dialled makes the memory, of a size that nobody can change any more,
// and passes it on. After that the socket carries only wakes, and its end is the end of the
// other process.
//
// Nothing but packets is in the memory. The other process can write to all of it at any
// time, so what is read from it is copied first and judged then.
package shm
