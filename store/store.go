// Package store is the ledger, and the only package that speaks SQL.
//
// # The fence
//
// For each submitter one node at a time may write. The right is a [Lease]: a row with an owner, an
// expiry and a fencing token that rises with every acquisition. A write to the ledger is a
// [txn.Change], and the one statement that carries it (queries/fenced/commit.sql) begins by locking
// the lease row FOR KEY SHARE under its token. The lock is held until the commit. A takeover
// changes the token, which a unique index makes a key column. So it waits for the lock, or it is
// first, and then the statement finds no row and writes nothing. Correctness depends on no clock:
// expiry, which only the database's clock decides, only determines when another node may try. A
// renewal does not change the token and never waits.
//
// # Answers
//
// A change is done completely or not at all, and every outcome has a name (see [Outcome]): Done;
// Fenced, when the lease is gone; Conflict, when the ledger differs from the change's expectation;
// Unsettled, when the reply was lost. Refused means that the database rejects this change itself,
// and Unreached that nothing was written for lack of a database. A server's ERROR means that
// nothing of its statement was done. If the connection ends after a byte was sent, the outcome is
// unknown: the count of bytes decides, not the driver (see wire). The lease of an unsettled change
// is spent, and acquiring it again waits for the old statement.
//
// # Groups
//
// While one fenced statement is running, the changes of other submitters gather, and are sent as
// one statement when it has finished: one round trip and one flush to disk for all. With more
// connections for them ([Config.CommitConns]), each carries the changes of its own submitters. When
// the
// database rejects a group, a second connection finds the faulty change by halving, and the rest of
// the node continues meanwhile. CreateTx shares statements in the same way. A fenced statement is
// never cancelled by a context; Bind, Execute and Sync leave in one write, because a client that
// stops between Execute and Sync would keep its locks for as long as it is stopped. A takeover that
// waits longer than a third of a lease terminates the session that it waits for.
//
// # Connections
//
// Callers, owners, and acquisitions have a pool each; renewals (with releases and heartbeats),
// fenced statements, and wake-ups of other nodes a connection each of their own: no load of one
// starves another. Every session carries its time limits on the server's side. All connect lazily,
// so that a node starts and runs without its database, and finds it again.
//
// # Many nodes
//
// Each node records that it is live in a table, once per heartbeat ([Store.Heartbeat]). This only
// decides which node acquires sooner. A node that wrote an intent for a submitter of another owner
// wakes the others by NOTIFY ([Store.Notify], [Store.Listen]). A wake-up carries ids at most, no
// data, and may be lost: polling covers that.
//
// # Operators
//
// [Store.Audit] reads the ledger against its own laws. A number that the sequence of a submitter
// passes over is in nonce_gap, put there by an operator's decision and by nothing else.
// [Store.Recover] is for a ledger that lost commits: it spends every lease, stops every submitter
// and voids every resume token.
//
// # Events
//
// Each move writes its event in the same statement. Commits finish out of order, so the feed is
// read by snapshots and not by a number that rises: see [Position].
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store/internal/db"
)

// Config is the location of the ledger and the limits of its use.
type Config struct {
	// of the database itself, not of a pooler that shares sessions; several hosts and
	// target_session_attrs are understood
	URL    string
	Schema string // search_path; empty is the database's default
	Keys   Keys   // of both in the configuration
	// owner_node of the leases: "name/boot-uuid", another with each start of a process
	Node string

	LeaseDuration time.Duration // 0: 10 s
	// of fenced statements, on the server's side; 0: a quarter of LeaseDuration. Below a third of
	// it
	StatementTimeout time.Duration
	// in one fenced statement; a grouped insert holds four times as many transactions. 0: 256
	MaxGroupChanges int
	// of one fenced statement, so that it fits the socket's buffer; 0: 128 KiB. A larger change
	// goes alone
	MaxGroupBytes int
	APIConns      int // pool of callers; 0: 8
	// transactions that may wait for one submitter; 0: no limit. See quota for how exact it is
	MaxQueued      int
	MaxQueuedTotal int // transactions that may wait in all; 0: no limit
	OwnerConns     int // pool of owners: loads, inboxes, sweeps; 0: 4
	// fenced statements that may run at the same time, each of other submitters; 0: 1
	CommitConns int

	Directory *Store // of several ledgers, asked before a submitter is registered; nil: none

	IntentKey []byte // of the authentication codes of new intents; empty: they have none

	// work on the ledger wherever it was copied to; for Recover and Move alone
	Adopts bool

	// makes every connection; nil: the net package's
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger // nil: none
	// nil: the machine's
	Clock clock.Clock
}

