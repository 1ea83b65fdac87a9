package store

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store/internal/db"
)

// A renewal that stands behind a heartbeat which hangs gives up when its own time is over.
func TestDedicatedConn_ContextEnds_StopsWaiting(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, lease := k.owned(s, "alice")
	inside, free := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.renew.run(k.ctx, time.Minute,
			func(*pgx.Conn, *db.Queries) error { close(inside); <-free; return nil })
	}()
	<-inside
	ctx, cancel := context.WithTimeout(k.ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := s.Renew(ctx, []*Lease{lease}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("renew: %v", err)
	}
	close(free)
	<-done
	if renewed, err := s.Renew(k.ctx, []*Lease{lease}); err != nil || len(renewed) != 1 {
		t.Errorf("renewed %d: %v", len(renewed), err)
	}
}

// TestDedicatedConn_WrittenBytes_CountedOnOwnSocket gives up a connection that is being made, and
// has the driver's request to cancel it get through only when another one stands. The count of
// bytes must still be that one's, or a statement that ran would pass for one that never left.
func TestDedicatedConn_WrittenBytes_CountedOnOwnSocket(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	proxy := k.proxy()
	held := proxy.On(pgproxy.Running("synchronous_commit"), pgproxy.HoldReply)
	defer held.Release()
	var dials atomic.Int32
	late, made := make(chan struct{}), make(chan struct{})
	s := k.open("a", func(c *Config) {
		c.URL = proxy.URL()
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				<-late
				defer close(made)
			}
			return (&net.Dialer{}).DialContext(context.WithoutCancel(ctx), network, address)
		}
	})
	ctx, cancel := context.WithCancel(k.ctx)
	go func() {
		<-held.Fired()
		cancel()
	}()
	nothingToDo := func(*pgx.Conn, *db.Queries) error { return nil }
	if _, err := s.lanes[0].conn.run(ctx, time.Minute, nothingToDo); err == nil {
		t.Fatal("a connection was made although the answer to its first statement is held")
	}
	k.eventually("the request to cancel", func() bool { return dials.Load() == 2 })
	_, err := s.lanes[0].conn.run(k.ctx, time.Minute, nothingToDo)
	k.must(err)
	close(late)
	<-made
	for range 50 { // statements, so that the late dial affects some of them
		before := s.lanes[0].conn.wire.written.Load()
		commit := s.lanes[0].conn
		_, err := commit.run(k.ctx, time.Minute, func(conn *pgx.Conn, _ *db.Queries) error {
			_, err := conn.Exec(k.ctx, "SELECT 1")
			return err
		})
		k.must(err)
		if s.lanes[0].conn.wire.written.Load() == before {
			t.Fatal("a statement ran and no byte was counted")
		}
	}
}

// So does a reader of the feed behind another one whose database is silent.
func TestFeedHead_ContextEnds_StopsWaiting(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	s.settled.mu.Lock()
	ctx, cancel := context.WithTimeout(k.ctx, 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.FeedHead(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the head of the feed: %v", err)
	}
	s.settled.mu.Unlock()
	if _, _, err := s.FeedHead(k.ctx); err != nil {
		t.Error(err)
	}
}
