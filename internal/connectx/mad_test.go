package connectx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/internal/ifc"
	"github.com/farwire/farwire/rdma/softnic"
)

// datagram is a MAD_IFC with a datagram of subnet management.
func datagram(class, method byte, attribute uint16) []byte {
	in := command(ifc.MADInterface, ifc.MAD+ifc.MADSize)
	b := in[ifc.MAD:]
	b[0], b[madClass], b[madClass+1], b[madMethod] = 1, class, 1, method
	be.PutUint16(b[madAttribute:], attribute)
	return in
}

// manage has the device answer, whose head must be right.
func (g *guest) manage(in []byte) (status uint16, data []byte) {
	g.t.Helper()
	b := g.do(in, ifc.MAD+ifc.MADSize)[ifc.MAD:]
	require.Equal(g.t, byte(methodAnswer), b[madMethod])
	require.Equal(g.t, in[ifc.MAD+madAttribute:][:2], b[madAttribute:][:2])
	return be.Uint16(b[madStatus:]), b[madData:][:madDataSize]
}

// The port is taken down and brought up as ibportstate does it.
func TestManagedPort(t *testing.T) {
	for _, class := range []byte{classByLID, classByRoute} {
		g := newGuest(t)
		_, events := g.createEQ(0, 1<<ifc.EventPort)
		state := func() [2]byte {
			status, b := g.manage(datagram(class, methodGet, attributePort))
			require.Zero(t, status)
			require.Equal(t, g.nic.LID(), be.Uint16(b[portLID:]))
			require.Equal(t, byte(1), b[portNumber])
			port := g.do(command(ifc.QueryVirtualPort, 16), ifc.HeadSize+512)[ifc.VirtualPorts:]
			require.EqualValues(t, b[portState]&15, ifc.VirtualPort.State.Get(port))
			require.EqualValues(t, b[portPhysical]>>4, ifc.VirtualPort.PhysicalState.Get(port))
			return [2]byte{b[portState] & 15, b[portPhysical] >> 4}
		}
		set := func(physical byte) uint16 {
			in := datagram(class, methodSet, attributePort)
			in[ifc.MAD+madData+portPhysical] = physical << 4
			status, _ := g.manage(in)
			return status
		}
		require.Equal(t, [2]byte{stateActive, physicalLinkUp}, state())
		require.Zero(t, set(physicalDisabled))
		require.Equal(t, [2]byte{stateDown, physicalDisabled}, state())
		require.False(t, g.nic.PortUp())
		require.Equal(t, byte(ifc.PortDown), g.event(events, 0)[ifc.EventSubtype])
		require.Zero(t, set(physicalKeep))
		require.EqualValues(t, madBadField, set(physicalLinkUp))
		require.Equal(t, [2]byte{stateDown, physicalDisabled}, state())
		require.Zero(t, set(physicalPolling))
		require.Equal(t, [2]byte{stateActive, physicalLinkUp}, state())
		require.Equal(t, byte(ifc.PortUp), g.event(events, 1)[ifc.EventSubtype])
	}
}

func TestManagedNode(t *testing.T) {
	g := newGuest(t)
	_, b := g.manage(datagram(classByRoute, methodGet, attributeDescription))
	require.Equal(t, g.nic.Name(), string(b[:len(g.nic.Name())]))
	status, b := g.manage(datagram(classByRoute, methodGet, attributeNode))
	require.Zero(t, status)
	require.Equal(t, []byte{1, 1, nodeIsAdapter, 1}, b[:4])
	guid := g.d.function.GUID()
	require.Equal(t, guid[:], b[nodeGUID:][:8])
	require.EqualValues(t, 1<<24|vendorOUI, be.Uint32(b[nodeVendor:]))
}

func TestManagementRefused(t *testing.T) {
	g, ethernet := newGuest(t), newEthernetGuest(t, softnic.NewNetwork())
	for name, v := range map[string]struct {
		guest *guest
		in    []byte
	}{
		"class":     {g, datagram(0x04, methodGet, attributePort)},
		"method":    {g, datagram(classByLID, 0x05, attributePort)},
		"attribute": {g, datagram(classByLID, methodGet, 0x18)},
		"set":       {g, datagram(classByLID, methodSet, attributeNode)},
		"Ethernet":  {ethernet, datagram(classByLID, methodGet, attributePort)},
	} {
		b := v.guest.do(v.in, ifc.MAD+ifc.MADSize)[ifc.MAD:]
		require.EqualValues(t, madUnsupported, be.Uint16(b[madStatus:]), name)
		require.NotZero(t, b[madMethod]&madResponse, name)
	}
}
