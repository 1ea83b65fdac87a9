package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/config"
)

func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grpc                        config.GRPC
		openFiles, total, perSource int
	}{
		"few files":           {config.GRPC{}, 200, 58, 29},
		"usual limit":         {config.GRPC{}, 1024, 832, 416},
		"very few files":      {config.GRPC{}, 64, 16, 8},
		"many files":          {config.GRPC{}, 1 << 20, 65_536, 32_768},
		"configured":          {config.GRPC{MaxConnections: 100}, 1024, 100, 50},
		"address configured":  {config.GRPC{MaxPerAddress: 7}, 1024, 832, 7},
		"more than the files": {config.GRPC{MaxConnections: 5000}, 1024, 5000, 2500},
	} {
		cfg := &config.Config{
			GRPC: test.grpc, Database: config.Database{MaxConnections: 20},
			Chains: []config.Chain{{RPC: make([]config.Secret, 1), RPCMaxInFlight: 100}},
		}
		total, perSource := connectionLimits(cfg, test.openFiles,
			slog.New(slog.DiscardHandler))
		if total != test.total || perSource != test.perSource {
			t.Errorf("%s: %d and %d, want %d and %d", name, total, perSource, test.total,
				test.perSource)
		}
	}
}

func TestCheckFiles_ConnectionsAboveOpenFiles_Warned(t *testing.T) {
	t.Parallel()
	for connections, warned := range map[int]bool{16: false, 1 << 31: true} {
		var log bytes.Buffer
		cfg := &config.Config{GRPC: config.GRPC{MaxConnections: connections}}
		if _, err := CheckFiles(t.Context(), cfg,
			slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "grpc.max_connections"); got != warned {
			t.Errorf("%d connections: warned is %v, want %v: %s", connections, got, warned, &log)
		}
	}
}
