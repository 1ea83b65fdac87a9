package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// target is the target of a watcher: a submitter, a label, or, if empty, all.
type target struct{ submitter, label string }

func (t target) String() string {
	switch {
	case t.submitter != "":
		return t.submitter
	case t.label != "":
		return "label " + t.label
	}
	return "all"
}

func (t target) request() *pb.WatchTxRequest {
	if t.submitter != "" {
		return load.Of(t.submitter)
	}
	r := load.All()
	if t.label != "" {
		r.Labels = []string{"part=" + t.label}
	}
	return r
}

// watcher keeps how far it saw each transaction come. Its stream alone uses it until that has
// ended.
type watcher struct {
	target target
	last   map[string]uint64 // seq of the newest event
	fault  error             // the first event that was not the next
}

func newWatcher(t target) *watcher { return &watcher{target: t, last: map[string]uint64{}} }

// saw takes an event down: it must be the one after the last.
func (w *watcher) saw(e *pb.TxEvent) {
	if want := w.last[e.GetTxId()] + 1; e.GetSeq() != want && w.fault == nil {
		w.fault = fmt.Errorf("event %d of %s came where %d was next", e.GetSeq(), e.GetTxId(), want)
	}
	w.last[e.GetTxId()] = e.GetSeq()
}

// eventLog holds the events of a transaction in the ledger.
type eventLog struct {
	tx               string
	submitter, label string
	events           uint64
}

// eventLogs reads the events and finds missing numbers.
func (l *ledger) eventLogs(ctx context.Context) (all []eventLog, err error) {
	rows, err := l.conn.Query(
		ctx,
		`SELECT e.tx_id::TEXT, s.name, t.labels->>'part', count(*), max(e.seq)
		FROM tx_event e JOIN submitter s ON s.submitter_id = e.submitter_id JOIN managed_tx t
		  ON t.submitter_id = e.submitter_id AND t.tx_id = e.tx_id GROUP BY 1, 2, 3`,
	)
	if err != nil {
		return nil, err
	}
	var one eventLog
	var newest uint64
	_, err = pgx.ForEachRow(
		rows,
		[]any{&one.tx, &one.submitter, &one.label, &one.events, &newest},
		func() error {
			if newest != one.events {
				return fmt.Errorf("%s has %d events in the ledger, the newest of which is %d",
					one.tx, one.events, newest)
			}
			all = append(all, one)
			return nil
		},
	)
	return all, err
}

// truth has the expected events of every watcher, by target.
type truth map[target][]eventLog

func truthOf(all []eventLog) truth {
	t := truth{}
	for _, one := range all {
		for _, who := range []target{{}, {submitter: one.submitter}, {label: one.label}} {
			t[who] = append(t[who], one)
		}
	}
	return t
}

// events is how many there are for a target.
func (t truth) events(who target) (n int) {
	for _, one := range t[who] {
		n += int(one.events)
	}
	return n
}

// check compares the events of a watcher, after its end, with the ledger.
func (t truth) check(w *watcher) error {
	if w.fault != nil {
		return w.fault
	}
	for _, one := range t[w.target] {
		if got := w.last[one.tx]; got != one.events {
			return fmt.Errorf("it saw %d of the %d events of %s", got, one.events, one.tx)
		}
	}
	if len(w.last) != len(t[w.target]) {
		return fmt.Errorf("it saw events of %d transactions, and %d are for it", len(w.last),
			len(t[w.target]))
	}
	return nil
}

const (
	// lateEvents is how long a watcher that has everything could still be given something twice.
	lateEvents = 500 * time.Millisecond
	// shownFaults is how many watchers are named that are not complete.
	shownFaults = 5
)

// compare waits until everything has happened and was delivered, ends the watchers, and compares
// each with the ledger. It returns how many events they were given.
func (c *crowd) compare(ctx context.Context, s *service) (deliveries int, err error) {
	if err := s.settle(ctx); err != nil {
		return 0, err
	}
	all, err := s.ledger.eventLogs(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the events of the ledger: %w", err)
	}
	t := truthOf(all)
	for _, w := range c.watchers {
		deliveries += t.events(w.target)
	}
	late := c.wait(ctx, "events were delivered", deliveries, c.received.Load)
	if late == nil {
		time.Sleep(lateEvents)
	}
	c.end()
	var faults []error
	for i, w := range c.watchers {
		if err := t.check(w); err != nil {
			faults = append(faults, fmt.Errorf("watcher %d of %s: %w", i, w.target, err))
		}
	}
	if late == nil && len(faults) == 0 {
		return deliveries, c.failed()
	}
	broken := fmt.Errorf("%d of %d watchers are not complete", len(faults), len(c.watchers))
	return 0, errors.Join(
		append([]error{broken, late, c.failed()}, faults[:min(shownFaults, len(faults))]...)...)
}
