package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/config"
)

// TestWarnOfRisks_NoApprover: names the setting, the accounts and the remedy.
func TestWarnOfRisks_NoApprover(t *testing.T) {
	t.Parallel()
	shop := config.Caller{Name: "shop", Submitters: []string{"payouts"},
		Policy: config.CallerPolicy{ApproveAbove: uint256.NewInt(5)}}
	treasurer := config.Caller{Name: "treasurer", Submitters: []string{"payouts"}, Approve: true}
	for name, c := range map[string]struct {
		callers []config.Caller
		warns   bool
	}{
		"alone":            {[]config.Caller{shop}, true},
		"with a treasurer": {[]config.Caller{shop, treasurer}, false},
	} {
		var log strings.Builder
		WarnOfRisks(&config.Config{Callers: c.callers},
			slog.New(slog.NewTextHandler(&log, nil)))
		for _, part := range []string{"callers[0].policy.approve_above", "[payouts]",
			"approve: true"} {
			if strings.Contains(log.String(), part) != c.warns {
				t.Errorf("%s: logged %q", name, log.String())
			}
		}
	}
}
