package roce

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whole IP packets whose ICRC other implementations computed: the IPv4 ones are
// reproduced by scapy, and packets of rdma_rxe check with the same code.
var icrcVectors = []struct {
	name string
	ip   string
	crc  uint32
	v6   bool
}{
	{"IPv4 SEND Only", "4502003412344000401114730a0700010a070002c00112b7002000000430ffff000000118001020368656c6c6f0000006233b6b6", 0xb6b63362, false},
	{"IPv4 ACK", "4502003000004000401126ab0a0700020a070001c00112b7001c00001100ffff00000012000102031f000001670b3854", 0x54380b67, false},
	{"IPv6 SEND Only", "6021234500201140fd000000000000000000000000000001fd000000000000000000000000000002c00112b7002000000430ffff000000118001020368656c6c6f00000003e5925f", 0x5f92e503, true},
}

// dissect returns the path and the bytes from BTH to ICRC of an IP packet.
func dissect(t testing.TB, text string, v6 bool) (Path, []byte) {
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	var p Path
	if v6 {
		p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
		b = b[40:]
	} else {
		p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
		p.ID = binary.BigEndian.Uint16(b[4:])
		p.MayFragment = b[6]&0x40 == 0
		b = b[20:]
	}
	p.SrcPort, p.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return p, b[8:]
}

func TestICRCVectors(t *testing.T) {
	for _, v := range icrcVectors {
		t.Run(v.name, func(t *testing.T) {
			path, b := dissect(t, v.ip, v.v6)
			require.Equal(t, v.crc, ICRC(&path, b[:len(b)-4]))
			require.True(t, CheckICRC(&path, b))
			require.Equal(t, b, AppendICRC(&path, b[:len(b)-4:len(b)-4]))

			unknown := path
			unknown.ID, unknown.MayFragment = 0xdead, true
			require.True(t, SolveICRC(&unknown, b))
			require.Equal(t, path, unknown)
		})
	}
}

// Every bit that the ICRC covers, and the ICRC itself, is checked; the marks of
// congestion in byte 4 of the BTH are not.
func TestICRCCoversEveryBit(t *testing.T) {
	for _, v := range icrcVectors {
		path, b := dissect(t, v.ip, v.v6)
		for bit := range len(b) * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			require.Equal(t, bit/8 == bthMarks, CheckICRC(&path, b), "%s bit %d", v.name, bit)
			require.Equal(t, bit/8 == bthMarks, SolveICRC(&path, b), "%s bit %d, solved", v.name, bit)
			path, b = dissect(t, v.ip, v.v6)
		}
		for n := range len(b) {
			require.False(t, CheckICRC(&path, b[:n]), "%s cut at %d", v.name, n)
			require.False(t, SolveICRC(&path, b[:n]), "%s cut at %d, solved", v.name, n)
		}
	}
}

func TestICRCCoversThePath(t *testing.T) {
	for _, v := range icrcVectors {
		good, b := dissect(t, v.ip, v.v6)
		for i, change := range []func(*Path){
			func(p *Path) { p.Src = p.Src.Next() },
			func(p *Path) { p.Dst = p.Dst.Next() },
			func(p *Path) { p.SrcPort++ },
			func(p *Path) { p.DstPort++ },
		} {
			p := good
			change(&p)
			require.False(t, CheckICRC(&p, b), "%s change %d", v.name, i)
			require.False(t, SolveICRC(&p, b), "%s change %d, solved", v.name, i)
		}
		p := good
		p.ID++
		require.Equal(t, v.v6, CheckICRC(&p, b))
		p = good
		p.MayFragment = true
		require.Equal(t, v.v6, CheckICRC(&p, b))
	}
}

func TestICRCOfMappedAddresses(t *testing.T) {
	path, b := dissect(t, icrcVectors[0].ip, false)
	path.Src, path.Dst = netip.AddrFrom16(path.Src.As16()), netip.AddrFrom16(path.Dst.As16())
	require.True(t, CheckICRC(&path, b))
	require.True(t, SolveICRC(&path, b))
}

// Every identification is found, at lengths inside and outside the kept factors.
func TestSolveICRC(t *testing.T) {
	path, _ := dissect(t, icrcVectors[0].ip, false)
	for _, n := range []int{12, 16, 20, 1024 + 28, MaxPacket, MaxPacket + 4, 13, 8001} {
		buf := make([]byte, n, n+ICRCSize)
		for i := range buf {
			buf[i] = byte(i * 7)
		}
		for _, may := range []bool{false, true} {
			for id := 0; id < 1<<16; id += 257 {
				sent := path
				sent.ID, sent.MayFragment = uint16(id), may
				solved := path
				require.True(t, SolveICRC(&solved, AppendICRC(&sent, buf)))
				require.Equal(t, sent, solved, "length %d", n)
			}
		}
	}
}

// Of damaged packets one in 2^15 passes: 2 of the 2^16 values of the fragment
// field are sensible.
func TestSolveICRCRefusesNoise(t *testing.T) {
	path, b := dissect(t, icrcVectors[0].ip, false)
	good := 0
	crc := b[len(b)-ICRCSize:]
	const tries = 1 << 19
	for i := range uint32(tries) {
		binary.LittleEndian.PutUint32(crc, i*0x9e3779b1)
		if SolveICRC(&path, b) {
			good++
		}
	}
	require.InDelta(t, tries>>15, good, 16)
}

func TestICRCDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	path, b := dissect(t, icrcVectors[0].ip, false)
	path6, b6 := dissect(t, icrcVectors[2].ip, true)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !SolveICRC(&path, b) || !SolveICRC(&path6, b6) {
			panic("bad")
		}
		AppendICRC(&path, b[:len(b)-4])
	}))
}

func BenchmarkICRC(b *testing.B) {
	path, _ := dissect(b, icrcVectors[0].ip, false)
	for _, n := range []int{16, 1024 + 12, 4096 + 12} {
		b.Run(fmt.Sprint(n, "B"), func(b *testing.B) {
			buf := make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				ICRC(&path, buf)
			}
		})
	}
}

func BenchmarkSolveICRC(b *testing.B) {
	path, _ := dissect(b, icrcVectors[0].ip, false)
	path.ID = 4711
	buf := AppendICRC(&path, make([]byte, 4096+12))
	for b.Loop() {
		SolveICRC(&path, buf)
	}
}
