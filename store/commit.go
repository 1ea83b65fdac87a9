package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Commit writes a change under a lease and returns when its outcome is known, or known to be
// unknown. It shares a statement with the changes of other submitters. It takes no context: a
// fenced statement is never cancelled, and its limits are the server's. The error explains every
// outcome but Done, for the log.
func (s *Store) Commit(lease *Lease, change txn.Change) (Outcome, error) {
	if change.Empty() {
		return Done, nil
	}
	if err := checkChange(lease.submitter, change); err != nil {
		return Refused, fmt.Errorf("store: commit for submitter %d: %w", lease.submitter, err)
	}
	if lease.spent.Load() {
		return Fenced, fmt.Errorf(
			"store: commit for submitter %d: the lease with token %d was lost", lease.submitter,
			lease.token)
	}
	job := &commitJob{
		lease:  lease,
		change: change,
		bytes:  changeSize(change),
		ended:  make(chan struct{}),
	}
	queue := s.lane(lease.submitter).commits
	if change.Nonces != nil {
		queue = s.lane(lease.submitter).nonces
	}
	if err := queue.put(job); err != nil {
		return Unreached, fmt.Errorf("store: commit for submitter %d: %w: %w", lease.submitter,
			ErrUnavailable, err)
	}
	<-job.ended
	switch job.outcome {
	case Done:
		s.signalFeed(change)
		if change.Nonces != nil {
			s.waits.deliver(lease.submitter, change.Nonces.Results)
		}
		return Done, nil
	case Fenced, Unsettled:
		lease.spent.Store(true)
	}
	return job.outcome, fmt.Errorf("store: commit for submitter %d under token %d: %w",
		lease.submitter, lease.token, job.err)
}

// signalFeed wakes the reader of the feed when there is something to read.
func (s *Store) signalFeed(change txn.Change) {
	if slices.ContainsFunc(change.Writes, func(w txn.Write) bool { return w.Kind != "" }) {
		s.wakes.signalEvents()
	}
}

// commitJob is a change on its way.
type commitJob struct {
	lease  *Lease
	change txn.Change
	bytes  int

	outcome Outcome
	err     error
	ended   chan struct{}
}

func (j *commitJob) size() int  { return j.bytes }
func (j *commitJob) key() int64 { return int64(j.lease.submitter) }

func (j *commitJob) end(outcome Outcome, err error) {
	j.outcome, j.err = outcome, err
	close(j.ended)
}

// emptyCommit is the approximate wire size of a statement without changes: the headers of its
// lists.
const emptyCommit = 2 << 10

// changeSize is the approximate wire size of a change: its fields with their lengths, and the large
// values.
func changeSize(c txn.Change) int {
	const (
		perChange  = 160
		perWrite   = 370
		perReceipt = 80
		perAttempt = 190
		perCommand = 40
	)
	n := perChange + len(c.StatusReason)
	if c.Nonces != nil {
		return nonceSize(c.Nonces)
	}
	if c.Protect != nil {
		n += len(c.Protect.Reason) + len(c.Protect.Evidence)
	}
	if c.Unprotect != nil {
		n += len(c.Unprotect.Reason)
	}
	for _, w := range c.Writes {
		n += perWrite + len(w.Next.Reason) + len(w.Next.LastError) + len(w.Next.LastErrorBase) +
			blockBytes*(len(w.Next.Above)+len(w.Above))
		if w.Next.Receipt != nil {
			n += perReceipt
		}
		if w.Attempt != nil {
			n += perAttempt + len(w.Attempt.Raw)
		}
	}
	for _, r := range c.Commands {
		n += perCommand + len(r.Result)
	}
	return n
}

// Reasons of outcomes that need no more words.
var (
	errFenced   = errors.New("the lease is no longer held")
	errConflict = errors.New("the ledger differs from the expected state")
	errContend  = errors.New("the rows of the change stayed locked")
	errNoAnswer = errors.New("no outcome for this change in the reply")
)

// sendCommits sends a group as one statement and ends each job of it, unless the server refuses the
// statement.
func (s *Store) sendCommits(on *dedicatedConn, group []*commitJob) *refusal {
	var answers []db.CommitRow
	result, err := on.run(
		context.Background(),
		s.watchdog(),
		func(conn *pgx.Conn, q *db.Queries) (err error) {
			expect(conn, emptyCommit+sizeOf(group))
			answers, err = q.Commit(context.Background(), commitParams(s.cfg.Node, group))
			return err
		},
	)
	switch result {
	case settled:
		answerAll(group, answers)
		return nil
	case refused, again:
		s.log.Debug("fenced statement refused", "changes", len(group), "cause",
			describeError(err))
		return &refusal{err: err, again: result == again}
	}
	outcome := Unsettled
	if result == nothing {
		outcome = Unreached
	}
	s.log.Debug("fenced statement failed", "changes", len(group), "outcome", outcome.String(),
		"cause", describeError(err))
	why := describeError(err)
	for _, job := range group {
		job.end(outcome, why)
	}
	return nil
}

// watchdog is when a fenced statement is given up: well after the server should have ended it.
func (s *Store) watchdog() time.Duration { return 2*s.cfg.StatementTimeout + time.Second }

// refuseCommit ends a job that the database refuses also alone.
func (s *Store) refuseCommit(job *commitJob, why *refusal) {
	if why.again {
		job.end(Conflict, errContend)
		return
	}
	job.end(Refused, describeError(why.err))
}

func answerAll(group []*commitJob, answers []db.CommitRow) {
	outcomes := make([]string, len(group))
	for _, a := range answers {
		if int(a.ChangeNo) < len(group) {
			outcomes[a.ChangeNo] = a.Outcome
		}
	}
	for i, job := range group {
		switch outcomes[i] {
		case "DONE":
			job.end(Done, nil)
		case "FENCED":
			job.end(Fenced, errFenced)
		case "CONFLICT":
			job.end(Conflict, errConflict)
		default:
			job.end(Unsettled, errNoAnswer)
		}
	}
}

// prepareCommit runs the statement with nothing in it: it is prepared then, and a real one goes out
// in one write and comes back in one answer.
func prepareCommit(ctx context.Context, conn *pgx.Conn) error {
	if _, err := db.New(conn).Commit(ctx, commitParams("", nil)); err != nil {
		return err
	}
	_, err := db.New(conn).CommitNonces(ctx, nonceParams("", nil))
	return err
}

// planFenced makes the server plan the fenced statement once per connection, and read every table
// along a key. Statistics do not help: the ledger may have been empty when the plan was made.
// Arrays are looked up by hashed sub-selects, which these settings do not affect.
func planFenced(cfg *pgx.ConnConfig) {
	cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	for _, path := range []string{"enable_seqscan", "enable_bitmapscan", "enable_hashjoin",
		"enable_mergejoin", "enable_material"} {
		cfg.RuntimeParams[path] = "off"
	}
}
