package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// acquisition is one change of a submitter's owner, recorded by a trigger of the test. The lease
// row itself is overwritten.
type acquisition struct {
	Submitter int
	Owner     string
	Token     int64
	At        time.Time
	Before    string // the owner before
	Ended     time.Time
	Released  bool       // by its owner; otherwise it lapsed, or its owner takes it anew
	WorkSince *time.Time // oldest transaction that is not final; nil: none
}

// recordLeaseHistory makes the database write it, and makes looking for the hash of an attempt
// quick.
func recordLeaseHistory(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `
		CREATE SCHEMA chronicle;
		CREATE TABLE chronicle.acquisition (
			submitter INT, owner TEXT, token BIGINT, at TIMESTAMPTZ, before TEXT,
			  ended TIMESTAMPTZ, released BOOLEAN, work_since TIMESTAMPTZ,
			PRIMARY KEY (submitter, token));
		CREATE FUNCTION chronicle.acquired() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO chronicle.acquisition VALUES (NEW.submitter_id, NEW.owner_node,
			  NEW.fencing_token, NEW.acquired_at, OLD.owner_node, OLD.expires_at, OLD.released,
				LEAST((SELECT min(t.created_at) FROM public.managed_tx t
				  WHERE t.submitter_id = NEW.submitter_id AND t.nonce IS NULL
				  AND t.terminal_at IS NULL),
				      (SELECT min(t.created_at) FROM public.managed_tx t
				  WHERE t.submitter_id = NEW.submitter_id AND t.nonce IS NOT NULL
				  AND t.terminal_at IS NULL)));
			RETURN NULL;
		END $$;
		CREATE TRIGGER chronicle AFTER UPDATE ON public.submitter_lease FOR EACH ROW
			WHEN (NEW.fencing_token <> OLD.fencing_token) EXECUTE FUNCTION chronicle.acquired();
		CREATE INDEX chronicle_attempt ON public.tx_attempt (tx_hash);`); err != nil {
		t.Fatal(err)
	}
}

// verifyFence requires that nothing was written under a token once the next one was taken (law L2),
// as far as the rows still show.
func (cl *cluster) verifyFence(t *testing.T) {
	t.Helper()
	// A caller cancels a queued transaction itself, and leaves the token of its last owner.
	byOwner := map[string]string{"managed_tx": " AND NOT (state = 'CANCELLED' AND nonce IS NULL)"}
	for table, written := range map[string]string{
		"tx_event": "created_at", "tx_attempt": "created_at", "managed_tx": "updated_at",
		"submitter_nonce_cursor": "updated_at", "submitter_command": "applied_at",
		"nonce_gap": "created_at",
	} {
		var late int
		err := cl.pool.QueryRow(
			context.Background(),
			"SELECT count(*) FROM "+table+" w JOIN chronicle.acquisition a ON a.submitter = "+
				"w.submitter_id AND a.token = w.fencing_token + 1 "+
				"WHERE w.fencing_token > 0 AND w."+written+" > a.at"+byOwner[table],
		).Scan(&late)
		if err != nil || late != 0 {
			t.Errorf("%d rows of %s were written under a token after it had been taken over (%v)",
				late, table, err)
		}
	}
}

// leaseHistory is every acquisition so far, by submitter and then in order.
type leaseHistory map[int][]acquisition

func readLeaseHistory(t *testing.T, pool *pgxpool.Pool) leaseHistory {
	t.Helper()
	rows, err := pool.Query(context.Background(),
		"SELECT submitter, owner, token, at, before, ended, released, work_since FROM "+
			"chronicle.acquisition ORDER BY submitter, token")
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[acquisition])
	if err != nil {
		t.Fatal(err)
	}
	c := leaseHistory{}
	for _, a := range list {
		c[a.Submitter] = append(c[a.Submitter], a)
	}
	return c
}

// timeWithoutOwner is how long a submitter had work and no owner before an acquisition.
func (a acquisition) timeWithoutOwner() time.Duration {
	if a.WorkSince == nil {
		return 0
	}
	since := a.Ended
	if a.WorkSince.After(since) {
		since = *a.WorkSince
	}
	return max(0, a.At.Sub(since))
}

// takeover is the first acquisition of a submitter after its owner failed.
type takeover struct {
	acquisition
	took time.Duration // from the failure
}

// takeovers returns the takeovers of submitters with work that the named node owned at a moment.
func (c leaseHistory) takeovers(name string, at time.Time) (list []takeover) {
	for _, history := range c {
		next := slices.IndexFunc(history, func(a acquisition) bool { return a.At.After(at) })
		if next < 1 {
			continue
		}
		a := history[next]
		if strings.HasPrefix(history[next-1].Owner, name+"/") && a.Ended.After(at) &&
			a.WorkSince != nil &&
			a.WorkSince.Before(at) {
			list = append(list, takeover{a, a.At.Sub(at)})
		}
	}
	return list
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
