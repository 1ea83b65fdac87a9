package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// actor owns one submitter. It is one goroutine that takes one step after the other; what it has in memory is a cache of the ledger, which nobody else may
// write while its lease lives.
type actor struct {
	e     *Engine
	id    txn.SubmitterID
	lease *store.Lease
	lost  context.CancelFunc
	chain OwnerChain
	track *track.Tracker
	log   *slog.Logger

	progress               // what the keeper knows of it
	wakes    chan struct{} // something may have changed; no data
	mail     atomic.Bool   // callers may have written: read the inbox before the next step
	more     atomic.Bool   // transactions may have been queued: read the inbox before the next step that could take one
	hungry   atomic.Bool   // when it began to rest it could have taken one

	standing atomic.Pointer[standing] // for the auditor; nil before the ledger was read

	loaded    bool
	ledger    store.Ledger
	inbox     store.Inbox
	audited   []txn.Finished // a reorg could still reach them
	auditTold bool           // the tracker knows of these
	ended     []txn.Tx       // final as never run, and a reorg could still let a signed form of theirs run, all of which are followed
	headAt    headSeen
	known     txn.View // what the step under way goes by
	account   *txn.Account
	suspicion *txn.Suspicion
	warned    *txn.Suspicion // that was told loudly
	used      txn.UsedNonce  // by the last account read
	nonceUse  *txn.NonceUse  // for the decision of an operator
	conflicts int            // in a row
	busyAt    time.Time      // last time that there was anything to follow or to do
}

// errIdle ends an actor that has had nothing to do for a while; its lease is given back.
var errIdle = errors.New("nothing to do")

// errFenced ends an actor whose lease is another's now.
var errFenced = errors.New("fenced")

// errForeign ends an actor whose chain this node does not work on; its lease is given back.
var errForeign = errors.New("chain is not configured on this node")

// errDefect ends an actor that panicked.
var errDefect = errors.New("a defect stopped it")

func newActor(e *Engine, l *store.Lease, lost context.CancelFunc) *actor {
	a := &actor{
		e: e, id: l.Submitter(), lost: lost, wakes: make(chan struct{}, 1), busyAt: e.Clock.Now(),
	}
	a.adopt(l)
	a.mail.Store(true)
	return a
}

// adopt puts a new lease under the actor.
func (a *actor) adopt(l *store.Lease) {
	a.lease = l
	a.loaded = false
	a.name("")
	if !a.e.keeper.hold(l, a) {
		a.e.router.surrender(l)
	}
}

// name gives the log what each of its lines shall tell.
func (a *actor) name(submitter string) {
	a.log = a.e.Logger.With("submitter_id", int(a.id), "fencing_token", int64(a.lease.Token()))
	if submitter != "" {
		a.log = a.log.With("submitter", submitter)
	}
}

// wake makes the actor look again.
func (a *actor) wake() {
	select {
	case a.wakes <- struct{}{}:
	default:
	}
}

// deliver says that callers may have written for this submitter.
func (a *actor) deliver() {
	a.mail.Store(true)
	a.wake()
}

