package pcap

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The packet that the InfiniBand specification computes an ICRC of (7.8.1, an RDMA WRITE
// Only). Its VL and SL are other than ours.
const (
	sampleLRH  = "7012375c000e17d2"
	samplePack = "0a2024870087b1b3000dec2a" + "01710a1c015d400238f27a050000000e" + "bb884d85fd5cfba4728bc0690ed40000"
	sampleICRC = "9625b75a"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestInvariantCRC(t *testing.T) {
	b := unhex(t, sampleLRH+samplePack)
	require.EqualValues(t, 0x5ab72596, invariantCRC(b, lrhSize), "its bytes are those of the specification from the last")
	require.Equal(t, sampleLRH+samplePack, hex.EncodeToString(b), "put back")

	// What may change on the way is not covered.
	b[0] ^= 0xf0
	b[lrhSize+bthReserved8] = 0x55
	require.EqualValues(t, 0x5ab72596, invariantCRC(b, lrhSize))
	b[1] ^= 0x10
	require.NotEqualValues(t, 0x5ab72596, invariantCRC(b, lrhSize), "the SL")
}

// With a global route header the ICRC is that of RoCE: no bit of the LRH counts, and
// nothing that routers change.
func TestGlobalCRC(t *testing.T) {
	l := Local{
		SrcLID: 1, DstLID: 2, TClass: 3,
		SrcGID: netip.MustParseAddr("fe80::1"), DstGID: netip.MustParseAddr("fe80::2"),
	}
	b := l.Append(nil, unhex(t, samplePack))
	const head = "0003000200180001" + "60300000" + "0030" + "1b40" + "fe800000000000000000000000000001" + "fe800000000000000000000000000002"
	require.Equal(t, head+samplePack, hex.EncodeToString(b[:len(b)-6]))
	icrc := b[len(b)-6 : len(b)-2]
	masked := unhex(t, "ffffffffffffffff"+"6fffffff"+"0030"+"1bff"+head[len(head)-64:]+samplePack)
	masked[lrhSize+grhSize+bthReserved8] = 0xff
	require.Equal(t, crc32Of(masked), hex.EncodeToString(icrc))
}

// crc32Of shifts bit by bit (7.8.1).
func crc32Of(b []byte) string {
	c := ^uint32(0)
	for _, v := range b {
		for bit := range 8 {
			feedback := (c ^ uint32(v>>bit)) & 1
			c = c>>1 ^ 0xedb88320*feedback
		}
	}
	c = ^c
	return hex.EncodeToString([]byte{byte(c), byte(c >> 8), byte(c >> 16), byte(c >> 24)})
}

// The VCRC's residue, which is the same for every good packet, is found by shifting bits.
func TestVariantCRC(t *testing.T) {
	shift := func(b []byte) uint16 {
		c := ^uint16(0)
		for _, v := range b {
			for bit := range 8 {
				// 0x100b: x^16 + x^12 + x^3 + x + 1, the register mirrored.
				feedback := (c ^ uint16(v>>bit)) & 1
				c = c>>1 ^ (1<<15|1<<14|1<<12|1<<3)*feedback
			}
		}
		return c
	}
	b := unhex(t, sampleLRH+samplePack+sampleICRC)
	c := variantCRC(b)
	require.Equal(t, ^shift(b), c)
	residue := shift(append(b, byte(c), byte(c>>8)))
	b[3]++
	c = variantCRC(b)
	require.Equal(t, residue, shift(append(b, byte(c), byte(c>>8))))
}

func TestInfiniBandFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pcap")
	w, err := Open(name, InfiniBand)
	require.NoError(t, err)
	w.now = func() time.Time { return time.Unix(1, 500_000_000) }
	w.WriteLocal(&Local{SrcLID: 0x17d2, DstLID: 0x375c}, unhex(t, samplePack))
	require.NoError(t, w.Close())
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	const (
		record = "01000000" + "0065cd1d" + "4a000000" + "4a000000"
		erf    = "0000008001000000" + "1504" + "004a" + "0000" + "003a"
	)
	require.Equal(t, head[:len(head)-8]+"c5000000"+record+erf+"0002375c000e17d2"+samplePack, hex.EncodeToString(got[:len(got)-6]))

	_, err = Open(name, Ethernet)
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "no capture of Ethernet packets")
}
