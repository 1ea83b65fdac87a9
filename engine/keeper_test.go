package engine

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
)

// TestRenew_SlowHeartbeat_OnTime delays every heartbeat until its timeout, one renewal interval.
// The next renewal follows at once, not an interval later.
func TestRenew_SlowHeartbeat_OnTime(t *testing.T) {
	t.Parallel()
	const interval, beats = time.Second, 5
	c := newCluster(t, 1, 6*interval)
	a, proxy := c.startWithProxy("a", func(o *Options) { o.RenewInterval = interval })
	c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
	var rules []*pgproxy.Rule
	for range beats {
		rules = append(rules, proxy.On(pgproxy.Running("name: Heartbeat "), pgproxy.HoldBefore))
	}
	least, last := time.Hour, time.Time{}
	for _, r := range rules { // a renewal precedes each
		<-r.Fired()
		now := time.Now()
		if !last.IsZero() {
			least = min(least, now.Sub(last))
		}
		last = now
		defer r.Release()
	}
	if least > interval*9/5 || least < interval*9/10 {
		t.Errorf("a renewal every %s, want every %s", least, interval)
	}
}
