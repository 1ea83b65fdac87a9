package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
)

// A renewal that stands behind a heartbeat which hangs gives up when its own time is over.
func TestWaitingForALaneEndsWithItsContext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, lease := k.owned(s, "alice")
	inside, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.renew.run(k.ctx, time.Minute, func(*pgx.Conn, *db.Queries) error { close(inside); <-free; return nil })
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
