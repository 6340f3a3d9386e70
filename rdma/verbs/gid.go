package verbs

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// GID is a global identifier: an IPv6 address on the wire. A RoCE port's GIDs
// are its IP addresses, IPv4 ones in their IPv6-mapped form.
type GID [16]byte

// GIDFrom returns the GID of an IP address: the address itself, IPv4 mapped
// into IPv6. A zone is dropped. The invalid address gives the zero GID.
func GIDFrom(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// ParseGID parses an IP address, or the eight groups of four hexadecimal digits
// of sysfs.
func ParseGID(s string) (GID, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return GID{}, fmt.Errorf("parse GID %q: not an IP address", s)
	}
	return GIDFrom(a), nil
}

// Addr returns the GID as an address, an IPv4-mapped one as IPv4.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsV4 reports whether the GID is an IPv4-mapped address.
func (g GID) IsV4() bool { return netip.AddrFrom16(g).Is4In6() }

// IsZero reports whether the GID is all zero, an empty slot of a GID table.
func (g GID) IsZero() bool { return g == GID{} }

// IsMulticast reports whether the GID addresses a multicast group.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// String returns the address in its usual form, as Addr does.
func (g GID) String() string { return g.Addr().String() }

// MarshalText returns the String form.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses what ParseGID does.
func (g *GID) UnmarshalText(b []byte) error {
	v, err := ParseGID(string(b))
	if err == nil {
		*g = v
	}
	return err
}

// parseSysfsGID parses the fixed form of sysfs, e.g.
// 0000:0000:0000:0000:0000:ffff:0a00:0001.
func parseSysfsGID(s string) (g GID, ok bool) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(b) != len(g) {
		return GID{}, false
	}
	return GID(b), true
}

// GIDType says how packets with a GID travel (ib_user_ioctl_verbs.h, enum
// ib_uverbs_gid_type).
type GIDType uint8

// The GID types.
const (
	GIDTypeInfiniBand GIDType = 0
	GIDTypeRoCEv1     GIDType = 1
	GIDTypeRoCEv2     GIDType = 2
)

// String returns InfiniBand, RoCE v1 or RoCE v2.
func (t GIDType) String() string {
	return name(int(t), []string{"InfiniBand", "RoCE v1", "RoCE v2"}, "GID type")
}

// A GIDEntry is one used slot of a port's GID table.
type GIDEntry struct {
	Index   int // the slot; what ModifyQP calls the source GID index
	GID     GID
	Type    GIDType
	NetDev  string // network interface, "" if none or unknown
	IfIndex int    // its index, 0 if unknown
}

func name(i int, names []string, kind string) string {
	if i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprintf("%s %d", kind, i)
}
