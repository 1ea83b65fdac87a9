package store

import (
	"net/url"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// oldLedger is a directory with the ledgers eu1, which has the accounts alice and bob, and us1.
type oldLedger struct {
	*directoryKit
	eu         *kit
	alice, bob txn.SubmitterID
}

func newOldLedger(t *testing.T, joined bool) *oldLedger {
	t.Helper()
	unguarded := dbtest.WithoutGuard() // the guard knows the newest schema alone
	o := &oldLedger{directoryKit: &directoryKit{
		ledgers: []*kit{newKit(t), newKit(t, unguarded), newKit(t)}}}
	o.kit, o.eu = o.ledgers[0], o.ledgers[1]
	_, err := o.join(2, "us1")
	o.must(err)
	if !joined {
		s := o.eu.open("a")
		o.alice, o.bob = o.eu.submitter(s, "alice"), o.eu.submitter(s, "bob")
		return o
	}
	_, err = o.join(1, "eu1")
	o.must(err)
	s := o.node(1)
	o.alice, o.bob = o.eu.submitter(s, "alice"), o.eu.submitter(s, "bob")
	return o
}

// upgraded takes the ledger back to a schema, and brings it to the newest one again.
func (o *oldLedger) upgraded(from int64, before ...string) {
	o.t.Helper()
	o.must(withProvider(o.ctx, o.eu.db.URL, o.eu.db.Schema, true, func(p *goose.Provider) error {
		_, err := p.DownTo(o.ctx, from)
		return err
	}))
	for _, sql := range before {
		o.eu.exec(sql)
	}
	_, err := Migrate(o.ctx, o.eu.db.URL, o.eu.db.Schema)
	o.must(err)
}

// owns reports whether a node gets the lease of an account.
func (o *oldLedger) owns(s *Store, id txn.SubmitterID) bool {
	o.t.Helper()
	l, err := s.AcquireOne(o.ctx, id)
	o.must(err)
	return l != nil
}

// TestMigrate_BackupOlderThanMoves_WaitsForDirectory: alice has left the ledger. It is restored
// from a backup of before migration 36, which an older node opened on a new timeline.
func TestMigrate_BackupOlderThanMoves_WaitsForDirectory(t *testing.T) {
	t.Parallel()
	const opened = "UPDATE ledger SET timeline_before = timeline, timeline = timeline + 1"
	for name, before := range map[string][]string{
		"joined": {opened},
		"not joined yet": {opened, "UPDATE submitter SET directory_no = NULL",
			"UPDATE ledger SET directory_no = NULL, ledger_name = NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOldLedger(t, true)
			o.exec(`INSERT INTO directory_move (move_id, submitter_id, name, from_no, to_no, resume,
				step, token, to_epoch)
				SELECT gen_random_uuid(), $1, 'alice', f.no, t.no, TRUE, 'DONE', 1, 1
				  FROM directory_ledger f, directory_ledger t
				 WHERE f.name = 'eu1' AND t.name = 'us1'`, int32(o.alice))
			o.upgraded(35, before...)
			directory := o.open("directory")
			s := o.eu.open("a", o.eu.asOwner, func(c *Config) { c.Directory = directory })
			for _, id := range []txn.SubmitterID{o.alice, o.bob} {
				if o.owns(s, id) {
					t.Errorf("submitter %d has an owner before the directory answered", id)
				}
			}
			if must, err := s.MustAskMoved(o.ctx); err != nil || !must {
				t.Errorf("must ask: %t %v", must, err)
			}
			if sealed, err := s.SealMoved(o.ctx); err != nil || len(sealed) != 1 {
				t.Errorf("sealed %v %v", sealed, err)
			}
			if o.owns(s, o.alice) || !o.owns(s, o.bob) {
				t.Error("after the answer, alice has an owner or bob has none")
			}
		})
	}
}

// TestMigrate_NodeRunsDuringRestore_WaitsForDirectory: a node that knows moves runs while its
// ledger is restored from a backup of before migration 36. It records itself there, and has asked
// nothing.
func TestMigrate_NodeRunsDuringRestore_WaitsForDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recorded int64 // at this schema
		knows    int64 // 0: that of this program
	}{
		"this program":                    {35, 0},
		"this program, while it migrates": {39, 0},
		"the program before migration 40": {35, 39},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOldLedger(t, true)
			directory := o.open("directory")
			s := o.eu.open("a", o.eu.asOwner, func(c *Config) { c.Directory = directory })
			cfg, err := url.Parse(o.eu.db.URL)
			o.must(err)
			q := cfg.Query()
			q.Set("timezone", "Etc/GMT+12") // behind that of the server
			cfg.RawQuery = q.Encode()
			at := cfg.String()
			o.must(withProvider(o.ctx, at, o.eu.db.Schema, true, func(p *goose.Provider) error {
				_, err := p.DownTo(o.ctx, 35)
				if err == nil && c.recorded > 35 {
					_, err = p.UpTo(o.ctx, c.recorded)
				}
				return err
			}))
			_, err = s.Heartbeat(o.ctx, []txn.ChainID{31337}, true)
			o.must(err)
			if c.knows != 0 {
				o.eu.exec("UPDATE node SET knows_schema = $1", c.knows)
			}
			_, err = Migrate(o.ctx, at, o.eu.db.Schema)
			o.must(err)
			if must, err := s.MustAskMoved(o.ctx); err != nil || !must {
				t.Errorf("must ask: %t %v", must, err)
			}
			if o.owns(s, o.alice) {
				t.Error("an account has an owner before the directory answered")
			}
		})
	}
}

// TestMigrate_MovesAsked_OthersContinue: a ledger that is in no directory, and one whose nodes have
// asked, need no answer after the upgrade.
func TestMigrate_MovesAsked_OthersContinue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		joined bool
		from   int64
		before string
	}{
		"no directory": {false, 35, "SELECT 1"},
		"nodes have asked": {true, 39, "INSERT INTO node (node_id, chain_ids, accepting, " +
			"expires_at, knows_schema) VALUES ('a/1', '{}', TRUE, clock_timestamp(), 39)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOldLedger(t, c.joined)
			o.upgraded(c.from, c.before)
			s := o.eu.open("a", o.eu.asOwner) // no directory responds
			if must, err := s.MustAskMoved(o.ctx); err != nil || must {
				t.Errorf("must ask: %t %v", must, err)
			}
			if !o.owns(s, o.alice) || !o.owns(s, o.bob) {
				t.Error("an account has no owner after the upgrade")
			}
		})
	}
}
