package archive

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }

// bench is a ledger with final transactions, and a folder.
type bench struct {
	*testing.T
	db    *dbtest.DB
	store *store.Store
	id    txn.SubmitterID
	txs   map[txn.TxID]string // with their request ids
	dir   string
}

func newBench(t *testing.T, txs int) *bench {
	t.Helper()
	b := &bench{T: t, db: dbtest.New(t), dir: t.TempDir(), txs: map[txn.TxID]string{}}
	var err error
	b.store, err = store.Open(t.Context(), store.Config{URL: b.db.URL, Schema: b.db.Schema,
		Node: "archive/" + t.Name()})
	b.must(err)
	t.Cleanup(b.store.Close)
	info, _, err := b.store.Register(t.Context(), store.Registration{Name: "alice", Chain: 31337,
		Address: txn.Address{1}, Signer: "local", Mode: txn.Strict, StartFrom: "0"})
	b.must(err)
	b.id = info.ID
	for i := range txs {
		created, _, err := b.store.CreateTx(t.Context(), b.intent(fmt.Sprint("r", i)))
		b.must(err)
		_, err = b.store.CancelQueued(t.Context(), created.ID)
		b.must(err)
		b.txs[created.ID] = created.RequestID
	}
	return b
}

func (b *bench) intent(request string) store.Intent {
	return store.Intent{Submitter: b.id, RequestID: request, Payload: txn.Payload{
		To: &txn.Address{2}, Value: *uint256.NewInt(5), Data: []byte(request)}}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// options archive everything at once, in small files.
func (b *bench) options() Options {
	return Options{Ledger: eager{b.store}, Dir: b.dir, Transactions: time.Nanosecond,
		FileTxs: 3, Batch: 2, Grace: -1}
}

// eager crashes without a release of its lease, as a killed process does.
type eager struct{ *store.Store }

func (eager) ReleaseArchive(context.Context, *store.ArchiveLease) {}

func (e eager) ArchivePage(ctx context.Context, l *store.ArchiveLease,
	q store.ArchiveQuery) ([]store.ArchiveLine, txn.TxID, bool, error) {
	q.Limit = 3
	return e.Store.ArchivePage(ctx, l, q)
}

func (e eager) ArchiveRequests(ctx context.Context,
	q store.RequestQuery) (lines []string, upto int64, done bool, err error) {
	q.Limit = 3
	return e.Store.ArchiveRequests(ctx, q)
}

// lines reads the complete files: each transaction, and how many events it has there.
func (b *bench) lines() map[txn.TxID]int {
	b.Helper()
	found := map[txn.TxID]int{}
	names, err := filepath.Glob(filepath.Join(b.dir, "*"+dataEnding))
	b.must(err)
	for _, name := range names {
		f, err := os.Open(name)
		b.must(err)
		z, err := gzip.NewReader(f)
		b.must(err)
		for lines := bufio.NewScanner(z); lines.Scan(); {
			var l struct {
				Submitter   string
				Transaction struct {
					ID        string `json:"tx_id"`
					RequestID string `json:"request_id"`
					Data      string
					Value     json.Number
				}
				Events []struct{ Kind string }
			}
			b.must(json.Unmarshal(lines.Bytes(), &l))
			id, err := txn.ParseTxID(l.Transaction.ID)
			b.must(err)
			want := fmt.Sprintf("\\x%x", b.txs[id])
			if l.Submitter != "alice" || l.Transaction.RequestID != b.txs[id] ||
				l.Transaction.Data != want || l.Transaction.Value != "5" {
				b.Errorf("line of %s: %s", id, lines.Text())
			}
			found[id] = max(found[id], len(l.Events))
		}
		b.must(f.Close())
	}
	return found
}

// archived checks that the ledger lacks only data of complete files, and returns the number of
// archived transactions.
func (b *bench) archived() (n int) {
	b.Helper()
	lines := b.lines()
	for id, request := range b.txs {
		info, err := b.store.Tx(b.Context(), id)
		b.must(err)
		events, err := b.store.EventsOfTx(b.Context(), id, 0, 100)
		b.must(err)
		if info.ArchivedAt.IsZero() {
			if !info.TrimmedAt.IsZero() && lines[id] == 2 {
				events = make([]store.EventInfo, lines[id]) // they are in a file
			}
			if len(events) != 2 || string(info.Payload.Data) != request {
				b.Errorf("%s lost data and is not archived", id)
			}
			continue
		}
		if n++; len(events) != 0 || lines[id] != 2 {
			b.Errorf("%s has %d events, and %d in the files", id, len(events), lines[id])
		}
		again, created, err := b.store.CreateTx(b.Context(), b.intent(request))
		if err != nil || created || again.ID != id {
			b.Errorf("key %s now names %s (%v)", request, again.ID, err)
		}
	}
	return n
}

// finish runs until everything is archived: a transaction of another process may hold back the
// newest events for a moment.
func (b *bench) finish() {
	b.Helper()
	for b.archived() < len(b.txs) {
		_, err := Run(b.Context(), b.options())
		b.must(err)
	}
	left, err := filepath.Glob(filepath.Join(b.dir, "*[gt]"))
	b.must(err)
	for _, name := range left {
		if !strings.HasSuffix(name, dataEnding) {
			b.Errorf("%s is left", name)
		}
	}
}

func TestRun_CrashAtEveryPoint_NothingLost(t *testing.T) {
	crash := errors.New("crash")
	for _, at := range []Point{AfterPart, AfterPlan, AfterRename, AfterTrim, AfterRemoval,
		BeforeDone} {
		for nth := 1; nth <= 2; nth++ {
			t.Run(fmt.Sprint(at, " ", nth), func(t *testing.T) {
				b := newBench(t, 7)
				o, hits := b.options(), 0
				o.Gate = func(p Point) error {
					if p == at {
						hits++
					}
					if hits == nth {
						return crash
					}
					return nil
				}
				var err error
				for err == nil { // until it comes that far
					_, err = Run(t.Context(), o)
				}
				if !errors.Is(err, crash) {
					t.Fatal(err)
				}
				b.archived()
				b.finish()
			})
		}
	}
}

func TestRun_Stopped_Continues(t *testing.T) {
	b := newBench(t, 7)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := b.options()
	o.Gate = func(p Point) error {
		if p == AfterRemoval {
			stop()
		}
		return nil
	}
	var report Report
	var err error
	for err == nil {
		report, err = Run(ctx, o)
	}
	if !errors.Is(err, context.Canceled) || report.Transactions == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if n := b.archived(); int64(n) != report.Transactions {
		t.Errorf("%d archived, %d reported", n, report.Transactions)
	}
	b.finish()
}

// TestRun_DamagedFile_NothingRemoved: the disk lost a part of a file that was complete.
func TestRun_DamagedFile_NothingRemoved(t *testing.T) {
	crash := errors.New("crash")
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"longer":    func(b []byte) []byte { return append(b, 0) },
		"changed":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			o := b.options()
			o.Gate = func(p Point) error {
				if p == AfterRename {
					return crash
				}
				return nil
			}
			var err error
			for err == nil {
				_, err = Run(t.Context(), o)
			}
			if !errors.Is(err, crash) {
				t.Fatal(err)
			}
			names, err := filepath.Glob(filepath.Join(b.dir, "*"+dataEnding))
			if b.must(err); len(names) != 1 {
				t.Fatalf("files %v", names)
			}
			text, err := os.ReadFile(names[0])
			b.must(err)
			b.must(os.WriteFile(names[0], damage(text), 0o600))
			if _, err := Run(t.Context(), b.options()); err == nil {
				t.Error("a damaged file is taken")
			}
			for id := range b.txs {
				info, err := b.store.Tx(t.Context(), id)
				if b.must(err); !info.TrimmedAt.IsZero() {
					t.Errorf("%s was removed", id)
				}
			}
		})
	}
}

