package verbs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGID(t *testing.T) {
	v4 := GIDFrom(netip.MustParseAddr("10.0.0.1"))
	require.Equal(t, GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, v4)
	require.True(t, v4.IsV4())
	require.Equal(t, "10.0.0.1", v4.String())
	require.Equal(t, netip.MustParseAddr("10.0.0.1"), v4.Addr())

	v6 := GIDFrom(netip.MustParseAddr("fe80::1%eth0"))
	require.Equal(t, GID{0: 0xfe, 1: 0x80, 15: 1}, v6)
	require.False(t, v6.IsV4())
	require.Equal(t, "fe80::1", v6.String())
	require.False(t, v6.IsZero())
	require.False(t, v6.IsMulticast())
	require.True(t, GID{0: 0xff}.IsMulticast())
	require.True(t, GIDFrom(netip.Addr{}).IsZero())
}

func TestParseGID(t *testing.T) {
	for in, want := range map[string]GID{
		"10.0.0.1": {10: 0xff, 11: 0xff, 12: 10, 15: 1},
		"0000:0000:0000:0000:0000:ffff:0a00:0001": {10: 0xff, 11: 0xff, 12: 10, 15: 1},
		"fe80::1": {0: 0xfe, 1: 0x80, 15: 1},
	} {
		g, err := ParseGID(in)
		require.NoError(t, err)
		require.Equal(t, want, g)
	}
	for _, in := range []string{"", "x", "fe80::1%eth0", "10.0.0", "::/0"} {
		_, err := ParseGID(in)
		require.Error(t, err, in)
	}

	b, err := json.Marshal(GID{15: 1})
	require.NoError(t, err)
	require.Equal(t, `"::1"`, string(b))
	var g GID
	require.NoError(t, json.Unmarshal(b, &g))
	require.Equal(t, GID{15: 1}, g)
	require.Error(t, json.Unmarshal([]byte(`"nonsense"`), &g))
	require.Equal(t, GID{15: 1}, g, "unchanged by an error")
}

func FuzzParseGID(f *testing.F) {
	f.Add("10.0.0.1")
	f.Add("fe80:0000:0000:0000:0000:0000:0000:0001")
	f.Add("fe80::1%1")
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := ParseGID(s); err == nil {
			again, err := ParseGID(g.String())
			require.NoError(t, err)
			require.Equal(t, g, again)
		}
		parseSysfsGID(s)
		parseModalias(s)
	})
}

func TestParseSysfsGID(t *testing.T) {
	g, ok := parseSysfsGID("fe80:0000:0000:0000:9a03:9bff:feaa:bbcc")
	require.True(t, ok)
	require.Equal(t, "fe80::9a03:9bff:feaa:bbcc", g.String())
	for _, s := range []string{"", "fe80", "fe80:0000:0000:0000:9a03:9bff:feaa:bbc", "ge80:0000:0000:0000:9a03:9bff:feaa:bbcc",
		"fe80:0000:0000:0000:9a03:9bff:feaa:bbcc:0000"} {
		_, ok := parseSysfsGID(s)
		require.False(t, ok, s)
	}
}

func TestMTU(t *testing.T) {
	for m, n := range map[MTU]int{MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096} {
		require.Equal(t, n, m.Bytes())
		require.Equal(t, fmt.Sprint(n), m.String())
		require.True(t, m.Valid())
		require.Equal(t, m, MTUFrom(n))
		require.Equal(t, m, MTUFrom(n+1))
		require.Equal(t, m-1, MTUFrom(n-1))
	}
	for _, m := range []MTU{0, 6, 255} {
		require.False(t, m.Valid())
		require.Zero(t, m.Bytes())
	}
	require.Equal(t, "MTU 9", MTU(9).String())
	require.Zero(t, MTUFrom(-1))
	require.Equal(t, MTU4096, MTUFrom(9000))
}

func TestAccess(t *testing.T) {
	require.Equal(t, "none", Access(0).String())
	require.Equal(t, "local-write|remote-read", (AccessLocalWrite | AccessRemoteRead).String())
	require.Equal(t, "hugetlb|relaxed-ordering|0x40000000", (AccessHugeTLB | AccessRelaxedOrdering | 1<<30).String())
	require.NoError(t, Access(0).Validate())
	require.NoError(t, AccessRemoteRead.Validate())
	require.NoError(t, (AccessRemoteWrite | AccessRemoteAtomic | AccessLocalWrite).Validate())
	require.Error(t, AccessRemoteWrite.Validate())
	require.Error(t, AccessRemoteAtomic.Validate())
}

func TestNames(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"RESET": StateReset, "RTS": StateRTS, "ERR": StateErr, "QP state 7": QPState(7),
		"ACTIVE": PortActive, "ACTIVE_DEFER": PortActiveDefer, "port state 6": PortState(6),
		"Unspecified": LinkUnspecified, "InfiniBand": LinkInfiniBand, "Ethernet": LinkEthernet, "link layer 3": LinkLayer(3),
		"RoCE v1": GIDTypeRoCEv1, "RoCE v2": GIDTypeRoCEv2, "GID type 3": GIDType(3),
		"success": Success, "transport retries exceeded": RetryExceeded, "general error": GeneralError, "status 22": Status(22),
		"CQ error": EventCQError, "device fatal": EventDeviceFatal, "WQ fatal": EventWQFatal, "event 20": EventType(20),
		"unknown": DriverUnknown, "mlx5": DriverMLX5, "rxe": DriverRXE, "driver 2": DriverID(2),
	} {
		require.Equal(t, want, v.String())
	}
	for _, l := range []LinkLayer{LinkInfiniBand, LinkEthernet} {
		require.Equal(t, l, ParseLinkLayer(l.String()))
	}
	require.Equal(t, LinkUnspecified, ParseLinkLayer("Unknown"))
}

