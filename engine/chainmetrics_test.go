package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// TestChainMetrics_Defaults counts a reorg with default settings, which report no confirmations.
func TestChainMetrics_Defaults(t *testing.T) {
	t.Parallel()
	var counted reading
	var log jsonLog
	v := newChainHarness(t, "memory", quick, func(o *Options) {
		counted = measure(t, o)
		o.Logger = log.logger()
	})
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.mine(1)
	v.eventually("it is included", v.is(id, txn.Included))
	v.awaitCount(counted, 1, "fencepost_queue_wait")
	v.awaitCount(counted, 1, "fencepost_chain_up", "chain", "31337")
	v.awaitCount(counted, 0, "fencepost_confirmations_fork")
	if err := v.memory.Reorg(v.blocksFrom(id), chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	v.awaitEvent(id, txn.EventReorged, 1)
	v.awaitCount(counted, 1, "fencepost_confirmations_fork")
	v.awaitCount(counted, 1, "fencepost_chain_reorg", "chain", "31337")
	v.finish(id)
	info, err := v.admin.Tx(t.Context(), id)
	if err != nil || info.LastSubmit == nil || !info.Receipt.More.Known ||
		info.Receipt.More.CumulativeGas < info.Receipt.GasUsed {
		t.Errorf("broadcast at %v, receipt %+v: %v", info.LastSubmit, info.Receipt, err)
	}
	v.awaitCount(counted, 1, "fencepost_queue_wait") // rebroadcasts do not count
	v.awaitCount(counted, 0, "fencepost_receipt_backlog", "chain", "31337")
	v.silence()
	v.awaitCount(counted, 0, "fencepost_chain_up", "chain", "31337")

	acquired := log.find(t, "submitter acquired")
	if len(acquired) != 1 || acquired[0]["level"] != "INFO" {
		t.Fatalf("%v", acquired)
	}
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(acquired[0]["expires_at"]))
	if err != nil || time.Until(at) > time.Hour || time.Since(at) > time.Hour {
		t.Errorf("expires_at is %v: %v", acquired[0]["expires_at"], err)
	}
	for _, line := range log.find(t, "transaction moved") {
		if line["level"] == "DEBUG" {
			t.Errorf("a few moves are logged at debug: %v", line)
		}
	}
}

// TestSampler_AboveRate_Debug logs more than the burst at once.
func TestSampler_AboveRate_Debug(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(1_700_000_000, 0))
	s := newSampler(fake)
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	line := func() { s.log(logger, "m", func() []any { return []any{"k", "v"} }) }
	for range sampleBurst + 7 {
		line()
	}
	if info, debug := strings.Count(out.String(), "level=INFO"),
		strings.Count(out.String(), "level=DEBUG"); info != sampleBurst || debug != 7 {
		t.Errorf("%d lines at info and %d at debug", info, debug)
	}
	out.Reset()
	fake.Advance(time.Second)
	line()
	line()
	if lines := strings.Split(out.String(), "\n"); !strings.Contains(lines[0], "skipped=7") ||
		strings.Contains(lines[1], "skipped") {
		t.Errorf("%s", out.String())
	}
}
