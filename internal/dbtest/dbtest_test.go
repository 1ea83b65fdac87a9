package dbtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestMain(m *testing.M) { os.Exit(Main(m).Run()) }

// TestGuard writes past the store in every way that the guard knows of.
func TestGuard(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := New(t)
	id := uuid.New()
	setup := []string{
		`INSERT INTO submitter (name, chain_id, address, signer, mode, max_in_flight, start_from,
		                       timeline)
		SELECT 'alice', 1, decode(repeat('01', 20), 'hex'), 's', 'STRICT', 1, '0', l.timeline
		  FROM ledger l`,
		`INSERT INTO submitter_lease (submitter_id, owner_node, fencing_token, expires_at)
		VALUES (1, 'a', 7, clock_timestamp() + INTERVAL '1 hour')`,
		`INSERT INTO submitter_nonce_cursor (submitter_id, next_nonce, init_nonce, init_block,
		                                    init_block_hash, fencing_token)
		VALUES (1, 0, 0, 0, decode(repeat('01', 32), 'hex'), 7)`,
		queued(id, 0),
	}
	for _, sql := range setup {
		if _, err := db.Pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	other := uuid.New()
	for name, c := range map[string]struct{ sql, word string }{
		"a stale token moves":       {moved(id, 6, true), "under token 6, the live token is 7"},
		"a token to come moves":     {moved(id, 8, true), "under token 8, the live token is 7"},
		"a move does not tell":      {moved(id, 7, false), "version 2 and 1 events"},
		"an event without a move":   {eventOf(id, 2, 7), "has no move"},
		"an event is changed":       {"UPDATE tx_event SET message = 'x'", "an event is changed"},
		"a transaction is deleted":  {"DELETE FROM managed_tx", "a transaction is deleted"},
		"a queued row with a token": {queued(other, 7), "is inserted as"},
		"a queued row without an event": {strings.SplitN(queued(other, 0), ";", 2)[0],
			"version 1 and 0 events"},
		"a cursor moves": {"UPDATE submitter_nonce_cursor SET next_nonce = 1, " +
			"fencing_token = 6", "under token 6"},
		"a cursor vanishes": {"DELETE FROM submitter_nonce_cursor", "deletes a row"},
		"a cursor skips": {"UPDATE submitter_nonce_cursor SET next_nonce = 2",
			"0 of these nonces are recorded"},
		"a cursor skips too much": {"UPDATE submitter_nonce_cursor SET next_nonce = 4; " +
			gap(1, 2, 7), "2 of these nonces are recorded"},
		"a gap under a stale token": {"UPDATE submitter_nonce_cursor SET next_nonce = 2; " +
			gap(1, 1, 6), "under token 6"},
		"a payload is changed": {"UPDATE managed_tx SET data = 'x', fencing_token = 7",
			"the request of transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := db.Pool.Exec(ctx, c.sql); err == nil ||
				!strings.Contains(err.Error(), c.word) {
				t.Fatalf("the guard says %v, want %q", err, c.word)
			}
		})
	}
	t.Run("what is right passes", func(t *testing.T) {
		right := uuid.New()
		for _, sql := range []string{queued(right, 0), moved(right, 7, true),
			"UPDATE submitter_nonce_cursor SET next_nonce = 1; " + gap(0, 0, 7)} {
			if _, err := db.Pool.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func queued(id uuid.UUID, token int) string {
	return sql(
		`INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, value, data,
		                        gas_limit, fencing_token)
		VALUES (1, '$id', '$id', decode(repeat('01', 32), 'hex'), 0, '', 0, $token);`,
		id,
		1,
		token,
	) + eventOf(id, 1, 0)
}

// moved is the move of a queued row to failed.
func moved(id uuid.UUID, token int, tell bool) string {
	move := sql(
		`UPDATE managed_tx
		    SET state = 'FAILED_FINAL', version = 2, executed = 'NO',
		        terminal_at = clock_timestamp(), fencing_token = $token
		  WHERE tx_id = '$id';`,
		id,
		2,
		token,
	)
	if !tell {
		return move
	}
	return move + eventOf(id, 2, token)
}

func gap(first, last, token int) string {
	return fmt.Sprintf(
		"INSERT INTO nonce_gap (submitter_id, first_nonce, last_nonce, reason, fencing_token) "+
			"VALUES (1, %d, %d, 'x', %d)",
		first, last, token)
}

func eventOf(id uuid.UUID, seq, token int) string {
	return sql(
		`INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
		                      message, fencing_token)
		VALUES (1, '$id', $seq, CASE $seq WHEN 1 THEN 'QUEUED' ELSE 'FAILED' END, '', '', '', '',
		        '', $token);`,
		id,
		seq,
		token,
	)
}

func sql(text string, id uuid.UUID, seq, token int) string {
	digits := func(n int) string { return string(rune('0' + n)) }
	return strings.NewReplacer("$id", id.String(), "$seq", digits(seq), "$token",
		digits(token)).Replace(
		text,
	)
}

func TestNew_SchemaPerTest(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t, WithoutGuard())
	if a.Schema == b.Schema {
		t.Fatal("two tests share a schema")
	}
	guards := func(db *DB) (n int) {
		const count = `SELECT count(*) FROM pg_trigger
			WHERE tgname = 'guard'
			  AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = $1::TEXT::REGNAMESPACE)`
		if err := db.Pool.QueryRow(context.Background(), count, db.Schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if guards(a) != 8 || guards(b) != 0 {
		t.Fatalf("%d and %d guards, want 8 and 0", guards(a), guards(b))
	}
}

// BenchmarkNew measures the cost of a ledger for a test.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New(b)
	}
}
