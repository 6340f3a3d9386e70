// Package pcap writes captures of packets, as Wireshark and tcpdump read them: the
// file, and the headers of packets that never had any, of Ethernet, IP and UDP or of an
// InfiniBand subnet.
package pcap