// stepClock shows a second more with each look at it.
type stepClock struct {
	clock.Real
	looks *int
}

// Now returns a later time than the last one.
func (c stepClock) Now() time.Time {
	*c.looks++
	return time.Unix(int64(*c.looks), 0)
}

// renewed counts the renewals since the last page.
type renewed struct {
	eager
	times *int
}

func (r renewed) RenewArchive(ctx context.Context, l *store.ArchiveLease) error {
	*r.times++
	return r.eager.RenewArchive(ctx, l)
}

// TestRun_FileReadBack_LeaseRenewed: a file that takes longer to read than the lease lasts.
func TestRun_FileReadBack_LeaseRenewed(t *testing.T) {
	b := newBench(t, 30)
	o := b.options()
	var looks, times int
	o.FileTxs, o.Clock = 30, stepClock{looks: &looks}
	o.Rest = 1e-12 // of the seconds of that clock
	o.Ledger = renewed{eager{b.store}, &times}
	least := -1
	o.Progress = func(Report) { times = 0 }
	o.Gate = func(p Point) error {
		if p == AfterPart {
			least = times
			return errors.New("stop")
		}
		return nil
	}
	for least < 0 { // until it has something to archive
		_, err := Run(t.Context(), o)
		if least < 0 {
			b.must(err)
		}
	}
	if least < 5 {
		t.Errorf("%d renewals while 30 seconds passed", least)
	}
	// and again when a later run checks the file before it removes its rows
	o.Gate = func(p Point) error {
		if p == AfterRename {
			return errors.New("stop")
		}
		return nil
	}
	if _, err := Run(t.Context(), o); err == nil {
		t.Fatal("the run does not stop")
	}
	o.Gate = func(p Point) error {
		if p == AfterTrim {
			return errors.New("stop")
		}
		return nil
	}
	o.Progress, times = nil, 0
	if _, err := Run(t.Context(), o); err == nil || times < 5 {
		t.Errorf("%d renewals (%v)", times, err)
	}
}

