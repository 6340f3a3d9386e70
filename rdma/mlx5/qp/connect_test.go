package qp_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// modify builds the kernel's request (struct ib_uverbs_modify_qp) from the fields
// that are not 0.
type modify map[int]any // by offset

func (m modify) bytes() []byte {
	b := make([]byte, 112)
	for at, v := range m {
		switch v := v.(type) {
		case int:
			b[at] = byte(v)
		case uint16:
			binary.NativeEndian.PutUint16(b[at:], v)
		case uint32:
			binary.NativeEndian.PutUint32(b[at:], v)
		case verbs.GID:
			copy(b[at:], v[:])
		}
	}
	return b
}

// The three requests of Connect, byte by byte: what is retried how often and how
// long, at the smaller MTU, and what the peer may do. As rdma-core's libmlx5 does,
// they have only the fields that the state change takes.
func TestConnectRequests(t *testing.T) {
	for _, layer := range []verbs.LinkLayer{verbs.LinkEthernet, verbs.LinkInfiniBand} {
		for access, flags := range map[region.Access]uint32{region.Local: 0, region.RemoteWrite: 2, region.RemoteReadWrite: 14} {
			network := softnic.NewNetwork()
			a := mlx5test.NewHost(t, softnic.Config{LinkLayer: layer, Network: network, MTU: verbs.MTU1024})
			b := mlx5test.NewHost(t, softnic.Config{LinkLayer: layer, Network: network, MTU: verbs.MTU2048})
			pa, pb := a.Pair(qp.Config{Sends: 1}), b.Pair(qp.Config{Sends: 1})
			ea, eb := pa.Endpoint(), pb.Endpoint()
			require.NoError(t, pa.Connect(access, eb))
			require.NoError(t, pb.Connect(access, ea))
			for _, side := range []struct {
				host      *mlx5test.Host
				own, peer verbs.Endpoint
			}{{a, ea, eb}, {b, eb, ea}} {
				issued := side.host.File.Issued(mlx5test.Command{Write: uapi.CmdModifyQP})
				require.Len(t, issued, 3)
				handle := binary.NativeEndian.Uint32(issued[0].Core[64:])
				init := modify{64: handle, 68: uint32(0x39), 88: flags, 96: 1, 104: 1}
				receive := modify{64: handle, 68: uint32(0x129181), 76: side.peer.PSN, 84: side.peer.QPN,
					96: 2, 98: 3, 103: 12, 31: 1}
				if access == region.RemoteReadWrite {
					receive[102] = 16
				}
				send := modify{64: handle, 68: uint32(0x12e01), 80: side.own.PSN, 96: 3, 101: 16, 106: 7, 107: 7}
				if layer == verbs.LinkEthernet {
					address, err := side.host.NIC.Address()
					require.NoError(t, err)
					receive[0], receive[24], receive[25], receive[30] = side.peer.GID, address.GIDIndex, 64, 1
					send[105] = 14
				} else {
					receive[20] = side.peer.LID
					send[105] = 18
				}
				for i, want := range []modify{init, receive, send} {
					require.Equal(t, want.bytes(), issued[i].Core, "%v, %v, step %d", layer, access, i)
				}
			}
		}
	}
}

// The driver's part of the request for a queue pair: rings at their places, the
// record in a cache line of its own, a user index where entries have one.
func TestCreateRequest(t *testing.T) {
	for version, c := range []softnic.Config{{OldCQE: true}, {}} {
		h := mlx5test.NewHost(t, c)
		for i := range uint32(3) {
			p := h.Pair(qp.Config{Sends: 5, Receives: 5, ReceiveSegments: 2})
			issued := h.File.Issued(mlx5test.Command{Write: uapi.CmdCreateQP})[i]
			word := func(at int) uint32 { return binary.NativeEndian.Uint32(issued.Driver[at:]) }
			require.Len(t, issued.Driver, 56)
			require.Zero(t, binary.NativeEndian.Uint64(issued.Driver)%4096, "page aligned")
			require.Zero(t, binary.NativeEndian.Uint64(issued.Driver[8:])%64, "a cache line of its own")
			require.Equal(t, []uint32{8, 8, 5, 0x400}, []uint32{word(16), word(20), word(24), word(28)})
			want := uint32(0xffffff)
			if version == 1 {
				want = i
			}
			require.Equal(t, want, word(32))
			require.Equal(t, make([]byte, 16), issued.Driver[40:])
			core := func(at int) uint32 { return binary.NativeEndian.Uint32(issued.Core[at:]) }
			l := p.Limits()
			require.Equal(t, []uint32{8, 8, uint32(l.SendSegments), 2, uint32(l.Inline)},
				[]uint32{core(32), core(36), core(40), core(44), core(48)})
			require.Equal(t, []byte{0, 2, 0, 0}, issued.Core[52:], "not all signaled, reliable connection")
		}
	}
}
