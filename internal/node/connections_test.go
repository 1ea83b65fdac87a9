package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/config"
)

func TestMaxConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		configured, openFiles, want int
	}{
		"few files":           {0, 200, 58},
		"usual limit":         {0, 1024, 832},
		"very few files":      {0, 64, 16},
		"many files":          {0, 1 << 20, 65_536},
		"configured":          {100, 1024, 100},
		"more than the files": {5000, 1024, 5000},
	} {
		cfg := &config.Config{
			GRPC:     config.GRPC{MaxConnections: test.configured},
			Database: config.Database{MaxConnections: 20, CommitConnections: 1},
			Chains:   []config.Chain{{RPC: make([]config.Secret, 1), RPCMaxInFlight: 100}},
		}
		got := maxConnections(cfg, test.openFiles, slog.New(slog.DiscardHandler))
		if got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestCheckFiles_ConnectionsAboveOpenFiles_Warned(t *testing.T) {
	t.Parallel()
	for connections, warned := range map[int]bool{16: false, 1 << 31: true} {
		var log bytes.Buffer
		cfg := &config.Config{GRPC: config.GRPC{MaxConnections: connections}}
		if _, err := CheckFiles(t.Context(), cfg,
			slog.New(slog.NewTextHandler(&log, nil)), false); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "grpc.max_connections"); got != warned {
			t.Errorf("%d connections: warned is %v, want %v: %s", connections, got, warned, &log)
		}
	}
}