const (
	connectLimit = 5 * time.Second  // of one attempt to connect, unless the URL sets less
	readLimit    = 10 * time.Second // of a caller's statement, on the server's side
	// acquisitions at the same time, of which the engine lets two wait for a commit
	takerConns = 4
	// of readers that are behind; each holds one for the time of a page
	pageConns = 2
)

// complete sets the defaults and checks the relations of the values.
func (c Config) complete() (Config, error) {
	if c.Node == "" || len(c.Node) > 255 {
		return c, fmt.Errorf("node must be 1 to 255 characters, is %d", len(c.Node))
	}
	def(&c.LeaseDuration, 10*time.Second)
	def(&c.StatementTimeout, c.LeaseDuration/4)
	def(&c.MaxGroupChanges, 256)
	def(&c.MaxGroupBytes, 128<<10)
	def(&c.APIConns, 8)
	def(&c.OwnerConns, 4)
	def(&c.CommitConns, 1)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.Real{}
	}
	switch {
	case c.LeaseDuration < 10*time.Millisecond:
		return c, fmt.Errorf("lease duration must be at least 10ms, is %v", c.LeaseDuration)
	case c.StatementTimeout < time.Millisecond || c.StatementTimeout*3 >= c.LeaseDuration:
		return c, fmt.Errorf(
			"statement timeout must be at least 1ms and below a third of the lease duration "+
				"(%v), is %v",
			c.LeaseDuration, c.StatementTimeout)
	case c.MaxGroupChanges < 1 || c.MaxGroupBytes < 1 || c.APIConns < 1 || c.OwnerConns < 1 ||
		c.CommitConns < 1:
		return c, errors.New("group limits and pool sizes must be at least 1")
	case c.MaxQueued < 0 || c.MaxQueuedTotal < 0:
		return c, errors.New("limits of queues must be at least 1, or 0 for none")
	}
	return c, nil
}

