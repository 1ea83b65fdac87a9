package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// metricUse matches a metric of ours in an expression, with its matchers.
var metricUse = regexp.MustCompile(`\b(fencepost_[a-z_]+)(?:\{([^{}]*)\})?`)

// notHere are the metrics without a series here. The first one appears with what it counts, whose
// labels, such as the name of a caller, are unknown before.
var notHere = map[string]bool{
	"fencepost_policy_denials_total": true,
	"fencepost_ledger_up":            true, // TestLedgers_ChaosOnOne_OthersServed reads it
}

// documentedMetrics are the metrics that the documents name, with the document.
func documentedMetrics(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) < 10 {
		t.Fatalf("documents %v, %v", files, err)
	}
	names := map[string]string{}
	for _, file := range files {
		text := documentOf(t, root, filepath.Join("docs", filepath.Base(file)))
		for _, use := range metricUse.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(use[1], "fencepost_test_") { // a name in an example
				names[use[1]] = filepath.Base(file)
			}
		}
	}
	return names
}

// TestMetrics_Named_Exist compares the metrics and label values that the dashboard and the alert
// rules use, and the metrics that the documents name, with those of a live node.
func TestMetrics_Named_Exist(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]string{} // by text; the value is the file
	for _, name := range []string{
		"deploy/grafana/fencepost.json", "deploy/prometheus/alerts.yaml",
	} {
		text := strings.ReplaceAll(documentOf(t, root, name), `\"`, `"`)
		for _, use := range metricUse.FindAllString(text, -1) {
			uses[use] = name
		}
	}
	documented := documentedMetrics(t, root)
	if len(uses) < 30 || len(documented) < 50 {
		t.Fatalf("found only %v and %v", uses, documented)
	}
	c := embedded(t, 100*time.Millisecond, 1)
	n := prepareNode(t, c, nodeOptions{confirmations: 30, poll: 50 * time.Millisecond},
		freshDatabase(t))
	text, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, n.config, string(text)+"sinks: [{name: log, kind: log}]\n")
	n.migrate(t)
	n.start(t)
	tx := n.create(t, n.names[0], "one", transfer)
	eventually(t, time.Minute, "it has an owner", func() error {
		got, err := n.GetTx(t.Context(),
			&fencepostv1.GetTxRequest{Key: &fencepostv1.GetTxRequest_TxId{TxId: tx.GetTxId()}})
		if state := got.GetTx().GetState(); state != fencepostv1.TxState_TX_STATE_TRACKING {
			return fmt.Errorf("%v, %w", state, err)
		}
		return nil
	})
	n.proc.kill() // the next owner takes over
	n.start(t)
	n.await(t, tx.GetTxId(), time.Minute)
	n.await(t, n.create(t, n.names[0], "two", transfer).GetTxId(), time.Minute)
	eventually(t, time.Minute, "every metric exists", func() error {
		_, live := n.getOps(t, "/metrics")
		for use, file := range uses {
			if !exists(live, use) && !notHere[metricUse.FindStringSubmatch(use)[1]] {
				return fmt.Errorf("%s uses %s, which /metrics lacks", file, use)
			}
		}
		missing := ""
		for name, file := range documented {
			if !exists(live, name) && !exists(live, name+"_count") && !notHere[name] {
				missing += fmt.Sprintf("\n%s names %s", file, name)
			}
		}
		if missing != "" {
			return fmt.Errorf("/metrics lacks:%s", missing)
		}
		return nil
	})
}

// exists reports whether a metric has a series with the labels of a use.
func exists(live, use string) bool {
	parts := metricUse.FindStringSubmatch(use)
	for line := range strings.Lines(live) {
		name := strings.IndexAny(line, "{ ")
		if name < 0 || line[:name] != parts[1] {
			continue
		}
		all := true
		for label := range strings.SplitSeq(parts[2], ",") {
			all = all && matches(line, label)
		}
		if all {
			return true
		}
	}
	return false
}

// matches reports whether a series has a label that a matcher selects. Of a regular expression it
// checks only the name.
func matches(line, matcher string) bool {
	matcher = strings.TrimSpace(matcher)
	if name, value, is := strings.Cut(matcher, "!="); is {
		return strings.Contains(line, name+"=") && !strings.Contains(line, name+"="+value)
	}
	if name, _, is := strings.Cut(matcher, "=~"); is {
		return strings.Contains(line, name+"=")
	}
	return strings.Contains(line, matcher)
}

func TestMetrics_Unknown_Missing(t *testing.T) {
	t.Parallel()
	const live = "# HELP fencepost_a x\nfencepost_a{state=\"up\"} 1\nfencepost_b 2\n"
	for use, want := range map[string]bool{
		`fencepost_a`: true, `fencepost_a{state="up"}`: true, `fencepost_a{state="off"}`: false,
		`fencepost_b`: true, `fencepost_c`: false, `fencepost_a{state!="off"}`: true,
		`fencepost_a{state!="up"}`: false, `fencepost_a{state=~"u.*"}`: true,
		`fencepost_a{kind=~"u.*"}`: false,
	} {
		if exists(live, use) != want {
			t.Errorf("%s: want %v", use, want)
		}
	}
}