// queue says that transactions may have been queued for this submitter. Who rests and could not take one need not hear of it: a queue may grow a thousand times
// while one transaction is under way.
func (a *actor) queue() {
	a.more.Store(true)
	if a.hungry.Load() {
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
			a.log.Warn("the ledger cannot be read; trying again", "error", err)
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

// refresh reads what memory lacks: the ledger after an acquisition or a conflict, the inbox after a delivery.
func (a *actor) refresh(ctx context.Context) error {
	if !a.loaded {
		if err := a.load(ctx); err != nil {
			return err
		}
	}
	if a.couldTake() && a.more.Swap(false) {
		a.mail.Store(true)
	}
	done := a.inbox.More && len(a.inbox.Commands) == 0 // with those of one look
	if !a.mail.Swap(false) && !done {
		return nil
	}
	inbox, err := a.e.router.inboxes.get(ctx, a.id)
	if err != nil {
		a.mail.Store(true)
		return err
	}
	if len(inbox.Queue) > 0 && len(a.inbox.Queue) > 0 && inbox.Queue[0].ID == a.inbox.Queue[0].ID {
		inbox.Queue[0].RefusedAt = a.inbox.Queue[0].RefusedAt // what only memory knows
	}
	if inbox.Queue, err = a.alsoCancelled(ctx, inbox); err == nil {
		err = a.recall(ctx, inbox.Queue)
	}
	if err != nil {
		a.mail.Store(true)
		return err
	}
	a.inbox = inbox
	return nil
}

// couldTake tells whether a slot is free for what may be queued, and nothing is known to be, or only what waits: how long it has waited the ledger tells anew.
func (a *actor) couldTake() bool {
	ready := len(a.inbox.Queue) > 0 && a.inbox.Queue[0].WaitingSince.IsZero()
	return !ready && txn.HasUnusedSlot(a.ledger.Submitter, a.ledger.Open)
}

// stand shows the auditor where the cursor stands.
func (a *actor) stand() {
	if told := a.standing.Load(); told != nil && told.cursor == a.ledger.Cursor &&
		told.submitter == a.ledger.Submitter {
		return // a cursor is never changed in place
	}
	a.standing.Store(&standing{submitter: a.ledger.Submitter, cursor: a.ledger.Cursor})
}

// alsoCancelled is the head of the queue, and what is further behind and shall be cancelled: a wish about what was given back to the queue goes to its owner. That is
// here until the wish is written down, before which nothing is allocated.
func (a *actor) alsoCancelled(ctx context.Context, inbox store.Inbox) ([]txn.Tx, error) {
	queue := inbox.Queue
	if len(queue) < queueHead { // there is none further behind
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

// queuedTx reads a transaction; nil: it is not in the queue of this submitter.
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

// recall gives transactions that were given back to the queue their attempts of before: those are followed as long as it is not final, because whoever sends it
// again must know that none of them ran.
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
	for _, attempts := range before { // a caller has cancelled it
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
	a.forget()
	a.track, a.chain = tracker, a.e.chains[ledger.Submitter.Chain]
	a.name(ledger.Submitter.Name)
	for i := range ledger.Open {
		tx := &ledger.Open[i]
		a.follow(tx.Attempts, tx.Receipt)
		tx.Doubted = tx.WasBroadcast() // nobody has looked while there was no owner
		tx.Pooled = mayBePooled(tx)
	}
	for i := range ended {
		a.follow(ended[i].Attempts, nil)
	}
	a.ledger, a.audited, a.auditTold, a.ended, a.account, a.suspicion, a.loaded = ledger, audited, false, ended, nil, nil, true
	a.used = txn.UsedNonce{}
	for i := range a.inbox.Queue {
		a.inbox.Queue[i].Attempts = nil // followed no more: they are read anew
	}
	a.stand()
	a.mail.Store(true)
	return nil
}

// mayBePooled is the newest form of what was just loaded that a pool may have. A first hand-over is told by its answer alone: whoever crashed before that was
// recorded may have made it. A form that cancels is left as it was: what a node says that it can never pass has to be heard, for there may be one with more gas.
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

// forget ends the following of every hash of this submitter, and of the head.
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

// view freezes what is known now.
func (a *actor) view() *txn.View {
	a.awaitReorgs() // before the view is taken: none falls between
	seen := a.track.View(a.ledger.Open, a.inbox.Queue, a.ended)
	v := &a.known
	*v = txn.View{
		Now: a.e.Clock.Now(), Policy: a.track.Policy(), Submitter: a.ledger.Submitter, Cursor: a.ledger.Cursor, Open: a.ledger.Open,
		Queue: a.inbox.Queue, Commands: a.inbox.Commands, Account: a.account, Suspicion: a.suspicion, NonceUse: a.nonceUse, Head: seen.Head, Inclusion: seen.Inclusion,
		Canonical: seen.Canonical,
	}
	a.letGo(v)
	v.Audited, v.NotExecuted = a.audited, a.ended
	return v
}

// waitsForHead tells whether the next block alone may make something to do: a second look, an answer about receipts, a decision that waits for either.
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

// lookAgainAfter is the idle spell after which the account is looked at again before the next nonce is taken. A submitter at work would notice another user of
// its key by the answers to its own transactions; one that rested cannot, and one more look costs it nothing then. It is longer than what passes between the
// transactions of a busy one.
const lookAgainAfter = 5 * time.Second

// step does the one next thing, or rests. It stands on little while it rests: the stacks of owners that rest are most of what they cost.
func (a *actor) step(ctx context.Context) error {
	rest, err := a.act(ctx)
	if rest == nil || err != nil {
		return err
	}
	return a.rest(ctx, rest)
}

// resting is what an owner knows when there is nothing to do.
type resting struct {
	now   time.Time
	until time.Time // the decision named; zero: none
	idle  bool      // there is nothing to follow either
}

// act does the one next thing, if there is one.
func (a *actor) act(ctx context.Context) (*resting, error) {
	if a.waitsForHead() {
		a.track.WakeOnHead(a.id, a.wake)
	}
	if a.e.Clock.Now().Sub(a.busyAt) > lookAgainAfter {
		a.account = nil
	}
	view := a.view()
	next := txn.Decide(view)
	if rest, ok := next.(txn.Rest); ok {
		r := resting{
			now:   view.Now,
			until: rest.Until,
			idle:  len(view.Open) == 0 && len(view.Queue) == 0,
		}
		*view = txn.View{} // it has blocks of its own, as soon as the chain goes on
		return &r, nil
	}
	if a.e.keeper.overdue(a.id); ctx.Err() != nil {
		return nil, ctx.Err() // to read the ledger may have taken long
	}
	did, err := a.perform(ctx, view, next)
	a.busyAt = a.e.Clock.Now() // what took long was no rest: a slow look is used all the same
	if err != nil {
		return nil, err
	}
	if did.change.Empty() {
		did.remembered()
		return nil, nil
	}
	change := did.change
	outcome, err := a.e.Store.Commit(a.lease, change)
	a.busyAt = a.e.Clock.Now() // however long that took among thousands of others, it was work and no rest
	a.tellCommit(ctx, next, &change, outcome)
	if outcome == store.Done {
		a.conflicts = 0
		did.remembered()
		a.apply(view, &change)
		return nil, a.e.Gate(ctx, afterCommit(next), a.id)
	}
	return nil, a.notDone(ctx, outcome, err)
}

func afterCommit(s txn.Step) Point {
	switch s.(type) {
	case txn.Prepare:
		return AfterAllocate
	case *txn.Replace:
		return AfterRecordReplacement
	case txn.Broadcast:
		return AfterRecordSend
	}
	return AfterRecord
}

// rest waits to be woken, for the time that the decision named, or until the actor counts as idle.
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
	if a.hungry.Store(a.couldTake()); a.hungry.Load() && a.more.Load() {
		return nil // came before anybody could see that it was worth a wake-up
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

// notDone decides what an outcome other than done allows. Whatever it was, memory is not to be trusted any more.
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
		a.log.Warn("the fate of a commit is unknown; acquiring the lease anew before going on",
			"error", cause)
		return a.reacquire(ctx)
	case store.Unreached:
		if ctx.Err() == nil {
			a.log.Warn("the database cannot be reached; trying again", "error", cause)
		}
		a.pause(ctx, txn.Backoff(1))
		return nil
	default:
		a.log.Error(
			"the database refuses a change; this submitter waits, which needs an operator's look",
			"error", cause)
		a.pause(ctx, quarantine)
		return nil
	}
}

// quarantine is how long a submitter whose change is refused waits before it is tried again.
const quarantine = 30 * time.Second

func (a *actor) pause(ctx context.Context, d time.Duration) {
	a.betweenSteps()
	defer a.insideStep()
	_ = clock.Sleep(ctx, a.e.Clock, d) // an early end is seen by the caller's loop
}
