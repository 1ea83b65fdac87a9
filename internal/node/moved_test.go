package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// cutLine is the way to a database, which a test cuts.
type cutLine struct {
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func (l *cutLine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the database is away")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.open = append(l.open, conn)
	}
	return conn, err
}

func (l *cutLine) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; !cut {
		return
	}
	for _, conn := range l.open {
		_ = conn.Close()
	}
	l.open = nil
}

// sharedLog is a log that a test reads while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// movedKit is a ledger "eu1" with the accounts alice and bob, and a directory that is in the
// database of the ledger "us1".
type movedKit struct {
	t          *testing.T
	eu, us     *dbtest.DB
	line       *cutLine // from the node to the directory
	log        *sharedLog
	alice, bob txn.SubmitterID
	*ledger
}

func newMovedKit(t *testing.T) *movedKit {
	t.Helper()
	k := &movedKit{t: t, eu: dbtest.New(t), us: dbtest.New(t), line: &cutLine{}, log: &sharedLog{}}
	for db, name := range map[*dbtest.DB]string{k.eu: "eu1", k.us: "us1"} {
		own := k.open(db, store.Config{URL: db.URL,
			Directory: k.open(k.us, store.Config{URL: k.us.URL})})
		_, err := own.JoinDirectory(t.Context(), name)
		k.must(err)
	}
	directory := k.open(k.us, store.Config{URL: k.us.NodeURL, Dial: k.line.dial})
	cfg := &config.Config{Chains: []config.Chain{{Name: "one", ChainID: 1}}}
	cfg.Directory.URL = config.NewSecret(k.us.NodeURL)
	k.ledger = &ledger{cfg: cfg, log: slog.New(slog.NewTextHandler(k.log, nil)),
		store: k.open(k.eu, store.Config{URL: k.eu.NodeURL, Directory: directory})}
	for i, id := range []*txn.SubmitterID{&k.alice, &k.bob} {
		is, _, err := k.store.Register(t.Context(), registration(cfg, config.Submitter{
			Name: []string{"alice", "bob"}[i], Chain: "one", Signer: "local", StartFrom: "0",
			Address: [20]byte{byte(i + 1)}}))
		k.must(err)
		*id = is.ID
	}
	return k
}

func (k *movedKit) open(db *dbtest.DB, c store.Config) *store.Store {
	k.t.Helper()
	c.Schema, c.Node = db.Schema, "a/1"
	s, err := store.Open(k.t.Context(), c)
	k.must(err)
	k.t.Cleanup(s.Close)
	return s
}

func (k *movedKit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *movedKit) exec(db *dbtest.DB, text string, args ...any) {
	k.t.Helper()
	_, err := db.Pool.Exec(k.t.Context(), text, args...)
	k.must(err)
}

// aliceLeft records that alice left the ledger, which has lost the tombstone in a fail-over.
func (k *movedKit) aliceLeft() {
	k.t.Helper()
	k.exec(k.us, `INSERT INTO directory_move (move_id, submitter_id, name, from_no, to_no, resume,
		step, token, to_epoch)
		SELECT gen_random_uuid(), $1, 'alice', f.no, t.no, TRUE, 'DONE', 1, 1
		  FROM directory_ledger f, directory_ledger t
		 WHERE f.name = 'eu1' AND t.name = 'us1'`, int32(k.alice))
	k.exec(k.eu, "UPDATE ledger SET moves_timeline = timeline - 1")
}

// checkAnswered reaches the directory again: bob gets an owner, and alice, who left, gets none.
func (k *movedKit) checkAnswered() {
	k.t.Helper()
	k.line.set(false)
	k.await("bob has an owner", func() bool { return k.owns(k.bob) })
	if k.owns(k.alice) {
		k.t.Error("an account that left has an owner")
	}
	k.await("alice is in the log", func() bool { return k.log.has("submitter=alice") })
}

// owns acquires the lease of an account.
func (k *movedKit) owns(id txn.SubmitterID) bool {
	k.t.Helper()
	l, err := k.store.AcquireOne(k.t.Context(), id)
	k.must(err)
	return l != nil
}

// await waits for a condition.
func (k *movedKit) await(what string, holds func() bool) {
	k.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(3 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			k.t.Fatalf("did not happen: %s", what)
		}
	}
}

// TestSealMoved_FailOver_NoLeaseBeforeAnswer: the ledger of a running node fails over while the
// directory is away. The node owns no account until the directory answers, and then all but the one
// that left.
func TestSealMoved_FailOver_NoLeaseBeforeAnswer(t *testing.T) {
	t.Parallel()
	k := newMovedKit(t)
	k.must(k.sealMoved(t.Context()))
	for _, id := range []txn.SubmitterID{k.alice, k.bob} {
		if !k.owns(id) {
			t.Fatalf("submitter %d has no owner before the fail-over", id)
		}
	}
	k.line.set(true)
	k.aliceLeft()
	k.await("a question to the directory fails", func() bool { return k.log.has("retrying") })
	for _, id := range []txn.SubmitterID{k.alice, k.bob} {
		if k.owns(id) {
			t.Errorf("submitter %d has an owner before the directory answered", id)
		}
	}
	k.checkAnswered()
}

// TestSealMoved_OlderThanJoin_NoLeaseBeforeAnswer: the ledger was restored to before it joined the
// directory, which is away at the start.
func TestSealMoved_OlderThanJoin_NoLeaseBeforeAnswer(t *testing.T) {
	t.Parallel()
	k := newMovedKit(t)
	k.line.set(true)
	k.aliceLeft()
	k.exec(k.eu, "UPDATE submitter SET directory_no = NULL")
	k.exec(k.eu, "UPDATE ledger SET directory_no = NULL, ledger_name = NULL")
	k.must(k.sealMoved(t.Context()))
	if k.owns(k.alice) || k.owns(k.bob) {
		t.Error("an account has an owner before the directory answered")
	}
	k.checkAnswered()
}

// TestSealMoved_AtStart: a start waits for the directory only if the ledger failed over, and ends
// if the role has no rights.
func TestSealMoved_AtStart(t *testing.T) {
	t.Parallel()
	k := newMovedKit(t)
	k.line.set(true)
	k.aliceLeft()
	k.must(k.sealMoved(t.Context()))
	if k.owns(k.alice) || k.owns(k.bob) {
		t.Error("an account has an owner before the directory answered")
	}
	k.line.set(false)
	k.await("bob has an owner", func() bool { return k.owns(k.bob) })
	k.exec(k.us, `DO $$ BEGIN EXECUTE format('REVOKE ALL ON directory_move FROM %I',
		(SELECT grantee FROM information_schema.role_table_grants
		  WHERE table_schema = current_schema AND table_name = 'directory_move'
		    AND grantee <> current_user LIMIT 1)); END $$`)
	if err := k.sealMoved(t.Context()); !errors.Is(err, store.ErrNoRights) {
		t.Errorf("without rights: %v", err)
	}
}
