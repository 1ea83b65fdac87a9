package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
)

// backlogEvents are the events that a reader of the tests below is behind.
const backlogEvents = 100_000

// backlog writes events in commits of one event and of as many as fit into a large group, in turns.
func (k *kit) backlog(s *Store) (since, until string) {
	k.t.Helper()
	id := k.submitter(s, "alice")
	k.exec("ALTER TABLE tx_event DISABLE TRIGGER USER") // no event has a move
	k.exec("ALTER TABLE tx_event SET (autovacuum_enabled = FALSE)")
	_, since, err := s.FeedHead(k.ctx)
	k.must(err)
	k.exec(fmt.Sprintf(`DO $$ BEGIN
		FOR i IN 1..%d LOOP
			INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed,
			                      reason, message)
			SELECT %d, gen_random_uuid(), 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', ''
			  FROM generate_series(1, CASE WHEN i %% 2 = 0 THEN 1999 ELSE 1 END);
			COMMIT;
		END LOOP;
	END $$`, backlogEvents/1000, id))
	_, until, err = s.FeedHead(k.ctx)
	k.must(err)
	return since, until
}

// TestFeed_Backlog_PagesReadTheirEvents: pages of a backlog end within commits and between them,
// and have every event once. A page reads as much of the table as its events and the rest of the
// commit in which it ends, by the plan for its parameters and by the one that a connection keeps
// for all, with statistics and without. The buffers are counted.
func TestFeed_Backlog_PagesReadTheirEvents(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	since, until := k.backlog(s)
	seen := map[EventKey]bool{}
	var after, middle EventKey
	for {
		page, err := s.EventsSince(k.ctx, nil, since, until, after, 0, 1000)
		k.must(err)
		for _, e := range page {
			seen[e.Key()] = true
		}
		if len(page) < 1000 {
			break
		}
		after = page[len(page)-1].Key()
		if len(seen) == backlogEvents/2 {
			middle = after
		}
	}
	if len(seen) != backlogEvents {
		t.Errorf("%d events were seen, want %d", len(seen), backlogEvents)
	}
	k.checkPages(s, "no statistics", since, until, middle)
	k.exec("ANALYZE tx_event")
	k.checkPages(s, "statistics", since, until, middle)
}

// checkPages counts the buffers that pages read.
func (k *kit) checkPages(s *Store, when, since, until string, middle EventKey) {
	k.t.Helper()
	const most = 400 // 60 events are in a buffer, and all in more than 1,600
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		pooled, err := s.pages.Acquire(k.ctx)
		k.must(err)
		conn := pooled.Hijack()
		defer conn.Close(k.ctx)
		tap := &textTap{DBTX: conn}
		p := db.EventsSinceParams{Since: since, Until: until, AfterXid: "0"}
		_, err = db.New(tap).EventsSince(k.ctx, p)
		k.must(err)
		_, err = conn.Exec(k.ctx, "SET plan_cache_mode = "+mode)
		k.must(err)
		_, err = conn.Prepare(k.ctx, "page", tap.sql)
		k.must(err)
		for _, after := range []EventKey{{Xid: "0"}, middle} {
			for _, size := range []int32{256, 2048} {
				for submitter := range int32(2) { // 0: all
					p.AfterXid, p.AfterSubmitter = after.Xid, int32(after.Submitter)
					p.AfterTx, p.AfterSeq = uuid.UUID(after.Tx), after.Seq
					p.SubmitterID, p.MaxRows = submitter, size
					rows, buffers, plan := pageBuffers(k, conn, p)
					if rows != int(size) || buffers > most {
						k.t.Errorf("%s, %s, after %s, of submitter %d: %d of %d events by %d "+
							"buffers, at most %d are needed: %s", when, mode, after.Xid, submitter,
							rows, size, buffers, most, plan)
					}
				}
			}
		}
	}
}

// pageBuffers executes the prepared statement "page".
func pageBuffers(k *kit, conn *pgx.Conn, p db.EventsSinceParams) (rows, buffers int, plan string) {
	k.t.Helper()
	var values []string
	for _, v := range []any{p.Since, p.Until, p.AfterXid, p.AfterSubmitter, p.AfterTx, p.AfterSeq,
		p.SubmitterID, p.MaxRows} {
		values = append(values, fmt.Sprintf("'%v'", v))
	}
	var answer []byte
	k.must(conn.QueryRow(k.ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE "+
		"page ("+strings.Join(values, ", ")+")").Scan(&answer))
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Actual Rows"`
			Hit  int     `json:"Shared Hit Blocks"`
			Read int     `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(answer, &plans); err != nil || len(plans) != 1 {
		k.t.Fatalf("%v: %s", err, answer)
	}
	found := plans[0].Plan
	return int(found.Rows), found.Hit + found.Read, string(answer)
}
