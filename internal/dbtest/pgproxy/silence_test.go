package pgproxy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/pgembed"
)

// A client that stops between Execute and Sync holds its locks, even when it has
// given up, until the server hears from it or of its end.
func TestHoldAfter(t *testing.T) {
	t.Parallel()
	update := func(ctx context.Context, b *bench) error {
		_, err := b.conn.Exec(ctx, "update "+b.table+" set id = id where id = $1", 0)
		return err
	}
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		hold := b.On(Running("update"), HoldAfter)
		result := make(chan error, 1)
		go func() { result <- update(t.Context(), b) }()
		b.fired(hold)
		b.await("the lock", func() bool { return !b.free() })
		hold.Release()
		hold.Release()
		if err := <-result; err != nil {
			t.Error(err)
		}
		b.await("an end of the lock", b.free)
	})
	// The server has its answer when the client is gone already, and such a long one
	// that it sends most of it without being asked to.
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.Refuse() // a frozen client sends no request to cancel either
		hold := b.On(Running("for update"), HoldAfter)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := b.conn.Exec(ctx, "select pg_sleep(0.1), repeat('x', 100000) from "+b.table+
			" a, generate_series(1, 5) where id = $1 for update of a", 0)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client received %v", err)
		}
		b.fired(hold)
		b.conn.PgConn().Conn().Close() // at once: Close itself waits for the server's goodbye
		b.await("the server waits for the client",
			func() bool { return b.sessions("wait_event = 'ClientRead'") == 1 })
		for until := time.Now().Add(200 * time.Millisecond); time.Now().Before(until); {
			if b.free() {
				t.Fatal("the server noticed that a frozen client is gone")
			}
		}
		b.CutAll()
		b.await("an end of the lock", b.free)
	})
}

func TestHoldBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hold := b.On(Commit, HoldBefore)
	result := make(chan error, 1)
	go func() {
		result <- pgx.BeginFunc(t.Context(), b.conn,
			func(tx pgx.Tx) error { return b.insert(t.Context(), tx, 1) })
	}()
	b.fired(hold)
	if got := b.rows(); got != 0 {
		t.Errorf("%d rows before the commit", got)
	}
	hold.Release()
	if err := <-result; err != nil || b.rows() != 1 {
		t.Errorf("%v, %d rows", err, b.rows())
	}
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.BlackHole()
	b.BlackHole()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if conn, err := pgx.Connect(ctx, b.URL()); err == nil {
		conn.Close(t.Context())
		t.Error("connected through a black hole")
	}
	result := make(chan error, 1)
	go func() { result <- b.insert(t.Context(), b.conn, 1) }()
	select {
	case err := <-result:
		t.Fatalf("an answer through a black hole: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if got := b.rows(); got != 0 {
		t.Errorf("%d rows", got)
	}
	b.Heal()
	if err := <-result; err != nil || b.rows() != 1 {
		t.Errorf("after it: %v, %d rows", err, b.rows())
	}
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	other, err := pgembed.Start(t.Context(), pgembed.Options{Settings: pgembed.Disposable()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Stop(context.Background()) })
	p, err := Start(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	system := func(conn *pgx.Conn) (id int64, err error) {
		err = conn.QueryRow(t.Context(),
			"select system_identifier from pg_control_system()").Scan(&id)
		return id, err
	}
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), p.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	conn := connect()
	before, err := system(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Redirect(other.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	if _, err := system(conn); err == nil {
		t.Error("the existing connection still works")
	}
	if after, err := system(connect()); err != nil || after == before {
		t.Errorf("a new connection ends at %d, as before (%v)", after, err)
	}
}

func TestCutAllAndRefuse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.CutAll()
	if err := b.insert(t.Context(), b.conn, 1); err == nil {
		t.Error("a connection that was cut still works")
	}
	stays := b.connect(b.URL())
	b.Refuse()
	if conn, err := pgx.Connect(t.Context(), b.URL()); err == nil {
		conn.Close(t.Context())
		t.Error("connected although refused")
	}
	if err := b.insert(t.Context(), stays, 1); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	b.Heal()
	b.connect(b.URL())
}
