package roce

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A datagram has its header in front of the immediate.
func TestDatagram(t *testing.T) {
	h := Header{Opcode: DatagramSendImmediate, PKey: DefaultPKey, Solicited: true, DestQP: 0x010203, PSN: 0x040506,
		QKey: 0x80010000, SourceQP: 0x070809, Imm: 0x0a0b0c0d}
	b := h.Append(nil, []byte("hello"))
	require.Equal(t, []byte{
		0x65, 0xb0, 0xff, 0xff, 0, 1, 2, 3, 0, 4, 5, 6,
		0x80, 1, 0, 0, 0, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x0d, 'h', 'e', 'l', 'l', 'o', 0, 0, 0,
	}, b)
	p, err := ParseAs(Datagram, b)
	require.NoError(t, err)
	require.Equal(t, h, p.Header())
	require.Equal(t, "hello", string(p.Payload))
	require.True(t, p.Info.Immediate())
	require.Equal(t, KindSend, p.Info.Kind)

	h.Opcode, h.Imm = DatagramSend, 0
	p, err = ParseAs(Datagram, h.Append(nil, nil))
	require.NoError(t, err)
	require.Equal(t, h, p.Header())
	require.Empty(t, p.Payload)
}

// Each transport knows its own packets only.
func TestTransports(t *testing.T) {
	b := (&Header{Opcode: DatagramSend}).Append(nil, nil)
	_, err := Parse(b)
	require.Equal(t, ReasonTransport, err)
	_, err = ParseAs(Datagram, (&Header{Opcode: SendOnly}).Append(nil, nil))
	require.Equal(t, ReasonTransport, err)
	_, err = ParseAs(Datagram, b[:BTHSize+4])
	require.Equal(t, ReasonHeaders, err)
	b[0] = byte(Datagram) // a First, which datagrams have not
	_, err = ParseAs(Datagram, b)
	require.Equal(t, ReasonOpcode, err)
	require.Equal(t, "UD SEND Only", DatagramSend.String())
}

// The unreliable connection has the SENDs and WRITEs of the reliable one, and no more.
func TestUnreliableOpcodes(t *testing.T) {
	for op := Opcode(0); op < 0x20; op++ {
		u := UnreliableConnection.Opcode(op)
		require.Equal(t, UnreliableConnection, u.Transport())
		if op > WriteOnlyImmediate {
			require.Equal(t, Info{}, u.Info(), "%v", op)
			continue
		}
		require.Equal(t, op.Info(), u.Info())
		require.Equal(t, "UC "+op.String(), u.String())
	}
	h := Header{Opcode: UnreliableConnection.Opcode(WriteOnlyImmediate), PKey: DefaultPKey, VA: 1, RKey: 2, Length: 4, Imm: 3}
	b := h.Append(nil, []byte("data"))
	require.EqualValues(t, 0x2b, b[0])
	p, err := ParseAs(UnreliableConnection, b)
	require.NoError(t, err)
	require.Equal(t, h, p.Header())
}
