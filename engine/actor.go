package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// actor owns one submitter. It is one goroutine that takes one step at a time. Its memory is a
// cache of the ledger, which no other process may write while the lease is valid.
type actor struct {
	e     *Engine
	id    txn.SubmitterID
	lease *store.Lease
	lost  context.CancelFunc
	chain OwnerChain
	track *track.Tracker
	log   *slog.Logger

	progress               // read by the keeper
	wakes    chan struct{} // something may have changed; no data
	mail     atomic.Bool   // client writes may exist: read the inbox before the next step
	more     atomic.Bool   // new queued work may exist: read the inbox when a slot is free
	slotFree atomic.Bool   // a slot was free when the actor began to rest
	head     atomic.Int32  // queued transactions to read at a time

	auditFacts atomic.Pointer[auditFacts] // for the auditor; nil before the ledger is read

	missing   string     // commits of this node that the ledger lacks; empty: none known
	believed  bool       // the ledger counts as complete: an operator has decided on the loss
	trial     *txn.Nonce // first nonce taken since a fail-over; nil: none
	trialOver bool       // its transaction is final
	loaded    bool
	ledger    store.Ledger
	inbox     store.Inbox
	truncated bool           // the queue may be longer than the part that was read
	nonces    nonces         // of clients, in mode EXTERNAL
	audited   []txn.Finished // final, and within reach of a reorg
	auditSent bool           // the tracker follows the current audited
	ended     []txn.Tx       // final as not executed; a reorg could still include an attempt
	headAt    headSeen
	settled   atomic.Uint64 // see settler; 0: unknown
	recorded  atomic.Uint64 // settled, as the ledger has it
	settledAt time.Time     // when it was last computed
	known     txn.View      // of the current step
	account   *txn.Account
	accountAt time.Time // when it was read
	suspicion *txn.Suspicion
	warned    *txn.Suspicion // last one logged as a warning
	// when a failed account read was last logged
	readWarned time.Time
	used       txn.UsedNonce // by the last account read
	nonceUse   *txn.NonceUse // as of the last txn.FindConsumer
	twinChecks int           // left; see maxTwinChecks
	signLimit  int           // see nextSignLimit
	conflicts  int           // in a row
	busyAt     time.Time     // last time with anything to follow or to do
}

// auditFacts is the part of an owner that the auditor reads: its submitter and cursor.
type auditFacts struct {
	submitter txn.Submitter
	cursor    *txn.Cursor
}

// errIdle ends an actor that has been idle; its lease is released.
var errIdle = errors.New("nothing to do")

// errFenced ends an actor whose lease belongs to another node.
var errFenced = errors.New("fenced")

// errForeign ends an actor whose chain is not configured on this node; its lease is released.
var errForeign = errors.New("chain is not configured on this node")

// errDefect ends an actor that panicked.
var errDefect = errors.New("actor panicked")

// ErrCommitRejected marks the logged error of a change that the database rejected alone. The rules
// allowed it and a constraint did not: a defect.
var ErrCommitRejected = errors.New("commit rejected by the database")

func newActor(e *Engine, l *store.Lease, lost context.CancelFunc) *actor {
	a := &actor{
		e: e, id: l.Submitter(), lost: lost, wakes: make(chan struct{}, 1), busyAt: e.Clock.Now(),
	}
	a.adopt(l)
	a.mail.Store(true)
	return a
}

// adopt installs a new lease.
func (a *actor) adopt(l *store.Lease) {
	if missing := a.lostToken(l); missing != "" {
		a.missing = missing
	}
	a.lease = l
	a.loaded = false
	a.settled.Store(0) // was concluded under the older lease
	a.name("")
	if !a.e.keeper.hold(l, a) {
		a.e.router.surrender(l)
	}
}

// name sets the fields of every log line.
func (a *actor) name(submitter string) {
	a.log = a.e.Logger.With("submitter_id", int(a.id), "fencing_token", int64(a.lease.Token()))
	if submitter != "" {
		a.log = a.log.With("submitter", submitter)
	}
}

// wake makes the actor check for work.
func (a *actor) wake() {
	select {
	case a.wakes <- struct{}{}:
	default:
	}
}

