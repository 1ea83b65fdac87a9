package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
)

// TestStop_DatabaseFails_NoError blocks the database when a stopping node releases its leases, or
// leaves the list. Both expire: the log reports it, and the stop succeeds.
func TestStop_DatabaseFails_NoError(t *testing.T) {
	t.Parallel()
	for statement, message := range map[string]string{
		"ReleaseLeases": "lease release failed; leases will expire",
		"Leave":         "leave announcement failed; heartbeat will expire",
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 3*time.Second)
			var log jsonLog
			a, proxy := c.startWithProxy("a", func(o *Options) { o.Logger = log.logger() })
			c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
			rule := proxy.On(pgproxy.Running("name: "+statement+" "), pgproxy.HoldBefore)
			a.stop() // returns without the response
			rule.Release()
			if a.err != nil {
				t.Errorf("the stop returned %v", a.err)
			}
			if lines := log.find(t, message); len(lines) != 1 || lines[0]["level"] != "WARN" {
				t.Errorf("logged: %v", lines)
			}
		})
	}
}

// TestStop_Clean_NoWarnings stops a node during a statement, which is cancelled: that is not worth
// a warning.
func TestStop_Clean_NoWarnings(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"OpenTxs", "InboxTxs", "Orphans", "AcquireLeases"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2, time.Minute) // bounds each statement
			var log jsonLog
			a, proxy := c.startWithProxy("a", func(o *Options) {
				o.Logger, o.SweepInterval = log.logger(), time.Second
			})
			c.eventually("sent", c.sent(c.createOn(a, 0, "one")))
			rule := proxy.On(pgproxy.Running("name: "+statement+" "), pgproxy.HoldBefore)
			c.createOn(a, 1, "two")
			<-rule.Fired()
			began := time.Now()
			a.stop()
			if took := time.Since(began); took > c.lease/2 {
				t.Errorf("the stop took %s", took)
			}
			rule.Release()
			for _, line := range log.warnings(t) {
				t.Errorf("%v", line)
			}
		})
	}
}

// warnings lists the lines at WARN or above.
func (j *jsonLog) warnings(t *testing.T) (found []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.lines.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if level := fields["level"]; level == "WARN" || level == "ERROR" {
			found = append(found, fields)
		}
	}
	return found
}
