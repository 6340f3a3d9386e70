package link

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"github.com/farwire/farwire/internal/roce"
)

// LoopbackUDP is UDP on a free address of 127/8, picked at random outside
// 127.0.0/24, so that processes on one host find room beside each other. Where
// the system has no loopback address but 127.0.0.1 it takes that.
func LoopbackUDP(r Receiver) (Link, error) {
	return pickLoopback(func(addr netip.Addr) (Link, error) { return UDP(addr, r) })
}

// loopbackTries is enough to fail only when the port is taken on all addresses.
const loopbackTries = 16

func pickLoopback(open func(netip.Addr) (Link, error)) (Link, error) {
	var err error
	for range loopbackTries {
		var l Link
		l, err = open(randomLoopback())
		if isAddrNotAvailable(err) {
			return open(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
		if !errors.Is(err, ErrAddrInUse) {
			return l, err
		}
	}
	return nil, fmt.Errorf("no free loopback address in %d tries: %w", loopbackTries, err)
}

func randomLoopback() netip.Addr {
	for {
		b := [4]byte{127}
		rand.Read(b[1:])
		if b[1]|b[2] != 0 && b[3] != 0 && b[3] != 255 {
			return netip.AddrFrom4(b)
		}
	}
}

// interfaceMTU returns the largest RoCE MTU that fits the interface with this
// address, as it is now, or Ethernet where none can be seen to have it.
func interfaceMTU(addr netip.Addr) int {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if addr.IsLoopback() && i.Flags&net.FlagLoopback != 0 || hasAddr(i, addr) {
			return roceMTU(i.MTU, addr)
		}
	}
	return roceMTU(ethernetMTU, addr)
}

const ethernetMTU = 1500

func hasAddr(i net.Interface, addr netip.Addr) bool {
	addrs, _ := i.Addrs() // an interface that just went away has none
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}

// roceMTU returns the largest path MTU of which each packet fits an IP MTU; 256
// when even that does not.
func roceMTU(ip int, addr netip.Addr) int {
	const udpAndIPv4, udpAndIPv6 = 8 + 20, 8 + 40
	room := ip - (roce.MaxPacket - roce.MaxMTU) - roce.ICRCSize
	if addr.Is4() {
		room -= udpAndIPv4
	} else {
		room -= udpAndIPv6
	}
	mtu := roce.MaxMTU
	for mtu > 256 && mtu > room {
		mtu /= 2
	}
	return mtu
}

// Windows reports socket errors by its own numbers (winsock2.h).
const (
	wsaAddrInUse        = syscall.Errno(10048)
	wsaAddrNotAvailable = syscall.Errno(10049)
)

func isAddrInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || runtime.GOOS == "windows" && errors.Is(err, wsaAddrInUse)
}

func isAddrNotAvailable(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || runtime.GOOS == "windows" && errors.Is(err, wsaAddrNotAvailable)
}
