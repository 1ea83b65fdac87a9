package main

import "testing"

// What nobody works for is accepted and goes no further: the command says so, and does not wait for ever.
func TestBench(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	var report benchReport
	l.unmarshal(l.good("bench", "--submitter", "alice", "--to", recipient, "--count", "7", "--callers", "3", "--wait", "50ms", "--json"), &report)
	if report.Accepted != 7 || report.PerSecond <= 0 || report.Call.P99 < report.Call.P50 || len(report.Steps) != 4 || report.Steps[0].Count != 0 {
		t.Errorf("%+v", report)
	}
	l.rows(l.good("bench", "--submitter", "alice", "--to", recipient, "--count", "2", "--wait", "50ms"), `CreateTx +2 \(.*`, `accepted to INCLUDED +0 .*`)
	l.bad(exitFailed, "SUBMITTER_NOT_FOUND", "bench", "--submitter", "nobody", "--to", recipient, "--wait", "50ms")
	l.bad(exitUsage, "--submitter and --to are needed", "bench", "--count", "7")
}
