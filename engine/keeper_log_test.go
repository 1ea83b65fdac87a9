package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// jsonLog keeps the log of a node.
type jsonLog struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (j *jsonLog) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(b)
}

func (j *jsonLog) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// find returns the lines with one of these messages.
func (j *jsonLog) find(t *testing.T, messages ...string) (found []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.lines.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if fields["msg"] == m {
				found = append(found, fields)
			}
		}
	}
	return found
}

// leaseLost returns the lines about leases lost for a reason.
func (j *jsonLog) leaseLost(t *testing.T, why string) (found []map[string]any) {
	t.Helper()
	for _, fields := range j.find(t, "lease lost") {
		if fields["why"] == why {
			found = append(found, fields)
		}
	}
	return found
}

// reading reads the metrics of a node.
type reading struct {
	t      *testing.T
	reader *sdk.ManualReader
}

func measure(t *testing.T, o *Options) reading {
	r := reading{t, sdk.NewManualReader()}
	provider := sdk.NewMeterProvider(sdk.WithReader(r.reader))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	o.Meter = provider.Meter("test")
	return r
}

// sum returns the value of an instrument, or the count of a histogram; optionally only of series
// with a label.
func (r reading) sum(name string, label ...string) (sum float64) {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &all); err != nil {
		r.t.Fatal(err)
	}
	add := func(set attribute.Set, v float64) {
		if len(label) == 2 {
			if is, _ := set.Value(attribute.Key(label[0])); is.AsString() != label[1] {
				return
			}
		}
		if set.HasValue("submitter") || set.HasValue("submitter_id") {
			r.t.Errorf("%s has a label for submitters", name)
		}
		sum += v
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			}
		}
	}
	return sum
}

// TestLog_EachMove_Logged verifies that each event of a transaction, and each decided command, is
// logged with submitter, transaction, node and token.
func TestLog_EachMove_Logged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 5*time.Second)
	c.mine(20 * time.Millisecond)
	var log jsonLog
	n := c.start("a", func(o *Options) { o.Logger = log.logger() })
	id := c.createOn(n, 0, "one")
	c.awaitFinal(id)
	for _, ask := range []store.Ask{{Kind: txn.CommandPause, Operator: "eve"},
		{Kind: txn.CommandCancel, Tx: &id, Operator: "eve"}} {
		if _, err := n.store.AddCommand(t.Context(), c.submitters[0], ask); err != nil {
			t.Fatal(err)
		}
	}
	var decided []map[string]any
	c.eventually("both are decided", func() error {
		if decided = log.find(t, "command decided"); len(decided) < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	n.stop()
	token := float64(c.number("SELECT fencing_token FROM submitter_lease"))
	writes := log.find(t, "nonce sequence started", "submitter status changed", "command decided",
		"transaction moved", "submitter protected")
	logged := map[string]bool{}
	for _, line := range writes {
		if line["submitter"] != "s0" || line["submitter_id"] != float64(c.submitters[0]) ||
			line["node_id"] != n.store.Node() || line["fencing_token"] != token {
			t.Errorf("a line lacks a field: %v", line)
		}
		if line["msg"] == "transaction moved" {
			logged[fmt.Sprint(line["tx_id"], " ", line["event"])] = true
		}
	}
	for i, want := range []string{"PAUSE APPLIED <nil>", "CANCEL " + txn.ResultAlreadyFinal + " " +
		id.String()} {
		if got := fmt.Sprint(decided[i]["kind"], " ", decided[i]["result"], " ",
			decided[i]["tx_id"]); got != want ||
			decided[i]["operator"] != "eve" {
			t.Errorf("logged %s of %v, want %s", got, decided[i], want)
		}
	}
	for _, kind := range c.events(id)[1:] { // the API wrote the first
		if !logged[fmt.Sprint(id, " ", kind)] {
			t.Errorf("%s is not logged: %v", kind, logged)
		}
	}
}

// TestCommit_Fenced_CountedAndLogged takes the lease away between the signature and the commit.
func TestCommit_Fenced_CountedAndLogged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 20*time.Second)
	var log jsonLog
	var counts reading
	at, on := make(chan struct{}), make(chan struct{})
	n := c.start("a", func(o *Options) {
		o.Logger = log.logger()
		counts = measure(t, o)
		var once sync.Once
		o.Gate = func(_ context.Context, p Point, _ txn.SubmitterID) error {
			if p == BeforeAllocate {
				once.Do(func() { close(at); <-on })
			}
			return nil
		}
	})
	id := c.createOn(n, 0, "one")
	<-at
	if _, err := c.db.Pool.Exec(t.Context(), "UPDATE submitter_lease SET expires_at = "+
		"clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	lease, err := c.admin.AcquireOne(t.Context(), c.submitters[0])
	if err != nil || lease == nil {
		t.Fatal("the lease could not be taken", err)
	}
	close(on)
	c.eventually("it is counted", func() error {
		if got := counts.sum("fencepost_lease_fenced", "op", "allocate"); got != 1 {
			return fmt.Errorf("%v fenced", got)
		}
		return nil
	})
	if got := counts.sum("fencepost_commit", "outcome", "fenced"); got != 1 {
		t.Errorf("%v commits were fenced", got)
	}
	lines := log.find(t, "commit fenced")
	if len(lines) != 1 || lines[0]["op"] != "allocate" || lines[0]["tx_id"] != id.String() ||
		lines[0]["node_id"] != n.store.Node() ||
		lines[0]["fencing_token"] != float64(lease.Token()-1) {
		t.Errorf("%v", lines)
	}
}

