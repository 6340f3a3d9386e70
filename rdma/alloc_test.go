package rdma

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farwire/farwire/rdma/softnic"
)

// A Write and the Read of what it sent allocate nothing, from the caller's slice through
// both ends of the software NIC to the other caller's slice.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has sync.Pool lose things")
	}
	for name, join := range map[string]func(testing.TB, softnic.Config) link{"loopback": loopback, "packets": inPackets, "memory": inMemory} {
		for _, size := range []int{64, 16 << 10, 64 << 10} {
			client, server := join(t, softnic.Config{}).pair(t)
			out, in := make([]byte, size), make([]byte, size)
			roundTrip := func() {
				_, err := client.Write(out)
				require.NoError(t, err)
				_, err = io.ReadFull(server, in)
				require.NoError(t, err)
			}
			for range 300 { // rings and pools grow to their size
				roundTrip()
			}
			require.Zero(t, testing.AllocsPerRun(300, roundTrip), "%s, %d bytes", name, size)
		}
	}
}
