package node

import (
	"log/slog"

	"github.com/fencepost/fencepost/internal/config"
)

// WarnOfRisks logs each risk of a configuration: those that insecure accepts, and those that are
// too common to be refused.
func WarnOfRisks(cfg *config.Config, log *slog.Logger) {
	for _, risk := range cfg.Risks() {
		log.Warn("insecure setting", "key", risk.Key, "risk", risk.What, "remedy", risk.Remedy)
	}
}
