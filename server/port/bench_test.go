package port

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthsrv "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fencepost/fencepost/internal/clock"
)

// BenchmarkGRPC compares calls over a connection of one's own, and connections for one call each,
// with and without the split.
func BenchmarkGRPC(b *testing.B) {
	for _, way := range []string{"direct", "split"} {
		address := benched(b, way == "split")
		b.Run("call/"+way, func(b *testing.B) {
			conn, client := dialed(b, address)
			defer conn.Close()
			for b.Loop() {
				if _, err := client.Check(b.Context(), &healthpb.HealthCheckRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("connection/"+way, func(b *testing.B) {
			for b.Loop() {
				conn, client := dialed(b, address)
				if _, err := client.Check(b.Context(), &healthpb.HealthCheckRequest{}); err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}

func dialed(b *testing.B, address string) (*grpc.ClientConn, healthpb.HealthClient) {
	b.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	return conn, healthpb.NewHealthClient(conn)
}

func benched(b *testing.B, through bool) (address string) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, healthsrv.NewServer())
	b.Cleanup(server.Stop)
	if !through {
		go server.Serve(listener)
		return listener.Addr().String()
	}
	split := New(listener, Options{Patience: time.Minute, Clock: clock.Real{}})
	b.Cleanup(split.Close)
	go split.Run()
	go server.Serve(split.GRPC())
	return listener.Addr().String()
}
