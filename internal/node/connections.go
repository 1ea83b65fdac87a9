package node

import (
	"log/slog"
	"net"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/limit"
)

const (
	// opsConnections is the most connections of the operators' listener, which are not those of the
	// API: an attack on the API must not hide from monitoring.
	opsConnections = 32
	// spareFiles are kept for files, log, listeners, and the process's own descriptors.
	spareFiles = 32
	// spareDatabase are the connections to the database that are not configured.
	spareDatabase    = 7
	mostConnections  = 65_536 // without a setting
	leastConnections = 16
)

// maxConnections returns the most connections of the API for a process that may open so many files.
func maxConnections(cfg *config.Config, openFiles int, log *slog.Logger) int {
	rpc := 0
	for _, c := range cfg.Chains {
		rpc += len(c.RPC) * c.RPCMaxInFlight
	}
	database := spareDatabase + cfg.Database.CommitConnections + cfg.Database.MaxConnections
	database *= max(1, len(cfg.Ledgers))
	reserve := opsConnections + spareFiles + database +
		min(rpc, openFiles/4)
	room := max(openFiles-reserve, leastConnections)
	total := cfg.GRPC.MaxConnections
	if total == 0 {
		total = min(room, mostConnections)
	}
	if total > openFiles-reserve {
		log.Warn("open file limit too low for grpc.max_connections; raise it (ulimit -n)",
			"limit", openFiles, "reserved", reserve, "max_connections", total)
	}
	return total
}

// listenOps bounds the connections of the operators' listener.
func listenOps(l net.Listener) net.Listener {
	return limit.NewConnections(opsConnections, opsConnections, func(string) {}).Listen(l)
}
