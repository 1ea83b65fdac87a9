package engine

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/pgembed/pgproxy"
)

// TestAStopThatCannotTellIsNoFailure has the database not answer when a node that stops gives its leases back, or takes itself from the list. Both lapse by
// themselves: that is told, and the stop has succeeded.
func TestAStopThatCannotTellIsNoFailure(t *testing.T) {
	t.Parallel()
	for statement, told := range map[string]string{
		"ReleaseLeases": "leases not released; they lapse by themselves",
		"Leave":         "the other nodes could not be told that this one stops; they find out when its heartbeat lapses",
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 3*time.Second)
			var log journal
			a, proxy := c.startBehind("a", func(o *Options) { o.Logger = log.logger() })
			c.eventually("sent", c.has(c.createOn(a, 0, "one")))
			proxy.On(pgproxy.Running("name: "+statement+" "), pgproxy.HoldBefore)
			began := time.Now()
			a.stop()
			if took := time.Since(began); a.err != nil || took > c.lease {
				t.Errorf("the stop took %s and said: %v", took, a.err)
			}
			if lines := log.of(t, told); len(lines) != 1 || lines[0]["level"] != "WARN" {
				t.Errorf("told: %v", lines)
			}
		})
	}
}