// TestRun_FileBytes_Bounded: a file is completed by its size, too.
func TestRun_FileBytes_Bounded(t *testing.T) {
	b := newBench(t, 6)
	o := b.options()
	o.FileTxs, o.FileBytes = 1000, 1
	var files int
	for files < 2 {
		report, err := Run(t.Context(), o)
		b.must(err)
		files += report.Files
	}
	b.finish()
}

// TestRun_OtherLedger_Refused: two ledgers of one server must not take the leftovers of each other.
func TestRun_OtherLedger_Refused(t *testing.T) {
	b, other := newBench(t, 3), newBench(t, 3)
	o := b.options()
	o.Gate = func(p Point) error {
		if p == AfterRename {
			return errors.New("crash")
		}
		return nil
	}
	var err error
	for err == nil {
		_, err = Run(t.Context(), o)
	}
	shared := other.options()
	shared.Dir = b.dir
	if _, err := Run(t.Context(), shared); !errors.Is(err, ErrOtherLedger) {
		t.Errorf("another ledger archives there: %v", err)
	}
	b.finish()
	name := filepath.Join(b.dir, manifestName)
	b.must(os.WriteFile(name, nil, 0o600)) // as after a crash
	if _, err := Run(t.Context(), b.options()); err == nil {
		t.Error("a folder of an unknown ledger is taken")
	}
	b.must(os.Remove(name))
	if _, err := Run(t.Context(), b.options()); err != nil {
		t.Error(err)
	}
}

func TestRun_Young_Kept(t *testing.T) {
	b := newBench(t, 2)
	for name, change := range map[string]func(*Options){
		"age":    func(o *Options) { o.Transactions = time.Hour },
		"before": func(o *Options) { o.Before = time.Now().Add(-time.Hour) },
	} {
		o := b.options()
		change(&o)
		if report, err := Run(t.Context(), o); err != nil || report.Written > 0 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	o := b.options()
	o.Transactions = 0
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("a run without ages is accepted")
	}
}

func TestRun_EventsThenRest(t *testing.T) {
	b := newBench(t, 2)
	o := b.options()
	o.Events, o.Transactions = time.Nanosecond, time.Hour
	for events := int64(0); events < 4; {
		report, err := Run(t.Context(), o)
		b.must(err)
		events += report.Events
	}
	for id, request := range b.txs {
		info, err := b.store.Tx(t.Context(), id)
		if b.must(err); info.TrimmedAt.IsZero() || string(info.Payload.Data) != request {
			t.Errorf("%+v", info)
		}
	}
	b.finish()
}

// TestRun_SinkMovedBack_EventsKept: an operator replays events whose file is complete.
func TestRun_SinkMovedBack_EventsKept(t *testing.T) {
	for _, at := range []Point{AfterRename, AfterTrim, AfterRemoval} {
		t.Run(string(at), func(t *testing.T) {
			b := newBench(t, 5)
			b.must(b.store.EnsureSinks(t.Context(), []string{"hook"}))
			var kept int
			o := b.options()
			o.FileTxs = 5
			o.Gate = func(p Point) error {
				if p != at || kept > 0 {
					return nil
				}
				d := store.SinkDecision{Sink: "hook", Operator: "o", Reason: "r"}
				b.must(b.store.ReplaySink(t.Context(), d, store.Position{Seen: "3:3:"}))
				kept = len(b.txs) - b.archived()
				return nil
			}
			var err error
			for err == nil && kept == 0 { // until it has something to remove
				_, err = Run(t.Context(), o)
			}
			if left := len(b.txs) - b.archived(); !errors.Is(err, store.ErrSinkBehind) ||
				left != kept {
				t.Errorf("%d of %d are left: %v", left, kept, err)
			}
			end := store.Position{Seen: "9000000000:9000000000:"}
			_, err = b.db.Pool.Exec(t.Context(), "UPDATE sink_cursor SET position = $1",
				end.String())
			b.must(err)
			b.finish()
		})
	}
}
