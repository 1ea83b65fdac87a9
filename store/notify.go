package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

const (
	// at most one NOTIFY of a node in this time: each takes a lock of the whole database at its
	// commit
	noticeEvery = 10 * time.Millisecond
	noticeLimit = 2 * time.Second // for one, connecting included
	maxPayload  = 7900            // bytes; the server takes less than 8000
	look        = "look"          // in place of names
)

// notices are the wake-ups for other nodes that wait to be sent.
type notices struct {
	s *Store

	mu      sync.Mutex
	heard   bool // Listen was called: this node takes part
	closed  bool
	ids     map[txn.SubmitterID]struct{}
	look    bool
	sending bool
	running sync.WaitGroup
	closing chan struct{}
}

func newNotices(s *Store) *notices {
	return &notices{s: s, ids: map[txn.SubmitterID]struct{}{}, closing: make(chan struct{})}
}

// Notify wakes the other nodes: these submitters, or, without ids, any submitter may have work. It
// returns at once; calls within 10 ms are sent as one message. It never runs inside another
// statement, because it takes a lock of the whole database. On a store that has never called Listen
// it does nothing.
func (s *Store) Notify(ids ...txn.SubmitterID) {
	n := s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.heard || n.closed {
		return
	}
	for _, id := range ids {
		n.ids[id] = struct{}{}
	}
	if len(ids) == 0 || len(n.ids) > maxWoken {
		n.look = true
	}
	if !n.sending {
		n.sending = true
		n.running.Go(n.sendAll)
	}
}

// close sends the waiting messages: the last message of a stopping node is that its submitters are
// free.
func (n *notices) close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.closing)
	}
	n.mu.Unlock()
	n.running.Wait()
}

func (n *notices) sendAll() {
	for {
		ids, all, some := n.take()
		if !some {
			return
		}
		n.send(ids, all)
		pause := n.s.clock.NewTimer(noticeEvery)
		select {
		case <-pause.C:
		case <-n.closing:
		}
		pause.Stop()
	}
}

// take empties the waiting messages; nothing ends the sender.
func (n *notices) take() (ids []txn.SubmitterID, all, some bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.ids) == 0 && !n.look {
		n.sending = false
		return nil, false, false
	}
	for id := range n.ids {
		ids = append(ids, id)
	}
	all = n.look
	clear(n.ids)
	n.look = false
	slices.Sort(ids)
	return ids, all, true
}

func (n *notices) send(ids []txn.SubmitterID, all bool) {
	ctx, cancel := context.WithTimeout(context.Background(), noticeLimit)
	defer cancel()
	_, err := n.s.notifyConn.run(ctx, 2*noticeLimit, func(conn *pgx.Conn, q *db.Queries) error {
		channel, err := n.s.channel(ctx, conn)
		if err != nil {
			return err
		}
		return q.Notify(ctx,
			db.NotifyParams{Channel: channel, Payload: notice(n.s.cfg.Node, ids, all)})
	})
	if err != nil {
		n.s.log.Debug("waking other nodes failed; polling covers it", "submitters",
			len(ids), "cause", describeError(err))
	}
}

// notice is the text of a wake-up: who sends it, and for whom.
func notice(node string, ids []txn.SubmitterID, all bool) string {
	words := make([]string, 0, len(ids)+1)
	if all || len(ids) == 0 {
		words = append(words, look)
	}
	for _, id := range ids {
		words = append(words, strconv.Itoa(int(id)))
	}
	text := node + "\n" + strings.Join(words, " ")
	if len(text) > maxPayload {
		return node + "\n" + look
	}
	return text
}

// parseNotice reads the text of a wake-up. A text that it does not understand wakes everything.
func parseNotice(text string) (node string, ids []txn.SubmitterID, all bool) {
	at := strings.LastIndexByte(text, '\n')
	if at < 0 {
		return "", nil, true
	}
	for word := range strings.FieldsSeq(text[at+1:]) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			all = true
			continue
		}
		ids = append(ids, txn.SubmitterID(id))
	}
	return text[:at], ids, all
}

// channel is the channel of this ledger's nodes. It has the name of the schema in the database,
// because a channel belongs to the whole database.
func (s *Store) channel(ctx context.Context, conn *pgx.Conn) (string, error) {
	schema := s.cfg.Schema
	if schema == "" {
		var err error
		if schema, err = db.New(conn).CurrentSchema(ctx); err != nil {
			return "", err
		}
	}
	return channelOf(schema), nil
}

// maxName is the length of an identifier in PostgreSQL.
const maxName = 63

func channelOf(schema string) string {
	name := "fencepost_" + schema
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(schema))
	return "fencepost_" + hex.EncodeToString(sum[:16])
}

// hasten lets a session answer before its commits are on disk: a NOTIFY writes a commit of its own,
// and losing it costs nothing that waiting for the disk would save.
func hasten(cfg *pgx.ConnConfig) {
	verified := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := verified(ctx, conn); err != nil {
			return err
		}
		result := conn.ExecParams(ctx, "SET synchronous_commit = off", nil, nil, nil, nil)
		_, err := result.Close()
		return err
	}
}

const (
	listenProbe   = 3 * time.Second // silence after which the connection is asked whether it lives
	listenBackoff = 100 * time.Millisecond
	listenRest    = 3 * time.Second // longest wait between two tries to connect
)

// Listen receives the wake-ups of other nodes until ctx ends: see TakeWoken. It survives the loss
// of the database. Wake-ups that were lost without a connection are covered by a full check after
// each new connection.
func (s *Store) Listen(ctx context.Context) {
	s.notices.mu.Lock()
	s.notices.heard = true
	s.notices.mu.Unlock()
	wait := listenBackoff
	for ctx.Err() == nil {
		heard, err := s.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			wait = listenBackoff
		}
		s.log.Debug("connection for wake-ups lost; reconnecting", "wait", wait,
			"cause", describeError(err))
		pause := s.clock.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		wait = min(2*wait, listenRest)
	}
}

// listen is Listen on one connection. connected reports whether there was one.
func (s *Store) listen(ctx context.Context) (connected bool, err error) {
	cfg, err := s.session("listen", noticeLimit, noticeLimit)
	if err != nil {
		return false, err
	}
	hasten(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeLimit)
		defer cancel()
		_ = conn.Close(limited)
	}()
	limited, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	channel, err := s.channel(limited, conn)
	if err != nil {
		return false, err
	}
	if _, err := conn.Exec(limited, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return false, err
	}
	s.wakes.wakeAll()
	return true, s.hear(ctx, conn)
}

// hear receives notifications. It detects a peer that vanished silently by a query now and then.
func (s *Store) hear(ctx context.Context, conn *pgx.Conn) error {
	for {
		limited, cancel := context.WithTimeout(ctx, listenProbe)
		n, err := conn.WaitForNotification(limited)
		cancel()
		switch {
		case err == nil:
			s.hearOne(n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			limited, cancel := context.WithTimeout(ctx, noticeLimit)
			err := conn.Ping(limited)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

func (s *Store) hearOne(payload string) {
	node, ids, all := parseNotice(payload)
	if node == s.cfg.Node {
		return
	}
	if all {
		s.wakes.wakeAll()
	}
	if len(ids) > 0 {
		s.wakes.hear(ids...)
	}
}