func TestStatusError(t *testing.T) {
	err := error(&StatusError{Status: Flushed, Syndrome: 5, Vendor: 0xf9, Opcode: "RDMA write", QPN: 0x1a3})
	require.Equal(t, "RDMA write on queue pair 0x1a3: work request flushed (syndrome 0x5, vendor 0xf9)", err.Error())
	require.ErrorIs(t, err, &StatusError{Status: Flushed})
	require.NotErrorIs(t, err, &StatusError{Status: RetryExceeded})
	require.NotErrorIs(t, err, &StatusError{Status: Flushed, QPN: 7})
	require.NotErrorIs(t, err, errors.New("other"))
	require.Contains(t, (&StatusError{}).Error(), "work request on")
}

func TestEndpointValidate(t *testing.T) {
	eth := Endpoint{QPN: 0x11, PSN: MaxPSN, LinkLayer: LinkEthernet, GID: GID{15: 1}, MTU: MTU1024}
	ib := Endpoint{QPN: 0x11, LinkLayer: LinkInfiniBand, LID: 0xbfff, MTU: MTU4096}
	require.NoError(t, eth.Validate())
	require.NoError(t, ib.Validate())
	for name, spoil := range map[string]func(e *Endpoint){
		"queue pair 0":        func(e *Endpoint) { e.QPN = 0 },
		"queue pair 1":        func(e *Endpoint) { e.QPN = 1 },
		"multicast QPN":       func(e *Endpoint) { e.QPN = 0xffffff },
		"QPN over 24 bits":    func(e *Endpoint) { e.QPN = 1<<24 + 17 },
		"PSN over 24 bits":    func(e *Endpoint) { e.PSN = 1 << 24 },
		"no MTU":              func(e *Endpoint) { e.MTU = 0 },
		"MTU too large":       func(e *Endpoint) { e.MTU = 6 },
		"no link layer":       func(e *Endpoint) { e.LinkLayer = 0 },
		"unknown link layer":  func(e *Endpoint) { e.LinkLayer = 3 },
		"multicast GID":       func(e *Endpoint) { e.GID = GID{0: 0xff} },
		"multicast IPv4 GID":  func(e *Endpoint) { e.GID = GIDFrom(netip.MustParseAddr("224.0.0.1")) },
		"no IPv4 GID, no LID": func(e *Endpoint) { e.GID, e.LID = GIDFrom(netip.IPv4Unspecified()), 0 },
		"no GID, no LID":      func(e *Endpoint) { e.GID, e.LID = GID{}, 0 },
		"multicast LID or no": func(e *Endpoint) { e.GID, e.LID = GID{}, 0xc000 },
	} {
		for _, e := range []Endpoint{eth, ib} {
			spoil(&e)
			require.ErrorIs(t, e.Validate(), ErrInvalidEndpoint, name)
		}
	}
	require.Equal(t, "QPN 0x11 PSN 0xffffff GID ::1 MTU 1024", eth.String())
	require.Contains(t, ib.String(), "LID 0xbfff")
}

func TestParseEvents(t *testing.T) {
	e, err := ParseEvent(le(uint64(0x1122334455667788), uint32(8), uint32(0)))
	require.NoError(t, err)
	require.Equal(t, Event{Type: EventDeviceFatal, Element: 0x1122334455667788}, e)
	h, err := ParseCompEvent(le(uint64(7)))
	require.NoError(t, err)
	require.Equal(t, uint64(7), h)
	for n := range 20 {
		if _, err := ParseEvent(make([]byte, n)); (err == nil) != (n == AsyncEventSize) {
			t.Error(n, err)
		}
		if _, err := ParseCompEvent(make([]byte, n)); (err == nil) != (n == CompEventSize) {
			t.Error(n, err)
		}
	}
	require.True(t, EventGIDChange.IsPort())
	require.False(t, EventQPFatal.IsPort())
	require.False(t, EventDeviceFatal.IsPort())
}

// Statuses are in no header that programs may use; libibverbs has the same numbers.
func TestStatusesAgainstLibibverbs(t *testing.T) {
	names := []string{"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
		"BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
		"LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR"}
	values := []Status{Success, LocalLength, LocalQPOperation, LocalEECOperation, LocalProtection, Flushed, MWBind, BadResponse,
		LocalAccess, RemoteInvalid, RemoteAccess, RemoteOperation, RetryExceeded, RNRRetryExceeded, LocalRDDViolation, RemoteInvalidRD,
		RemoteAborted, InvalidEECN, InvalidEECState, Fatal, ResponseTimeout, GeneralError}
	var src strings.Builder
	src.WriteString("#include <infiniband/verbs.h>\n")
	cc := exec.Command("cc", "-x", "c", "-E", "-")
	cc.Stdin = strings.NewReader(src.String())
	if err := cc.Run(); err != nil {
		t.Skip("no C compiler or no libibverbs headers:", err)
	}
	for i, n := range names {
		fmt.Fprintf(&src, "_Static_assert(IBV_WC_%s == %d, \"%s\");\n", n, values[i], n)
	}
	cc = exec.Command("cc", "-x", "c", "-fsyntax-only", "-")
	cc.Stdin = strings.NewReader(src.String())
	out, err := cc.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Len(t, statusNames, len(values))
}