func def[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// Store is the ledger as one node uses it. Its methods are safe for concurrent use.
type Store struct {
	cfg   Config
	log   *slog.Logger
	clock clock.Clock
	nodes string // the stable part of the node's name, for application_name

	api        *pgxpool.Pool
	owner      *pgxpool.Pool
	taker      *pgxpool.Pool  // acquisitions: AcquireOne may wait for long
	tail       *pgxpool.Pool  // see TailFeed
	pages      *pgxpool.Pool  // see EventsSince
	renew      *dedicatedConn // and releases, and heartbeats
	lanes      []*lane        // fenced statements
	retryConn  *dedicatedConn // those that failed, in parts
	notifyConn *dedicatedConn // wake-ups of other nodes

	creates *combiner[*createJob]
	asks    *combiner[*askJob]  // requests about the nonces of clients
	helds   *combiner[*heldJob] // reads of nonces of clients
	waits   *nonceWaits         // calls that wait for their results
	quota   *quota

	usageOpen sync.Map // of usageKey: callers whose use of quotas has a row

	wakes   *wakes
	notices *notices
	lookups lookups
	pools   *pools
	settled settledHead
	same    sameServer

	cappedAt atomic.Int64 // local time of the last capLeases, in ns; 0: never
}

// Open makes a store. It asks nothing of the database, which may be down: see [Store.CheckSchema].
func Open(_ context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	s := &Store{
		cfg:     cfg,
		log:     cfg.Logger,
		clock:   cfg.Clock,
		wakes:   newWakes(),
		waits:   newNonceWaits(),
		settled: settledHead{mu: make(turn, 1)},
	}
	s.nodes, _, _ = strings.Cut(cfg.Node, "/")
	if err := s.connect(); err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	s.pools = newPools()
	s.notices, s.quota = newNotices(s), newQuota(cfg.MaxQueued, cfg.MaxQueuedTotal)
	s.creates = newCombiner(
		limits{
			items:       createsPerChange * cfg.MaxGroupChanges,
			bytes:       maxCreateBytes,
			outstanding: maxOutstanding,
			held:        maxHeldCreates,
		},
		s.sendCreates,
		s.refuseCreate,
	)
	s.asks = newCombiner(
		limits{
			items:       createsPerChange * cfg.MaxGroupChanges,
			bytes:       maxCreateBytes,
			outstanding: maxOutstanding,
			held:        maxHeldCreates,
		},
		s.sendAsks,
		s.refuseAsk,
	)
	s.helds = newCombiner(
		limits{
			items:       createsPerChange * cfg.MaxGroupChanges,
			bytes:       maxCreateBytes,
			outstanding: maxOutstanding,
		},
		s.sendHeld,
		s.refuseHeld,
	)
	return s, nil
}

// connect lays out the connections, none of which is made yet. Two limits belong to each: how long
// a statement may run, and how long it may wait for a lock.
func (s *Store) connect() (err error) {
	lease, fenced := s.cfg.LeaseDuration, s.cfg.StatementTimeout
	if s.api, err = s.newPool("api", readLimit, fenced, s.cfg.APIConns); err != nil {
		return err
	}
	// An owner asks for a few rows of each of its submitters. A plan that was made when the ledger
	// was small, and read it whole, would be kept while it grows.
	s.owner, err = s.newPool("owner", lease, fenced, s.cfg.OwnerConns, "enable_seqscan")
	if err != nil {
		return err
	}
	if s.taker, err = s.newPool("taker", lease, lease*2/3, takerConns); err != nil {
		return err
	}
	// So do readers of the feed, of each event. They also need its order: a plan that sorts,
	// because few events were there, would sort a whole backlog for each page.
	inOrder := []string{"enable_seqscan", "enable_bitmapscan"}
	if s.tail, err = s.newPool("tail", readLimit, fenced, 1, inOrder...); err != nil {
		return err
	}
	s.pages, err = s.newPool("pages", readLimit, fenced, pageConns, inOrder...)
	if err != nil {
		return err
	}
	renew, err := s.session("renew", lease/3, lease/4)
	if err != nil {
		return err
	}
	commit, err := s.session("commit", fenced, fenced*3/4)
	if err != nil {
		return err
	}
	planFenced(commit)
	notify, err := s.session("notify", noticeLimit, noticeLimit)
	if err != nil {
		return err
	}
	hasten(notify)
	s.renew = newDedicatedConn(s, renew, nil)
	s.notifyConn = newDedicatedConn(s, notify, nil)
	s.retryConn = newDedicatedConn(s, commit, prepareCommit)
	for range s.cfg.CommitConns {
		s.lanes = append(s.lanes, s.newLane(commit))
	}
	return nil
}

// Close waits for the running statements and ends all connections. Later calls return the same
// errors as without a database.
func (s *Store) Close() {
	for _, l := range s.lanes {
		l.commits.close()
		l.nonces.close()
	}
	s.creates.close()
	s.asks.close()
	s.helds.close()
	s.waits.close()
	s.notices.close()
	for _, l := range s.lanes {
		l.conn.close()
	}
	for _, c := range []*dedicatedConn{s.retryConn, s.renew, s.notifyConn} {
		c.close()
	}
	for _, p := range []*pgxpool.Pool{s.api, s.owner, s.taker, s.tail, s.pages} {
		p.Close()
	}
}

// read is for callers' statements.
func (s *Store) read() *db.Queries { return db.New(s.api) }

// own is for owners' statements that need no fence.
func (s *Store) own() *db.Queries { return db.New(s.owner) }
