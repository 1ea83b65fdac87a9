package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// model is the part of a ledger that the feed reads, in memory. Transactions get their xid when
// they begin and become visible when they commit, in any order. Snapshots have PostgreSQL's format
// and meaning. A property test can take every interleaving step by step.
type model struct {
	mu        sync.Mutex
	nextXid   uint64
	open      map[uint64][]store.EventInfo
	committed []store.EventInfo
	written   chan struct{}
	spared    int // reads that succeed
	failures  int // later reads that fail
	epoch     int64
	timeline  int64
	promoted  uint64                     // first number of the timeline
	trimmed   uint64                     // newest number of a removed event
	moved     map[txn.SubmitterID]string // accounts that another ledger has
}

func newModel() *model {
	return &model{
		nextXid: 100,
		open:    map[uint64][]store.EventInfo{},
		written: make(chan struct{}, 1),
		epoch:   1, timeline: 5,
	}
}

func (m *model) EventsWritten() <-chan struct{} { return m.written }

func (m *model) begin(events ...store.EventInfo) (xid uint64) {
	xid = m.nextXid
	m.nextXid++
	for i := range events {
		events[i].Xid = fmt.Sprint(xid)
	}
	m.open[xid] = events
	return xid
}

func (m *model) end(xid uint64, commit bool) {
	if commit {
		m.committed = append(m.committed, m.open[xid]...)
	}
	delete(m.open, xid)
}

func (m *model) fails() error {
	if m.failures == 0 {
		return nil
	}
	if m.spared > 0 {
		m.spared--
		return nil
	}
	m.failures--
	return store.ErrUnavailable
}

func (m *model) snapshot() string {
	xmin, xip := m.nextXid, []string{}
	for _, xid := range slices.Sorted(maps.Keys(m.open)) {
		xmin = min(xmin, xid)
		xip = append(xip, fmt.Sprint(xid))
	}
	return fmt.Sprintf("%d:%d:%s", xmin, m.nextXid, strings.Join(xip, ","))
}

func (m *model) Head(context.Context) (store.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return store.Head{
		Epoch: m.epoch, Timeline: m.timeline, Snapshot: m.snapshot(), Next: m.nextXid,
		Before: m.timeline - 1, Begin: m.promoted, Trimmed: m.trimmed,
	}, m.fails()
}

func visible(xid, snapshot string) bool {
	parts := strings.Split(snapshot, ":")
	return number(xid) < number(parts[1]) && !slices.Contains(strings.Split(parts[2], ","), xid)
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func compareKeys(a, b store.EventKey) int {
	return cmp.Or(cmp.Compare(number(a.Xid), number(b.Xid)), cmp.Compare(a.Submitter, b.Submitter),
		slices.Compare(a.Tx[:], b.Tx[:]), cmp.Compare(a.Seq, b.Seq))
}

func (m *model) EventsSince(_ context.Context, page []store.EventInfo, since, until string,
	after store.EventKey, submitter txn.SubmitterID, limit int) ([]store.EventInfo, error) {
	events, err := m.since(since, until, after, limit,
		func(e store.EventInfo) bool { return submitter == 0 || e.Submitter == submitter })
	return append(page, events...), err
}

func (m *model) EventsSinceOf(_ context.Context, since, until string, after store.EventKey,
	ids []txn.TxID, limit int) ([]store.EventInfo, error) {
	return m.since(since, until, after, limit,
		func(e store.EventInfo) bool { return slices.Contains(ids, e.Tx) })
}

func (m *model) since(since, until string, after store.EventKey, limit int,
	of func(store.EventInfo) bool) ([]store.EventInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails(); err != nil {
		return nil, err
	}
	if after.Xid == "" {
		after.Xid = "0"
	}
	found := []store.EventInfo{}
	for _, e := range m.committed {
		if !visible(e.Xid, since) && visible(e.Xid, until) && compareKeys(e.Key(), after) > 0 &&
			of(e) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b store.EventInfo) int { return compareKeys(a.Key(), b.Key()) })
	return found[:min(limit, len(found))], nil
}

func (m *model) MovedOf(_ context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID]*store.MovedError, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	moved := map[txn.SubmitterID]*store.MovedError{}
	for _, id := range ids {
		if ledger := m.moved[id]; ledger != "" {
			moved[id] = &store.MovedError{Submitter: nameOf(id), Ledger: ledger}
		}
	}
	return moved, m.fails()
}

func (m *model) EventsOfTx(_ context.Context, id txn.TxID, afterSeq int64,
	limit int) (found []store.EventInfo, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.committed {
		if e.Tx == id && e.Seq > afterSeq && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, m.fails()
}

// The model has only events; no test here starts a whole stream.

func (m *model) Tx(context.Context, txn.TxID) (store.TxInfo, error) {
	return store.TxInfo{}, errors.ErrUnsupported
}

func (m *model) TxVersions(context.Context,
	[]txn.TxID) (map[txn.TxID]store.TxVersion, error) {
	return nil, errors.ErrUnsupported
}

func (m *model) Txs(context.Context, store.TxFilter) ([]store.TxInfo, error) {
	return nil, errors.ErrUnsupported
}
