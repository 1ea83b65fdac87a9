package store

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
)

// dedicatedConn is one connection for one kind of statement. It is made when it is first needed and
// again after it broke. One statement runs on it at a time.
type dedicatedConn struct {
	s       *Store
	cfg     *pgx.ConnConfig
	prepare func(context.Context, *pgx.Conn) error // nil: nothing to prepare

	mu     turn
	conn   *pgx.Conn
	wire   *wire
	made   time.Time
	used   time.Time // when the last statement ended
	closed bool
}

// idleLimit is how long a connection may have done nothing and still be trusted. A server that went
// away meanwhile would leave the outcome of the next statement unknown, although it never got
// there.
const idleLimit = time.Second

// ageLimit ends a connection together with the plans that it keeps: they were made for the ledger
// as it was then.
const ageLimit = 10 * time.Minute

func newDedicatedConn(s *Store, cfg *pgx.ConnConfig,
	prepare func(context.Context, *pgx.Conn) error) *dedicatedConn {
	return &dedicatedConn{s: s, cfg: cfg, prepare: prepare, mu: make(turn, 1)}
}

// run executes statements and returns their outcome. ctx bounds waiting for others, connecting, and
// the statements unless they ignore it. A watchdog closes the connection when no reply has arrived
// for longer than the server itself allows.
func (l *dedicatedConn) run(ctx context.Context, limit time.Duration,
	statement func(*pgx.Conn, *db.Queries) error) (commitOutcome, error) {
	if err := l.mu.LockUntil(ctx); err != nil {
		return nothing, err
	}
	defer l.mu.Unlock()
	conn, err := l.connected(ctx)
	if err != nil {
		return nothing, err
	}
	before := l.wire.written.Load()
	unwatch := l.watch(l.wire, limit)
	err = statement(conn, db.New(conn))
	unwatch()
	l.used = l.s.clock.Now()
	outcome := judge(err, l.wire.written.Load() != before)
	if outcome == nothing || outcome == outcomeUnknown || conn.IsClosed() {
		l.drop()
	}
	return outcome, err
}

func (l *dedicatedConn) connected(ctx context.Context) (*pgx.Conn, error) {
	if l.closed {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, 2*connectLimit)
	defer cancel()
	if l.alive(ctx) {
		return l.conn, nil
	}
	l.drop()
	cfg := l.cfg.Copy()
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newWire(conn, l.s.cfg.MaxGroupBytes), nil
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	registerCodecs(conn.TypeMap())
	l.conn, l.wire = conn, wireUnder(conn)
	if l.prepare != nil {
		if err := l.prepare(ctx, conn); err != nil {
			l.drop()
			return nil, err
		}
	}
	l.made = l.s.clock.Now()
	l.used = l.made
	return conn, nil
}

// alive reports whether there is a usable connection.
func (l *dedicatedConn) alive(ctx context.Context) bool {
	if l.conn == nil || l.conn.IsClosed() {
		return false
	}
	now := l.s.clock.Now()
	if now.Sub(l.made) > ageLimit {
		return false
	}
	if now.Sub(l.used) < idleLimit {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	return l.conn.Ping(ctx) == nil
}

// watch closes the wire when the limit passes before the returned function is called.
func (l *dedicatedConn) watch(w *wire, limit time.Duration) (unwatch func()) {
	timer := l.s.clock.NewTimer(limit)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-timer.C:
			l.s.log.Warn("database reply timed out; connection closed", "limit",
				limit)
			_ = w.Close() // the read that waits for the answer reports it
		case <-done:
			timer.Stop()
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

// drop ends the connection, if there is one, and does not wait for the server's part in it.
func (l *dedicatedConn) drop() {
	if l.conn == nil {
		return
	}
	_ = l.wire.Close() // its error does not matter any more
	_ = l.conn.Close(context.Background())
	l.conn = nil
}

func (l *dedicatedConn) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn != nil {
		// ends the session properly, so that the server logs no error
		_ = l.conn.Close(context.Background())
		l.conn = nil
	}
}

// turn is a mutex with a bounded wait: the context of LockUntil. It holds one element
// while it is locked.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// LockUntil locks it, or returns why it did not.
func (t turn) LockUntil(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wire counts the bytes that left: the proof of whether a statement can have run.
type wire struct {
	net.Conn
	written atomic.Int64
}

// wireUnder is the wire of a connection. It is asked of the connection itself: the driver dials for
// other ends too, such as requests to cancel, even after it has given up a connection that was
// being made, and bytes counted on the wrong wire would call a statement that ran one that never
// left.
func wireUnder(conn *pgx.Conn) *wire {
	under := conn.PgConn().Conn()
	if encrypted, ok := under.(*tls.Conn); ok {
		under = encrypted.NetConn()
	}
	return under.(*wire)
}

// newWire wraps a connection whose socket accepts a whole group in one write. If a process stops in
// the middle of a write, the server keeps the statement that it has begun.
func newWire(conn net.Conn, group int) *wire {
	if sized, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = sized.SetWriteBuffer(2 * group) // as far as the system allows
	}
	return &wire{Conn: conn}
}

// Write counts the bytes that the system accepted. The count is not read while a write is running.
func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.written.Add(int64(n))
	return n, err
}
