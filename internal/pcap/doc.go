// Package pcap writes captures of packets, as Wireshark and tcpdump read them: the
// file, and the Ethernet, IP and UDP headers of packets that never had any.
package pcap
