package node

import (
	"log/slog"

	"github.com/fencepost/fencepost/internal/config"
)

// WarnOfRisks logs each risk of a configuration: those that insecure accepts, those that are too
// common to be refused, and approvals that no caller can give.
func WarnOfRisks(cfg *config.Config, log *slog.Logger) {
	for _, risk := range cfg.Risks() {
		log.Warn("insecure setting", "key", risk.Key, "risk", risk.What, "remedy", risk.Remedy)
	}
	warnOfApprovers(cfg, log)
}

// warnOfApprovers logs each caller whose transactions may need an approval that none can give.
func warnOfApprovers(cfg *config.Config, log *slog.Logger) {
	for _, u := range cfg.Unapprovable() {
		log.Warn("no other caller may approve; transactions above the limit will expire", "key",
			u.Key, "accounts", u.Accounts, "remedy", "set approve: true for another caller that "+
				"has these accounts or pools")
	}
}
