package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }

// patience bounds the wait for a condition. Only a failing test waits that long.
const patience = 20 * time.Second

// kit is one ledger and the means to play with it.
type kit struct {
	t   testing.TB
	ctx context.Context
	db  *dbtest.DB
}

func newKit(t testing.TB, opts ...dbtest.Option) *kit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	return &kit{t: t, ctx: ctx, db: dbtest.New(t, opts...)}
}

// asOwner makes a store work as the owner of the ledger, as the commands do that migrate and
// recover.
func (k *kit) asOwner(c *Config) { c.URL = k.db.URL }

// open makes a store of a node of its own.
func (k *kit) open(node string, tweaks ...func(*Config)) *Store {
	k.t.Helper()
	cfg := Config{
		URL:           k.db.NodeURL,
		Schema:        k.db.Schema,
		Node:          node + "/boot",
		LeaseDuration: 6 * time.Second,
	}
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	s, err := Open(k.ctx, cfg)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(s.Close)
	return s
}

func (k *kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) exec(sql string, args ...any) {
	k.t.Helper()
	_, err := k.db.Pool.Exec(k.ctx, sql, args...)
	k.must(err)
}

// value reads one value.
func value[T any](k *kit, sql string, args ...any) (v T) {
	k.t.Helper()
	k.must(k.db.Pool.QueryRow(k.ctx, sql, args...).Scan(&v))
	return v
}

// session is a connection of its own within the schema, as a node has it.
func (k *kit) session() *pgx.Conn {
	k.t.Helper()
	conn, err := pgx.Connect(k.ctx, k.db.ScopedNodeURL())
	k.must(err)
	k.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// proxy stands between a store and the server.
func (k *kit) proxy() *pgproxy.Proxy {
	k.t.Helper()
	p, err := pgproxy.Start(k.db.NodeURL)
	k.must(err)
	k.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			k.t.Error(err)
		}
	})
	return p
}

func (k *kit) submitter(s *Store, name string) txn.SubmitterID {
	k.t.Helper()
	var a txn.Address
	copy(a[:], name)
	info, _, err := s.Register(
		k.ctx,
		Registration{
			Name:      name,
			Chain:     31337,
			Address:   a,
			Signer:    "local",
			Mode:      txn.Strict,
			StartFrom: "0",
		},
	)
	k.must(err)
	return info.ID
}

// owned is a submitter with its lease and a cursor at 0.
func (k *kit) owned(s *Store, name string) (txn.SubmitterID, *Lease) {
	k.t.Helper()
	id := k.submitter(s, name)
	l := k.lease(s, id)
	k.done(s, l, txn.Change{Init: &txn.CursorInit{Block: 7, BlockHash: hashOf(7)}})
	return id, l
}

func (k *kit) lease(s *Store, id txn.SubmitterID) *Lease {
	k.t.Helper()
	l, err := s.AcquireOne(k.ctx, id)
	k.must(err)
	if l == nil {
		k.t.Fatalf("the lease of submitter %d is held by another", id)
	}
	return l
}

func (k *kit) queue(s *Store, id txn.SubmitterID, request string) txn.Tx {
	k.t.Helper()
	info, _, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: request, Payload: payload(request)})
	k.must(err)
	return info.Tx
}

// lapse makes a lease older than it is.
func (k *kit) lapse(id txn.SubmitterID) {
	k.t.Helper()
	k.exec(
		"UPDATE submitter_lease SET expires_at = clock_timestamp() - INTERVAL '1 second' WHERE "+
			"submitter_id = $1",
		id)
}

func (k *kit) commit(s *Store, l *Lease, c txn.Change) Outcome {
	k.t.Helper()
	o, err := s.Commit(l, c)
	if (err == nil) != (o == Done) {
		k.t.Fatalf("outcome %v comes with error %v", o, err)
	}
	k.t.Logf("commit: %v %v", o, err)
	return o
}

func (k *kit) done(s *Store, l *Lease, c txn.Change) {
	k.t.Helper()
	if o, err := s.Commit(l, c); o != Done {
		k.t.Fatalf("outcome %v (%v), want done", o, err)
	}
}

func (k *kit) want(got, want Outcome) {
	k.t.Helper()
	if got != want {
		k.t.Fatalf("outcome %v, want %v", got, want)
	}
}

// eventually waits until a condition holds.
func (k *kit) eventually(what string, holds func() bool) {
	k.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(3 * patience) // other tests may hold an old snapshot for long
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			k.t.Fatalf("%s did not come about within %v", what, 3*patience)
		}
	}
}

// vacuum waits until all pages of the tables are marked all-visible: while a concurrent test holds
// an old snapshot, the rest is read from the table too.
func (k *kit) vacuum(tables ...string) {
	k.t.Helper()
	for _, table := range tables {
		k.eventually(table+" is visible to all", func() bool {
			k.exec("VACUUM ANALYZE " + table)
			return value[bool](k,
				"SELECT relallvisible = relpages FROM pg_class WHERE oid = $1::REGCLASS", table)
		})
	}
}

// waiting waits until a session of the role waits for a lock.
func (k *kit) waiting(s *Store, role string) {
	k.t.Helper()
	name := "fencepost/" + role + "/" + s.nodes
	k.eventually(name+" waits for a lock", func() bool {
		return value[int](
			k,
			`SELECT count(*) FROM pg_stat_activity a
			  WHERE a.application_name = $1 AND a.wait_event_type = 'Lock'
			    AND EXISTS (SELECT FROM pg_locks l
			                  JOIN pg_class c ON c.oid = l.relation
			                 WHERE l.pid = a.pid AND c.relnamespace = $2::TEXT::REGNAMESPACE)`,
			name,
			k.db.Schema,
		) > 0
	})
}

