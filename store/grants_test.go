package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// TestGrant: the tests' own nodes work with the rights of a node; here is what these exclude.
func TestGrant(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	role := k.db.Schema + "_role"
	as := k.roleURL(role)
	k.exec("GRANT ALL ON ALL TABLES IN SCHEMA " + k.db.Schema + " TO " + role)
	for _, c := range []struct {
		grants Grants
		sql    string
		denied bool
	}{
		{NodeGrants, "SELECT raw_tx FROM tx_attempt", false},
		{NodeGrants, "UPDATE submitter SET max_fee = max_fee", false},
		{NodeGrants, "DELETE FROM node", false},
		{NodeGrants, "SELECT nextval('queue_seq')", false},
		{NodeGrants, "DELETE FROM managed_tx", true},
		{NodeGrants, "DELETE FROM submitter_command", true},
		{NodeGrants, "UPDATE tx_event SET seq = 7", true},
		{NodeGrants, "UPDATE tx_attempt SET raw_tx = NULL", false},
		{NodeGrants, "UPDATE tx_attempt SET tx_hash = ''", true},
		{NodeGrants, "DELETE FROM tx_event", true},
		{NodeGrants, "DELETE FROM nonce_request", true},
		{NodeGrants, "UPDATE archive_lease SET holder = ''", true},
		{NodeGrants, "UPDATE ledger SET feed_epoch = 1", true},
		{NodeGrants, "UPDATE nonce_gap SET reason = ''", true},
		{NodeGrants, "UPDATE top_up SET voided_at = clock_timestamp()", true},
		{NodeGrants, "TRUNCATE managed_tx CASCADE", true},
		{NodeGrants, "ALTER TABLE submitter_lease DISABLE TRIGGER ALL", true},
		{NodeGrants, "CREATE TABLE more ()", true},
		{ReaderGrants, "SELECT count(*) FROM managed_tx", false},
		{ReaderGrants, "SELECT raw_tx FROM tx_attempt", true},
		{ReaderGrants, "UPDATE submitter SET max_fee = max_fee", true},
		{ReaderGrants, "SELECT nextval('queue_seq')", true},
		{ArchiveGrants, "DELETE FROM tx_event", false},
		{ArchiveGrants, "DELETE FROM nonce_request", false},
		{ArchiveGrants, "DELETE FROM external_nonce", true},
		{ArchiveGrants, "UPDATE nonce_request SET result = ''", true},
		{ArchiveGrants, "UPDATE archive_lease SET holder = ''", false},
		{ArchiveGrants, "SELECT raw_tx FROM tx_attempt", true},
		{ArchiveGrants, "DELETE FROM tx_attempt", true},
		{ArchiveGrants, "DELETE FROM managed_tx", true},
		{ArchiveGrants, "UPDATE managed_tx SET nonce = 7", true},
		{ArchiveGrants, "UPDATE submitter_lease SET owner_node = ''", true},
		{ArchiveGrants, "UPDATE top_up SET voided_at = clock_timestamp()", true},
		{ArchiveGrants, "UPDATE submitter_settled SET settled_below = 7", true},
	} {
		k.must(Grant(k.ctx, k.db.URL, k.db.Schema, role, c.grants))
		cfg, err := pgx.ParseConfig(as)
		k.must(err)
		cfg.RuntimeParams["search_path"] = k.db.Schema
		conn, err := pgx.ConnectConfig(k.ctx, cfg)
		k.must(err)
		_, err = conn.Exec(k.ctx, c.sql)
		k.must(conn.Close(k.ctx))
		pg, isDenied := errors.AsType[*pgconn.PgError](err)
		isDenied = isDenied && pg.Code == notPermitted
		if isDenied != c.denied || err != nil && !isDenied {
			t.Errorf("%s, %s: %v", c.grants, c.sql, err)
		}
	}
	if info, err := s.Submitter(k.ctx, id); err != nil || info.Mode != txn.Strict {
		t.Errorf("afterwards the submitter is %+v (%v)", info, err)
	}
}

// TestGrant_Refused: a role that is not there, or that owns the ledger.
func TestGrant_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	err := Grant(k.ctx, k.db.URL, k.db.Schema, "nobody", NodeGrants)
	if err == nil || !strings.Contains(err.Error(), `CREATE ROLE "nobody" LOGIN`) {
		t.Errorf("a missing role: %v", err)
	}
	var owner string
	k.must(k.db.Pool.QueryRow(k.ctx, "SELECT current_user").Scan(&owner))
	err = Grant(k.ctx, k.db.URL, k.db.Schema, owner, NodeGrants)
	if err == nil || !strings.Contains(err.Error(), "owns the ledger") {
		t.Errorf("the owner: %v", err)
	}
}

// TestGrants_NameEveryTable: a new table is in both lists, but for the signed bytes.
func TestGrants_NameEveryTable(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	rows, err := k.db.Pool.Query(k.ctx, "SELECT relname FROM pg_class "+
		"WHERE relnamespace = $1::TEXT::REGNAMESPACE AND relkind IN ('r', 'p')", k.db.Schema)
	k.must(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	k.must(err)
	for _, grants := range []Grants{NodeGrants, ReaderGrants} {
		text := grants.Statements("s", "r")
		for _, table := range tables {
			named := strings.Contains(text, `"s".`+table)
			if want := grants == NodeGrants || table != "tx_attempt" &&
				table != "signed_tx"; named != want {
				t.Errorf("%s grants name table %s: %t", grants, table, named)
			}
		}
	}
}
