// Package bootstrap introduces two queue pairs to each other over an ordinary
// connection, usually TCP.
//
// Three messages do it:
//
//	dialer               listener
//	   | -- hello -------> |   who I am, what I have posted
//	   |                   |   makes, connects its queue pair, posts its receives
//	   | <------- hello -- |   who I am, what I have posted
//	   |                   |   connects its queue pair, posts its receives
//	   | -- ready -------> |   you may send
//
// The dialer may send over its queue pair once it has the hello, the listener once it
// has the ready. In place of any of them either side may send a refusal with a reason.
// The bytes are specified in docs/bootstrap.md.
//
// Everything a peer says is checked before it is used, and nothing is read beyond the
// last message, so the connection can serve other ends afterwards.
package bootstrap
