package archive

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/txn"
)

// askedRequests adds a nonce of a client that the chain has used, and answered requests about it.
// It returns the numbers of those that are history.
func (b *bench) askedRequests(most int) map[int64]bool {
	b.Helper()
	id, err := txn.NewTxID(time.Now(), b.id)
	b.must(err)
	exec := func(sql string, args ...any) {
		b.Helper()
		_, err := b.db.Pool.Exec(b.Context(), sql, args...)
		b.must(err)
	}
	exec("ALTER TABLE nonce_request DISABLE TRIGGER guard")
	exec("ALTER TABLE external_nonce DISABLE TRIGGER guard")
	defer exec("ALTER TABLE nonce_request ENABLE TRIGGER guard")
	defer exec("ALTER TABLE external_nonce ENABLE TRIGGER guard")
	exec(`INSERT INTO external_nonce (submitter_id, nonce, state, reservation_id, fencing_token)
		VALUES ($1, 0, 'ACCEPTED', $2, 1)`, int32(b.id), uuid.UUID(id))
	exec(`INSERT INTO nonce_request (submitter_id, kind, reservation_id, request_id, applied_at,
		result, nonce) VALUES ($1, 'ALLOCATE', $2, 'key', clock_timestamp(), 'APPLIED', 0)`,
		int32(b.id), uuid.UUID(id))
	history := map[int64]bool{}
	for i := range most {
		var no int64
		kind := []string{"HASH", "EXTEND", "QUARANTINE", "RELEASE"}[i%4]
		b.must(b.db.Pool.QueryRow(b.Context(), `INSERT INTO nonce_request (submitter_id, kind,
			reservation_id, reason, applied_at, result)
			VALUES ($1, $2, $3, $4, clock_timestamp(), 'APPLIED') RETURNING request_no`,
			int32(b.id), kind, uuid.UUID(id), fmt.Sprint("reason ", i)).Scan(&no))
		history[no] = true
	}
	return history
}

// requestsLeft checks that each request is in the ledger or in a complete file, and returns how
// many are in the ledger.
func (b *bench) requestsLeft(all map[int64]bool) (left int) {
	b.Helper()
	inFiles := map[int64]bool{}
	names, err := filepath.Glob(filepath.Join(b.dir, "*"+dataEnding))
	b.must(err)
	for _, name := range names {
		f, err := os.Open(name)
		b.must(err)
		z, err := gzip.NewReader(f)
		b.must(err)
		for lines := bufio.NewScanner(z); lines.Scan(); {
			var l struct {
				Submitter string
				Request   *struct {
					No     int64 `json:"request_no"`
					Reason string
				}
			}
			b.must(json.Unmarshal(lines.Bytes(), &l))
			if l.Request != nil {
				inFiles[l.Request.No] = l.Submitter == "alice" && l.Request.Reason != ""
			}
		}
		b.must(f.Close())
	}
	for no := range all {
		var there bool
		b.must(b.db.Pool.QueryRow(b.Context(),
			"SELECT EXISTS (SELECT FROM nonce_request WHERE request_no = $1)", no).Scan(&there))
		if there {
			left++
		} else if !inFiles[no] {
			b.Errorf("request %d is lost", no)
		}
	}
	var keys int
	b.must(b.db.Pool.QueryRow(b.Context(),
		"SELECT count(*) FROM nonce_request WHERE kind = 'ALLOCATE'").Scan(&keys))
	if keys != 1 {
		b.Errorf("%d keys of reservations", keys)
	}
	return left
}

func TestRun_RequestsCrashAtEveryPoint_NothingLost(t *testing.T) {
	crash := errors.New("crash")
	for _, at := range []Point{AfterPart, AfterPlan, AfterRename, AfterRemoval, BeforeDone} {
		for nth := 1; nth <= 2; nth++ {
			t.Run(fmt.Sprint(at, " ", nth), func(t *testing.T) {
				b := newBench(t, 0)
				all := b.askedRequests(7)
				o, hits := b.options(), 0
				o.Gate = func(p Point) error {
					if p == at {
						hits++
					}
					if hits == nth {
						return crash
					}
					return nil
				}
				if _, err := Run(t.Context(), o); !errors.Is(err, crash) {
					t.Fatal(err)
				}
				left := b.requestsLeft(all)
				report, err := Run(t.Context(), b.options())
				b.must(err)
				if now := b.requestsLeft(all); now != 0 || report.Requests != int64(left) {
					t.Errorf("%d of %d are left: %+v", now, left, report)
				}
			})
		}
	}
}

// TestRun_RequestNumberUsedAgain_Kept: after a restore in place, another request may have a number
// that a file of an earlier run names.
func TestRun_RequestNumberUsedAgain_Kept(t *testing.T) {
	b := newBench(t, 0)
	all := b.askedRequests(2)
	o := b.options()
	o.Gate = func(p Point) error {
		if p == AfterRename {
			return errors.New("crash")
		}
		return nil
	}
	if _, err := Run(t.Context(), o); err == nil {
		t.Fatal("the run does not stop")
	}
	for _, sql := range []string{
		"ALTER TABLE nonce_request DISABLE TRIGGER guard",
		"UPDATE nonce_request SET applied_at = clock_timestamp() WHERE kind = 'HASH'",
	} {
		_, err := b.db.Pool.Exec(t.Context(), sql)
		b.must(err)
	}
	o = b.options()
	o.Transactions = time.Hour // nothing but the earlier file
	if report, err := Run(t.Context(), o); err != nil || report.Requests != 1 ||
		b.requestsLeft(all) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestRun_RequestAges(t *testing.T) {
	for name, c := range map[string]struct {
		events, transactions time.Duration
		kept                 int
	}{
		"events first":       {time.Nanosecond, time.Hour, 0},
		"events alone":       {time.Nanosecond, 0, 0},
		"transactions alone": {0, time.Nanosecond, 0},
		"events later":       {time.Hour, time.Nanosecond, 0},
		"young":              {time.Hour, 2 * time.Hour, 3},
	} {
		b := newBench(t, 0)
		all := b.askedRequests(3)
		o := b.options()
		o.Events, o.Transactions = c.events, c.transactions
		_, err := Run(t.Context(), o)
		if b.must(err); b.requestsLeft(all) != c.kept {
			t.Errorf("%s: %d are kept", name, b.requestsLeft(all))
		}
	}
}
