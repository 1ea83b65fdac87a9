package store

import (
	"fmt"
	"testing"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// TestTotals_LongQueues_CountBounded expects the totals of a ledger with long queues to cost as
// much as those of short ones.
func TestTotals_LongQueues_CountBounded(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	for name, n := range map[string]int{"few": 3, "long": 30_000, "longer": 30_000} {
		k.past(k.submitter(s, name), 0, n)
	}
	k.vacuum("managed_tx")
	for _, c := range []struct {
		names []string
		want  int64
	}{{nil, 101}, {[]string{"long"}, 101}, {[]string{"few"}, 3}, {[]string{}, 0}} {
		meter := &pagesRead{DBTX: k.session(), t: t}
		got, err := db.New(meter).Totals(k.ctx, db.TotalsParams{
			AnyName: c.names == nil, Names: c.names, MostQueued: 101,
		})
		k.must(err)
		t.Logf("%v: %d queued, %d pages", c.names, got.Queued, meter.pages)
		if got.Queued != c.want || meter.pages > 120 {
			t.Errorf("%v: %d queued, want %d; %d pages are read: %s", c.names, got.Queued, c.want,
				meter.pages, meter.plan)
		}
	}
	totals, err := s.Totals(k.ctx, nil)
	k.must(err)
	if totals.Queued != 60_003 || totals.More {
		t.Errorf("%d queued, more %v", totals.Queued, totals.More)
	}
}

// TestCommands_FewSubmitters_ReadsNoOther expects the commands of one submitter to be read without
// the statements of a busy one.
func TestCommands_FewSubmitters_ReadsNoOther(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	rare, busy := k.submitter(s, "rare"), k.submitter(s, "busy")
	other := k.submitter(s, "other")
	fill := func(id txn.SubmitterID, n int) {
		k.exec(`INSERT INTO submitter_command (submitter_id, kind, action, expect, reason, operator)
			SELECT $1, 'UPDATE', '', 0, '', '' FROM generate_series(1, $2)`, int32(id), n)
	}
	fill(rare, 2)
	fill(other, 1)
	fill(busy, 30_000)
	fill(rare, 1)
	k.vacuum("submitter_command")
	meter := &pagesRead{DBTX: k.session(), t: t}
	_, err := db.New(meter).CommandsOf(k.ctx, db.CommandsOfParams{
		Names: []string{"rare"}, Before: 1 << 60, MaxRows: 100,
	})
	k.must(err)
	if t.Logf("%d pages", meter.pages); meter.pages > 30 {
		t.Errorf("%d pages are read: %s", meter.pages, meter.plan)
	}
	var got []string
	last := int64(1 << 60)
	for {
		page, err := s.AllCommands(k.ctx, []string{"other", "rare"}, last, 2)
		k.must(err)
		for _, c := range page {
			if c.ID >= last {
				t.Errorf("command %d after %d", c.ID, last)
			}
			last = c.ID
			got = append(got, c.Submitter)
		}
		if len(page) < 2 {
			break
		}
	}
	if fmt.Sprint(got) != "[rare other rare rare]" {
		t.Errorf("commands of %v", got)
	}
}