// TestMetrics_Takeover_Counted transfers submitters from one node to another.
func TestMetrics_Takeover_Counted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, time.Second)
	var first, second reading
	a := c.start("a", func(o *Options) { first = measure(t, o) })
	done := c.createOn(a, 1, "zero")
	c.eventually("sent", c.sent(done))
	c.chain.Mine(4)
	c.awaitFinal(done)
	id := c.createOn(a, 0, "one")
	c.eventually("sent", c.sent(id))
	if first.sum("fencepost_takeover") != 0 || first.sum("fencepost_nodes") != 1 {
		t.Errorf("%v takeovers, %v nodes", first.sum("fencepost_takeover"),
			first.sum("fencepost_nodes"))
	}
	if got := first.sum("fencepost_lease_acquire", "result", "first"); got != 2 {
		t.Errorf("%v leases were acquired for the first time", got)
	}
	a.stop()
	b := c.start("b", func(o *Options) { second = measure(t, o) })
	c.eventually("taken over", func() error {
		if got := second.sum("fencepost_takeover"); got != 1 {
			return fmt.Errorf("%v takeovers", got)
		}
		return nil
	})
	c.eventually("sent",
		// no takeover: this submitter had no work
		c.sent(c.createOn(b, 1, "two")))
	queued := c.createOn(b, 0, "three")
	b.engine.countOnce(t.Context())
	for name, want := range map[string]float64{"fencepost_takeover": 1, "fencepost_queue_depth": 1,
		"fencepost_tx_in_flight": 2, "fencepost_tx_stuck": 0, "fencepost_nonces_undecided": 0} {
		if got := second.sum(name); got != want {
			t.Errorf("%s is %v, want %v (queued is %s)", name, got, want, queued)
		}
	}
	if got := second.sum("fencepost_submitters", "state", "owned"); got != 2 {
		t.Errorf("%v submitters are owned", got)
	}
	if got := second.sum("fencepost_lease_acquire", "result", "released"); got != 2 {
		t.Errorf("%v leases were acquired after a release", got)
	}
	if second.sum("fencepost_queue_oldest_age") <= 0 {
		t.Error("the age of the queue is zero")
	}
	c.eventually("renewals are counted", func() error {
		if second.sum("fencepost_lease_renew", "result", "ok") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// flakyChain fails the first broadcasts and the first receipt lookups.
type flakyChain struct {
	*chaintest.Chain
	sends, receipts atomic.Int32 // remaining failures
}

func (p *flakyChain) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	if p.sends.Add(-1) >= 0 {
		return txn.Outcome{Class: txn.Unavailable}
	}
	return p.Chain.Send(ctx, signed)
}

func (p *flakyChain) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	answers := p.Chain.Receipts(ctx, hashes)
	if p.receipts.Add(-1) >= 0 {
		for i := range answers {
			answers[i] = txn.ReceiptResult{Hash: answers[i].Hash, Err: txn.ErrUnavailable}
		}
	}
	return answers
}

// TestMetrics_Lifecycle_Counted counts the calls for one transaction, with two failed broadcasts
// and a failed lookup.
func TestMetrics_Lifecycle_Counted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 5*time.Second)
	c.mine(20 * time.Millisecond)
	var counts reading
	n := c.start("a", func(o *Options) {
		counts = measure(t, o)
		p := &flakyChain{Chain: c.chain}
		p.sends.Store(2)
		p.receipts.Store(1)
		o.Chains[0].Chain = p
	})
	c.awaitFinal(c.createOn(n, 0, "one"))
	c.eventually("the final state is counted", func() error {
		if counts.sum("fencepost_tx_final") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, want := range []struct {
		name, label, value string
		least, most        float64
	}{
		{"fencepost_tx_final", "state", "CONFIRMED", 1, 1},
		{"fencepost_tx_final", "state", "FAILED_FINAL", 0, 0},
		{"fencepost_tx_resubmit", "result", "ok", 1, 1},
		{"fencepost_tx_resubmit", "result", "error", 1, 1},
		{"fencepost_receipt_check", "result", "hit", 1, 100},
		// lookups after a failed broadcast
		{"fencepost_receipt_check", "result", "miss", 1, 100},
		{"fencepost_receipt_check", "result", "error", 1, 1},
	} {
		if got := counts.sum(want.name, want.label, want.value); got < want.least ||
			got > want.most {
			t.Errorf("%s of %s is %v, want %v to %v", want.name, want.value, got, want.least,
				want.most)
		}
	}
	if got := counts.sum("fencepost_receipt_lookup"); got < 3 {
		t.Errorf("%v lookups", got)
	}
	if got := counts.sum("fencepost_tx_lifetime"); got != 1 {
		t.Errorf("%v lifetimes", got)
	}
}