func payload(text string) txn.Payload {
	to := txn.Address{1, 2, 3}
	p := txn.Payload{To: &to, Data: []byte(text)}
	p.Value.SetUint64(12345)
	return p
}

func hashOf(parts ...any) (h txn.Hash) {
	p := txn.Payload{Data: fmt.Append(nil, parts...)}
	return p.Hash()
}

func ptr[T any](v T) *T { return &v }

// The moves that tests make.

// move is the plain write of a move; the caller adds the special fields.
func move(tx txn.Tx, kind txn.Kind, to txn.State) txn.Write {
	next := tx.Status
	next.State, next.Version = to, tx.Version+1
	return txn.Write{Tx: tx.ID, Version: tx.Version, From: tx.State, Kind: kind, Next: next}
}

func attempt(tx txn.Tx, nonce txn.Nonce, no int) *txn.Attempt {
	a := &txn.Attempt{
		No:       no,
		Kind:     txn.Original,
		Nonce:    nonce,
		Hash:     hashOf(tx.ID, nonce, no),
		GasLimit: 21000,
	}
	a.Raw = binary.BigEndian.AppendUint64(a.Hash.Bytes(), uint64(nonce))
	a.Fees.Cap.SetUint64(2_000_000_000)
	a.Fees.Tip.SetUint64(1_000_000_000)
	return a
}

func allocation(tx txn.Tx, nonce txn.Nonce) txn.Write {
	w := move(tx, txn.EventAllocated, txn.Allocated)
	w.Next.Sub, w.Next.Nonce = txn.None, &nonce
	w.Attempt = attempt(tx, nonce, 1)
	w.Next.TxHash = w.Attempt.Hash
	return w
}

func take(tx txn.Tx, nonce txn.Nonce) txn.Change {
	return txn.Change{Take: &txn.Take{Nonce: nonce}, Writes: []txn.Write{allocation(tx, nonce)}}
}

func submitted(tx txn.Tx) txn.Write {
	w := move(tx, txn.EventSubmitted, txn.Tracking)
	w.Next.Sub = txn.Pending
	w.Next.SubmitAttempts = 1
	w.Delay = time.Minute
	return w
}

func included(tx txn.Tx, block uint64) txn.Write {
	w := move(tx, txn.EventIncluded, txn.Tracking)
	w.Next.Sub, w.Next.Released = txn.Included, true
	w.Next.Receipt = &txn.Receipt{
		TxHash:      tx.TxHash,
		BlockNumber: block,
		BlockHash:   hashOf(block),
		Success:     true,
		GasUsed:     21000,
	}
	w.Next.Receipt.EffectiveGasPrice.SetUint64(1_500_000_000)
	return w
}

func confirmed(tx txn.Tx) txn.Write {
	w := move(tx, txn.EventConfirmed, txn.Confirmed)
	w.Next.Executed, w.Next.Sub = txn.Success, txn.None
	w.Next.Released = true
	return w
}

func failed(tx txn.Tx, reason string) txn.Write {
	w := move(tx, txn.EventFailed, txn.Failed)
	w.Next.Executed, w.Next.Sub = txn.No, txn.None
	w.Next.Reason = reason
	return w
}

// after is a transaction as it is once a write is done.
func after(tx txn.Tx, w txn.Write) txn.Tx {
	tx.Status = w.Next
	if w.Attempt != nil {
		tx.Attempts = append(tx.Attempts, *w.Attempt)
	}
	return tx
}

func noSecrets(t testing.TB, err error, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if err != nil && strings.Contains(err.Error(), s) {
			t.Errorf("the error tells %q: %v", s, err)
		}
	}
}

func isUnavailable(err error) bool { return errors.Is(err, ErrUnavailable) }

// writeTap keeps the written bytes.
type writeTap struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (w *writeTap) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.writes = append(w.writes, bytes.Clone(b))
	w.mu.Unlock()
	return w.Conn.Write(b)
}

// explain asks for the plan of each query before it runs it.
type explain struct {
	db.DBTX
	t    testing.TB
	plan string
}

func (e *explain) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.DBTX.Query(ctx, "EXPLAIN (COSTS OFF) "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	e.plan += strings.Join(lines, "\n")
	return e.DBTX.Query(ctx, sql, args...)
}

func (e *explain) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if rows, err := e.Query(ctx, sql, args...); err != nil {
		e.t.Error(err)
	} else {
		rows.Close()
	}
	return e.DBTX.QueryRow(ctx, sql, args...)
}

// textTap keeps the text of a query and the number of its parameters.
type textTap struct {
	db.DBTX
	sql  string
	args int
}

func (t *textTap) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	t.sql, t.args = sql, len(args)
	return t.DBTX.Query(ctx, sql, args...)
}

func (t *textTap) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	t.sql, t.args = sql, len(args)
	return t.DBTX.QueryRow(ctx, sql, args...)
}

// kept is the plan that a session keeps for the intercepted query, for any parameters.
func (t *textTap) kept(k *kit) string {
	k.t.Helper()
	conn := k.session()
	_, err := conn.Exec(k.ctx, "SET plan_cache_mode = force_generic_plan")
	k.must(err)
	_, err = conn.Prepare(k.ctx, "tapped", t.sql)
	k.must(err)
	rows, err := conn.Query(k.ctx,
		"EXPLAIN (COSTS OFF) EXECUTE tapped ("+strings.Repeat("NULL, ", t.args-1)+"NULL)")
	k.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	k.must(err)
	return strings.Join(lines, "\n")
}

func containsText(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}
