package link

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/roce"
)

func TestGetGivesACleanPacket(t *testing.T) {
	for range 100 {
		p := Get(MaxSize)
		require.Len(t, p.Buf, MaxSize)
		require.Equal(t, Packet{Buf: p.Buf, store: p.store}, *p)
		p.Src, p.Dst, p.SrcPort, p.TClass, p.id, p.mayFragment, p.sealed = alice, bob, 1, 2, 3, true, true
		p.Release()
	}
	require.Panics(t, func() { Get(-1) })
	require.Panics(t, func() { Get(1 << 20) })
}

func TestReleaseTwice(t *testing.T) {
	p := Get(0)
	p.Release()
	require.PanicsWithValue(t, "link: packet released twice", p.Release)
}

func TestStamp(t *testing.T) {
	for _, c := range []struct {
		n    int
		want bool
	}{
		{0, false}, {8, false}, {12, true}, {13, false}, {14, false}, {16, true}, {MaxSize, true}, {MaxSize + 4, false},
	} {
		p := Get(0)
		p.Buf = p.Buf[:c.n]
		p.Dst = netip.AddrFrom16(bob.As16())
		require.Equal(t, c.want, p.stamp(alice), "%d bytes", c.n)
		require.Equal(t, alice, p.Src)
		require.Equal(t, bob, p.Dst)
		require.Equal(t, uint16(roce.Port), p.SrcPort)
		if c.want {
			p.seal()
			require.True(t, p.stamp(alice), "%d bytes, sealed", c.n)
		}
	}
}

func TestSeal(t *testing.T) {
	for _, n := range []int{0, 5, roce.MaxMTU} {
		p := numbered(bob, 7, n)
		require.True(t, p.stamp(alice))
		plain := string(p.Buf)
		require.True(t, p.unseal(), "nothing to check")

		p.seal()
		p.seal()
		require.Len(t, p.Buf, len(plain)+roce.ICRCSize)
		require.Equal(t, len(plain), p.size())
		path := roce.Path{Src: alice, Dst: bob, SrcPort: roce.Port, DstPort: roce.Port}
		require.True(t, roce.CheckICRC(&path, p.Buf))

		c := p.clone()
		require.True(t, c.unseal())
		require.Equal(t, plain, string(c.Buf))
		require.Equal(t, []any{p.Src, p.Dst, p.SrcPort, p.TClass}, []any{c.Src, c.Dst, c.SrcPort, c.TClass})

		p.Buf[9] ^= 1
		require.False(t, p.unseal())
	}
}
