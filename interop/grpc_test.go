package interop

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/farwire/farwire/rdma"
)

// gRPC's own server and client, calls and streams, side by side on one connection.
func TestGRPC(t *testing.T) {
	ln, err := rdma.Listen("rdma", "127.0.0.1:0")
	require.NoError(t, err)
	server, state := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, state)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()

	var dialer rdma.Dialer
	var dials atomic.Int32
	client, err := grpc.NewClient("passthrough:///"+ln.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dials.Add(1)
			return dialer.DialContext(ctx, "rdma", address)
		}))
	require.NoError(t, err)
	stub := healthpb.NewHealthClient(client)

	var wg sync.WaitGroup
	for i := range 16 {
		name := fmt.Sprint("service", i)
		state.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
		wg.Go(func() {
			for range 100 {
				answer, err := stub.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
				if err != nil || answer.Status != healthpb.HealthCheckResponse_SERVING {
					t.Error(name, answer, err)
					return
				}
			}
		})
	}
	wg.Wait()

	watch, err := stub.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "service0"})
	require.NoError(t, err)
	for _, status := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_SERVING,
		healthpb.HealthCheckResponse_NOT_SERVING,
		healthpb.HealthCheckResponse_SERVING,
	} {
		state.SetServingStatus("service0", status)
		update, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, status, update.Status)
	}

	require.EqualValues(t, 1, dials.Load(), "one connection served all")
	require.NoError(t, client.Close())
	server.Stop()
	require.NoError(t, <-served)
}