// deliver reports that clients may have written for this submitter.
func (a *actor) deliver() {
	a.mail.Store(true)
	a.wake()
}

// queue reports that transactions may have been queued for this submitter. It does not wake a
// resting actor without a free slot: the queue may grow a thousand times during one transaction.
func (a *actor) queue() {
	a.more.Store(true)
	if a.slotFree.Load() {
		a.wake()
	}
}

// run takes steps until the lease is lost, there is nothing left to do, or ctx ends.
func (a *actor) run(ctx context.Context) error {
	defer a.forget()
	failures := 0
	for ctx.Err() == nil {
		if err := a.proceed(); err != nil {
			return err
		}
		if err := a.e.Gate(ctx, BeforeStep, a.id); err != nil {
			return err
		}
		if err := a.refresh(ctx); err != nil {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errForeign):
				return err
			}
			a.log.Warn("ledger read failed; retrying", "error", err)
			a.pause(ctx, txn.Backoff(failures))
			failures++
			continue
		}
		failures = 0
		a.arrived(ctx)
		if err := a.step(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// refresh reads missing state: the ledger after an acquisition or a conflict, the inbox after a
// delivery.
func (a *actor) refresh(ctx context.Context) error {
	if !a.loaded {
		if err := a.load(ctx); err != nil {
			return err
		}
	}
	if a.couldTake() && a.more.Swap(false) || a.readsMore() {
		a.mail.Store(true)
	}
	done := a.inbox.More && len(a.inbox.Commands) == 0 // all commands of one read are done
	if !a.mail.Swap(false) && !done && !a.nonces.answered() {
		return nil
	}
	inbox, err := a.readInbox(ctx)
	if err != nil {
		a.mail.Store(true)
		return err
	}
	read := len(inbox.Queue)
	if len(inbox.Queue) > 0 && len(a.inbox.Queue) > 0 && inbox.Queue[0].ID == a.inbox.Queue[0].ID {
		head, known := &inbox.Queue[0], &a.inbox.Queue[0] // only memory has these
		head.RefusedAt, head.RefusedSince = known.RefusedAt, known.RefusedSince
	}
	if inbox.Queue, err = a.alsoCancelled(ctx, inbox); err == nil {
		err = a.recall(ctx, inbox.Queue)
	}
	if err != nil {
		a.mail.Store(true)
		return err
	}
	a.inbox, a.truncated = inbox, read >= queueHeadOf(a.ledger.Submitter)
	return nil
}

// couldTake reports whether a slot is free and no queued transaction is known to be ready. The age
// of a waiting one is read from the ledger again.
func (a *actor) couldTake() bool {
	ready := len(a.inbox.Queue) > 0 && a.inbox.Queue[0].WaitingSince.IsZero()
	if a.ledger.Submitter.Limit > 1 {
		ready = ready && len(a.inbox.Queue) >= txn.UnusedSlots(a.ledger.Submitter, a.ledger.Open)
	}
	return !ready && txn.HasUnusedSlot(a.ledger.Submitter, a.ledger.Open)
}

// publishFacts publishes submitter and cursor for the auditor.
func (a *actor) publishFacts() {
	if published := a.auditFacts.Load(); published != nil && published.cursor == a.ledger.Cursor &&
		published.submitter == a.ledger.Submitter {
		return // cursors are never modified in place
	}
	a.auditFacts.Store(&auditFacts{submitter: a.ledger.Submitter, cursor: a.ledger.Cursor})
}

// alsoCancelled returns the head of the queue, and any transaction behind it that a command
// cancels. The cancel of a requeued transaction is applied by the owner, and nothing is allocated
// until the cancel is recorded.
func (a *actor) alsoCancelled(ctx context.Context, inbox store.Inbox) ([]txn.Tx, error) {
	queue := inbox.Queue
	if len(queue) < queueHeadOf(a.ledger.Submitter) { // the whole queue was read
		return queue, nil
	}
	for _, c := range inbox.Commands {
		if c.Kind != txn.CommandCancel || placeOf(queue, c.Tx) >= 0 ||
			placeOf(a.ledger.Open, c.Tx) >= 0 {
			continue
		}
		tx, err := a.queuedTx(ctx, c.Tx)
		if err != nil {
			return nil, err
		}
		if tx != nil {
			insert(&queue, tx, func(other *txn.Tx) bool { return other.QueueSeq >= tx.QueueSeq })
		}
	}
	return queue, nil
}

// queuedTx reads a transaction; nil if it is not in the queue of this submitter.
func (a *actor) queuedTx(ctx context.Context, id txn.TxID) (*txn.Tx, error) {
	tx, err := a.e.Store.Tx(ctx, id)
	switch {
	case errors.Is(err, store.ErrTxNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case tx.State != txn.Queued || tx.Submitter != a.id:
		return nil, nil
	}
	return &tx.Tx, nil
}

// recall restores the earlier attempts of requeued transactions. They are followed until the
// transaction is final, because it may be sent again only if none of them executed.
func (a *actor) recall(ctx context.Context, queue []txn.Tx) error {
	before := map[txn.TxID][]txn.Attempt{}
	for i := range a.inbox.Queue {
		if tx := &a.inbox.Queue[i]; len(tx.Attempts) > 0 {
			before[tx.ID] = tx.Attempts
		}
	}
	var read [][]txn.Attempt
	for i := range queue {
		tx := &queue[i]
		tx.Attempts = before[tx.ID]
		delete(before, tx.ID)
		if tx.Requeued == 0 || len(tx.Attempts) > 0 {
			continue
		}
		var err error
		if tx.Attempts, err = a.e.Store.SignedAttempts(ctx, a.lease, tx.ID); err != nil {
			return err
		}
		read = append(read, tx.Attempts)
	}
	for _, attempts := range read {
		a.follow(attempts, nil)
	}
	for _, attempts := range before { // a client cancelled it
		a.unfollow(attempts)
	}
	return nil
}

func (a *actor) follow(attempts []txn.Attempt, recorded *txn.Receipt) {
	for i := range attempts {
		a.track.Follow(attempts[i].Hash, recorded, a.wake)
	}
}

func (a *actor) load(ctx context.Context) error {
	ledger, err := a.e.Store.Load(ctx, a.lease)
	if err != nil {
		return err
	}
	tracker := a.e.trackers[ledger.Submitter.Chain]
	if tracker == nil {
		a.forget()
		return errForeign
	}
	audited, ended, err := a.finals(ctx, ledger, tracker.AuditReach(a.e.IdleAfter))
	if err != nil {
		return err
	}
	if err := a.readProtected(ctx, &ledger, audited); err != nil {
		return err
	}
	if err := a.compare(ctx, &ledger); err != nil {
		return err
	}
	a.forget()
	a.track, a.chain = tracker, a.e.chains[ledger.Submitter.Chain]
	a.chain.RecallPoolRules(ledger.PoolRules)
	a.name(ledger.Submitter.Name)
	for i := range ledger.Open {
		tx := &ledger.Open[i]
		a.follow(tx.Attempts, tx.Receipt)
		tx.Doubted = tx.WasBroadcast() // it may have been included while there was no owner
		tx.Pooled = mayBePooled(tx)
	}
	for i := range ended {
		a.follow(ended[i].Attempts, nil)
	}
	a.ledger, a.loaded = ledger, true
	a.head.Store(int32(queueHeadOf(ledger.Submitter)))
	a.audited, a.auditSent = audited, false
	a.ended = ended
	a.forgetReads()
	a.trial, a.trialOver = nil, false
	a.nonces = nonces{isolation: a.nonces.isolation}
	a.used = txn.UsedNonce{}
	for i := range a.inbox.Queue {
		a.inbox.Queue[i].Attempts = nil // no longer followed: refresh reads them again
	}
	a.publishFacts()
	a.mail.Store(true)
	return nil
}

// forgetReads drops all reads of the account.
func (a *actor) forgetReads() {
	a.account, a.suspicion = nil, nil
	a.nonceUse = nil
}

// mayBePooled returns the newest attempt of a loaded transaction that a pool may have. An original
// without a recorded outcome may have been broadcast by an owner that crashed; its next broadcast
// decides. A cancel transaction is left unchanged: a response that it can never be valid must be
// handled, because another with more gas may exist.
func mayBePooled(tx *txn.Tx) int {
	if tx.LastOutcome != "" || tx.Nonce == nil || len(tx.Attempts) == 0 {
		return tx.Pooled
	}
	newest := tx.Attempts[len(tx.Attempts)-1]
	if newest.Kind == txn.Cancel {
		return tx.Pooled
	}
	return max(tx.Pooled, newest.No)
}

// forget stops following every hash of this submitter, and the head.
func (a *actor) forget() {
	if a.track == nil {
		return
	}
	a.track.CancelWake(a.id)
	a.track.StopAudit(a.id)
	for _, txs := range [][]txn.Tx{a.ledger.Open, a.inbox.Queue, a.ended} {
		for i := range txs {
			a.unfollow(txs[i].Attempts)
		}
	}
}

func (a *actor) unfollow(attempts []txn.Attempt) {
	for i := range attempts {
		a.track.Unfollow(attempts[i].Hash)
	}
}

// view assembles the facts for one decision.
func (a *actor) view() *txn.View {
	a.awaitReorgs() // before the view is taken, so that no reorg is missed in between
	seen := a.track.View(a.ledger.Open, a.inbox.Queue, a.ended)
	v := &a.known
	*v = txn.View{
		Now:       a.e.Clock.Now(),
		Policy:    a.track.Policy(),
		Submitter: a.ledger.Submitter,
		Cursor:    a.ledger.Cursor,
		Open:      a.ledger.Open,
		Queue:     a.inbox.Queue,
		Commands:  a.inbox.Commands,
		Account:   a.account,
		Suspicion: a.suspicion,
		NonceUse:  a.nonceUse,
		Head:      seen.Head,
		BlockAt:   seen.BlockAt,
		Inclusion: seen.Inclusion,
		Canonical: seen.Canonical,

		FailedOver:  a.ledger.FailedOver,
		MayHaveLost: a.ledger.MayHaveLost,
		Trial:       a.trial,
		TrialOver:   a.trialOver,
		Lost:        a.missing,
		Twin:        a.twinChecks > 0,
		Refuse:      a.e.Refuse,
		External:    a.nonces.view(a.ledger.Nonces),
	}
	a.dropSettled(v)
	a.publishSettled(v)
	v.Audited, v.NotExecuted = a.audited, a.ended
	return v
}

// waitsForHead reports whether the next block alone may create work: a second account read,
// receipts, or a decision that needs either.
func (a *actor) waitsForHead() bool {
	if a.suspicion != nil || len(a.inbox.Commands) > 0 {
		return true
	}
	for i := range a.ledger.Open {
		if a.ledger.Open[i].Doubted {
			return true
		}
	}
	return false
}

// rereadAfter is the idle time after which the account is read again before the next nonce is
// taken. A busy submitter notices another user of its key by the responses to its own transactions;
// an idle one does not. It is longer than the pauses between the transactions of a busy submitter.
const rereadAfter = 5 * time.Second

// step does the next thing, or rests. Its stack is shallow at rest: the stacks of resting actors
// are most of their memory.
func (a *actor) step(ctx context.Context) error {
	rest, err := a.act(ctx)
	if rest == nil || err != nil {
		return err
	}
	return a.rest(ctx, rest)
}

// resting is the state that rest needs.
type resting struct {
	now   time.Time
	until time.Time // next scheduled work; zero: none
	idle  bool      // nothing to follow either
}

// act performs the next step, if there is one.
func (a *actor) act(ctx context.Context) (*resting, error) {
	if a.waitsForHead() {
		a.track.WakeOnHead(a.id, a.wake)
	}
	if now := a.e.Clock.Now(); now.Sub(a.busyAt) > rereadAfter ||
		now.Sub(a.accountAt) > a.e.AccountMaxAge {
		a.account = nil
	}
	view := a.view()
	next := txn.Decide(view)
	if rest, ok := next.(txn.Rest); ok {
		r := resting{
			now:   view.Now,
			until: rest.Until,
			idle: len(view.Open) == 0 && len(view.Queue) == 0 &&
				len(view.External.Nonces) == 0,
		}
		*view = txn.View{} // release the blocks it references while the actor rests
		return &r, nil
	}
	if a.e.keeper.checkDeadline(a.id); ctx.Err() != nil {
		return nil, ctx.Err() // the ledger read may have taken long
	}
	traced, endTrace := a.traceStep(ctx, view, next)
	did, err := a.perform(traced, view, next)
	a.busyAt = a.e.Clock.Now() // a slow step is not idle time: its account read stays valid
	if err != nil {
		endTrace(store.Done, err)
		return nil, err
	}
	if did.change.Empty() {
		endTrace(store.Done, nil)
		did.remembered()
		return nil, nil
	}
	change := did.change
	outcome, err := a.e.Store.Commit(a.lease, change)
	endTrace(outcome, err)
	a.busyAt = a.e.Clock.Now() // a slow commit is not idle time either
	a.logCommit(ctx, next, &change, outcome)
	if outcome == store.Done {
		a.conflicts = 0
		did.remembered()
		a.apply(view, &change)
		return nil, a.e.Gate(ctx, afterCommit(next), a.id)
	}
	if outcome == store.Refused && a.nonces.isolate(change.Nonces) {
		a.log.Error("change about nonces rejected; isolating the request",
			"error", fmt.Errorf("%w: %w", ErrCommitRejected, err))
		a.loaded = false
		return nil, nil
	}
	return nil, a.notDone(ctx, outcome, err)
}

func afterCommit(s txn.Step) Point {
	switch s.(type) {
	case txn.Prepare, txn.PrepareRange:
		return AfterAllocate
	case *txn.Replace:
		return AfterRecordReplacement
	case txn.Broadcast, txn.BroadcastRange:
		return AfterRecordSend
	}
	return AfterRecord
}

// rest waits until a wake-up, the scheduled time, or the idle timeout.
func (a *actor) rest(ctx context.Context, r *resting) error {
	until := r.now.Add(a.e.IdleAfter)
	if r.idle {
		until = a.neededUntil()
		if !until.After(r.now) {
			return errIdle
		}
	} else {
		defer func() { a.busyAt = a.e.Clock.Now() }()
	}
	if !r.until.IsZero() && r.until.Before(until) {
		until = r.until
	}
	if a.slotFree.Store(a.couldTake()); a.slotFree.Load() && a.more.Load() {
		return nil // queued before slotFree was set, so without a wake-up
	}
	timer := a.e.Clock.NewTimer(until.Sub(r.now))
	defer timer.Stop()
	a.betweenSteps()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.wakes:
	case <-timer.C:
	}
	return nil
}

// notDone handles any outcome other than done. Memory is never trusted afterwards.
func (a *actor) notDone(ctx context.Context, outcome store.Outcome, cause error) error {
	a.loaded = false
	switch outcome {
	case store.Fenced:
		return errFenced
	case store.Conflict:
		a.conflicts++
		if a.conflicts > 1 {
			a.pause(ctx, txn.Backoff(a.conflicts-2))
		}
		return nil
	case store.Unsettled:
		a.log.Warn("commit outcome unknown; reacquiring lease",
			"error", cause)
		return a.reacquire(ctx)
	case store.Unreached:
		if ctx.Err() == nil {
			a.log.Warn("database unreachable; retrying", "error", cause)
		}
		a.pause(ctx, txn.Backoff(1))
		return nil
	default:
		a.log.Error("commit rejected; submitter waits for an operator",
			"error", fmt.Errorf("%w: %w", ErrCommitRejected, cause))
		a.pause(ctx, quarantine)
		return nil
	}
}

// quarantine is the wait before the retry after a rejected change or a panic.
const quarantine = 30 * time.Second

func (a *actor) pause(ctx context.Context, d time.Duration) {
	a.betweenSteps()
	defer a.insideStep()
	_ = clock.Sleep(ctx, a.e.Clock, d) // the caller checks ctx
}
