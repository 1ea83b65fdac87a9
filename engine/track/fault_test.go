package track

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// A failed look-up shows since when and why, until one succeeds, and is logged once a minute.
func TestTake_LookupFails_FaultShown(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(1_700_000_000, 0))
	var log bytes.Buffer
	hash, fault := txn.Hash{1}, errors.New("no status")
	tip := window{blocks: []txn.Block{{Number: 5, Hash: txn.Hash{5}}}, limit: 10}
	tr := &Tracker{
		clock: fake, log: slog.New(slog.NewTextHandler(&log, nil)), window: tip,
		follows: map[txn.Hash]*follow{hash: {}}, wanted: map[txn.Hash]bool{},
	}
	since := fake.Now()
	for range 10 {
		tr.take(update{next: tip, answers: []txn.ReceiptResult{{Hash: hash, Err: fault}}})
		if i := tr.inclusion(hash); i.Known || !i.FailingSince.Equal(since) ||
			i.Fault != fault.Error() {
			t.Fatalf("%+v, want the fault since %s", i, since)
		}
		fake.Advance(10 * time.Second)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings within 100 s:\n%s", n, &log)
	}
	tr.take(update{next: tip, answers: []txn.ReceiptResult{{Hash: hash}}})
	if i := tr.inclusion(hash); !i.Known || !i.FailingSince.IsZero() || i.Fault != "" {
		t.Errorf("after a look-up that succeeded: %+v", i)
	}
}
