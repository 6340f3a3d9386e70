package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// infiniBand returns why an InfiniBand port is not the one below the IPoIB interface that
// has the local address of the route, or "" if it is.
func (s *search) infiniBand(device string, port uint8) string {
	netdev := s.route.netdev
	if netdev == "" {
		netdev = s.host.with(s.route.local)
	}
	switch {
	case netdev == "":
		return "is InfiniBand, and no interface has the address"
	case !s.isIPoIB(netdev, device, port):
		return fmt.Sprintf("is InfiniBand, and %s, which has the address, is not its IPoIB interface", netdev)
	}
	return ""
}

// isIPoIB reports whether a network interface is that of an InfiniBand port.
func (f finder) isIPoIB(netdev, device string, port uint8) bool {
	const arphrdInfiniBand = "32" // linux/if_arp.h
	dir := filepath.Join(f.root, "/sys/class/net", netdev)
	if _, err := os.Stat(filepath.Join(dir, "device/infiniband", device)); err != nil {
		return false
	}
	if line(dir, "type") != arphrdInfiniBand {
		return false
	}
	n, err := strconv.Atoi(line(dir, "dev_port")) // counted from 0
	return err == nil && n+1 == int(port)
}

// line is the text of a file of sysfs, "" if it cannot be read.
func line(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
