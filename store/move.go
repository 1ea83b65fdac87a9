package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrCannotMove is returned when an account cannot move to another ledger.
var ErrCannotMove = errors.New("the account cannot move")

// mover is the operator of the pause that a move asks for.
const mover = "move"

// moveStep is how far a move is, as the directory records it.
type moveStep string

const (
	moveNone   moveStep = ""       // the directory does not have the move
	moveBegun  moveStep = "BEGUN"  // the old ledger has the account
	moveSealed moveStep = "SEALED" // the old ledger has lost it for ever
	moveDone   moveStep = "DONE"   // the new ledger has it
)

// moveView is the state of a move: three databases change it, one commit at a time.
type moveView struct {
	step    moveStep
	sealed  bool // the old ledger has the tombstone of this move
	arrived bool // the new ledger has the account, by this move
	paused  bool // in the old ledger
	asked   bool // requests are pending in the old ledger, such as the pause
	rests   bool // paused, and nothing of it is open or pending in the old ledger
}

// moveAction is the next commit of a move.
type moveAction string

const (
	actBegin  moveAction = "begin"  // record the move in the directory
	actPause  moveAction = "pause"  // ask the owner to pause the account
	actWait   moveAction = "wait"   // until it rests
	actSeal   moveAction = "seal"   // set the tombstone in the old ledger
	actRecord moveAction = "record" // record the tombstone in the directory
	actCopy   moveAction = "copy"   // create the account in the new ledger, which may send then
	actFinish moveAction = "finish" // give the account to the new ledger in the directory
	actEnd    moveAction = "end"    // nothing is left to do
)

// next returns what to do next. The new ledger gets the account only once the directory has
// recorded the tombstone: an old ledger that is restored without it gets it again, before a node
// works there. A tombstone that the directory does not have yet may be lost in a restore: then the
// account is in the old ledger, and the move sets it again.
func (v moveView) next() moveAction {
	switch {
	case v.step == moveNone:
		return actBegin
	case v.step == moveBegun && v.sealed:
		return actRecord
	case v.step == moveBegun && !v.paused && !v.asked:
		return actPause
	case v.step == moveBegun && !v.rests:
		return actWait
	case !v.sealed:
		return actSeal
	case !v.arrived:
		return actCopy
	case v.step == moveSealed:
		return actFinish
	}
	return actEnd
}

// MoveProgress is reported before each step of a move.
type MoveProgress struct {
	Action string
	// Waits names what the account waits for, in words.
	Waits string
}

// MovedAccount is the result of a move.
type MovedAccount struct {
	Submitter    string
	From, To     string
	Transactions int64 // copied by this call; 0: an earlier one did
	Events       int64
	Paused       bool   // it was paused before, and still is
	Copied       bool   // by this call
	Left         string // the ledger that it has moved on to since
	Protected    bool   // a restore may have lost transactions of it: DATABASE_RESTORED
}

// AccountMove moves one account from a ledger to another one of the directory. Several commands may
// move the same account at the same time, and each may end at any point: another one resumes.
type AccountMove struct {
	from, to, directory *Store
	name                string
	id                  txn.SubmitterID
	fromNo, toNo        int32
	fromName, toName    string
	toEpoch             int64

	move    db.DirectoryMove
	done    MovedAccount
	tried   bool // the copy was, by this command
	held    bool // paused for this move, which can still be given up
	blocked int  // how often writers did not end in time for the tombstone
	// of tests: called around each commit; an error ends the command there
	at func(point string) error
}

// Run moves the account, and waits until it rests, looking every poll.
func (m *AccountMove) Run(ctx context.Context, poll time.Duration,
	report func(MoveProgress)) (MovedAccount, error) {
	var last moveAction
	for {
		view, waits, err := m.view(ctx)
		if err != nil {
			return m.done, m.failed(ctx, err)
		}
		action := view.next()
		report(MoveProgress{Action: string(action), Waits: waits})
		if action == actEnd {
			return m.done, m.failed(ctx, m.describeArrived(ctx))
		}
		if action == last {
			pause := poll * time.Duration(1+m.blocked)
			if clock.Sleep(ctx, m.from.clock, pause) != nil {
				return m.done, m.ended(ctx, waits)
			}
			last = ""
			continue
		}
		last = action
		if err = m.at("before " + string(action)); err == nil {
			err = m.act(ctx, action)
		}
		if err == nil {
			err = m.at("after " + string(action))
		}
		if err != nil {
			return m.done, m.failed(ctx, err)
		}
	}
}

func (m *AccountMove) act(ctx context.Context, action moveAction) error {
	switch action {
	case actBegin:
		return m.begin(ctx)
	case actPause:
		_, err := m.from.AddCommand(ctx, m.id, Ask{Kind: txn.CommandPause,
			Reason: fmt.Sprintf("moves to ledger %q", m.toName), Operator: mover})
		return err
	case actSeal:
		if err := m.tryOnce(ctx); err != nil {
			return err
		}
		return m.seal(ctx)
	case actRecord:
		return m.record(ctx)
	case actCopy:
		return m.copy(ctx)
	case actFinish:
		_, err := m.directory.read().FinishMove(ctx, m.move.MoveID)
		return err
	}
	return nil
}

// view reads the state of the move.
func (m *AccountMove) view(ctx context.Context) (v moveView, waits string, err error) {
	move, err := m.directory.read().MoveOf(ctx,
		db.MoveOfParams{SubmitterID: int32(m.id), FromNo: m.fromNo})
	if err != nil && !isNoRows(err) {
		return v, "", err
	}
	known := err == nil
	is, err := m.state(ctx, m.from.read())
	if err != nil {
		return v, "", err
	}
	if is.MovedTo != nil {
		if *is.MovedTo != m.toName {
			return v, "", fmt.Errorf("%w: it moved to ledger %q already; name that one",
				ErrCannotMove, *is.MovedTo)
		}
		other := move.MoveID != *is.MoveID || move.ToNo != m.toNo
		if !known || other && moveStep(move.Step) == moveBegun {
			return v, "", m.adopt(ctx, is)
		}
	}
	if !known {
		_, err := whatIsLeft(is)
		return v, "", err
	}
	m.move = move
	if is.MoveID != nil && *is.MoveID != move.MoveID {
		return v, "", fmt.Errorf("%w: ledger %q has the tombstone of another move; the directory "+
			"was restored, see docs/ledgers.md", ErrCannotMove, m.fromName)
	}
	if move.ToNo != m.toNo {
		if is.MoveID != nil || moveStep(move.Step) != moveBegun {
			return v, "", fmt.Errorf("%w: it moved to another ledger already (number %d in the "+
				"directory); name that one", ErrCannotMove, move.ToNo)
		}
		return v, "", m.redirect(ctx)
	}
	arrival, err := m.to.read().Arrival(ctx, int32(m.id))
	if err != nil && !isNoRows(err) {
		return v, "", err
	}
	v = moveView{step: moveStep(move.Step), sealed: is.MoveID != nil,
		arrived: err == nil && arrival.MoveID == move.MoveID,
		paused:  txn.SubmitterStatus(is.Status) == txn.Paused, asked: is.Requests > 0}
	if v.step != moveBegun && !v.arrived {
		if err := m.notGone(ctx); err != nil {
			return v, "", err
		}
	}
	waits, err = whatIsLeft(is)
	if v.sealed || v.step != moveBegun {
		waits, err = "", nil
	}
	v.rests = v.paused && waits == ""
	m.held = v.step == moveBegun && !v.sealed && (v.paused || v.asked)
	return v, waits, err
}

// notGone checks that the account, which the new ledger does not have, has not left it since.
func (m *AccountMove) notGone(ctx context.Context) error {
	_, err := m.directory.read().MoveOf(ctx,
		db.MoveOfParams{SubmitterID: int32(m.id), FromNo: m.toNo})
	if isNoRows(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: it has left ledger %q since", ErrCannotMove, m.toName)
	}
	return err
}

// adopt records the tombstone of this move in a directory that was restored and lacks it.
func (m *AccountMove) adopt(ctx context.Context, is db.MoveStateRow) error {
	return pgx.BeginFunc(ctx, m.directory.taker, func(tx pgx.Tx) error {
		q := db.New(tx)
		err := q.ClaimAccounts(ctx, db.ClaimAccountsParams{No: m.fromNo, Names: []string{m.name},
			ChainIds: []int64{is.ChainID}, Addresses: [][]byte{is.Address}})
		if err != nil {
			return err
		}
		return q.AdoptMove(ctx, db.AdoptMoveParams{MoveID: *is.MoveID, SubmitterID: int32(m.id),
			Name: m.name, FromNo: m.fromNo, ToNo: m.toNo})
	})
}

// state reads the account in the old ledger.
func (m *AccountMove) state(ctx context.Context, q *db.Queries) (db.MoveStateRow, error) {
	return q.MoveState(ctx, db.MoveStateParams{SubmitterID: int32(m.id), Mover: mover})
}

// isSealed reports whether the old ledger has the tombstone of this move.
func (m *AccountMove) isSealed(is db.MoveStateRow) bool {
	return is.MoveID != nil && *is.MoveID == m.move.MoveID && *is.MovedTo == m.toName
}

// whatIsLeft names what an account waits for before it rests; an error: that does not end without
// an operator.
func whatIsLeft(is db.MoveStateRow) (string, error) {
	switch {
	case is.Pooled:
		return "", fmt.Errorf("%w: it is or was a member of a pool, whose keys stay in the ledger",
			ErrCannotMove)
	case is.ProtectReason != "":
		return "", fmt.Errorf("%w: it is protected (%s); decide with \"fencepost submitter "+
			"exit-protect\" first", ErrCannotMove, is.ProtectReason)
	case is.Reserved > 0:
		return "", fmt.Errorf("%w: %s of clients not ACCEPTED; wait, or decide with \"fencepost "+
			"nonce list %s\"", ErrCannotMove, count(is.Reserved, "nonce", "nonces"), is.Name)
	case is.Awaiting > 0:
		return "", fmt.Errorf("%w: %s awaiting approval; approve or deny, see \"fencepost tx list "+
			"--submitter %s --awaiting-approval\"", ErrCannotMove,
			count(is.Awaiting, "transaction", "transactions"), is.Name)
	case is.OpenTxs > 0:
		return count(is.OpenTxs, "transaction", "transactions") + " in flight", nil
	case is.TopUps > 0:
		return count(is.TopUps, "top-up", "top-ups") + " under way", nil
	case is.Requests > 0:
		return fmt.Sprintf("%s not applied by a node yet; see \"fencepost submitter log %s\"",
			count(is.Requests, "command or nonce request", "commands or nonce requests"),
			is.Name), nil
	}
	return "", nil
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// begin records the move, after it has tried the copy.
func (m *AccountMove) begin(ctx context.Context) error {
	is, err := m.state(ctx, m.from.read())
	if err != nil {
		return err
	}
	claims, err := m.directory.read().ClaimsLike(ctx, db.ClaimsLikeParams{Name: m.name,
		ChainID: is.ChainID, Address: is.Address})
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.No != m.fromNo {
			return fmt.Errorf("%w: the directory has it in ledger %q", ErrCannotMove, c.Ledger)
		}
	}
	if len(claims) != 1 {
		return fmt.Errorf("%w: the directory does not have it; run \"fencepost ledger join\" again",
			ErrCannotMove)
	}
	m.move = db.DirectoryMove{MoveID: uuid.New(), Resume: true}
	if err := m.tryOnce(ctx); err != nil {
		return err
	}
	return m.directory.read().BeginMove(ctx, db.BeginMoveParams{
		MoveID: m.move.MoveID, SubmitterID: int32(m.id), Name: m.name, FromNo: m.fromNo,
		ToNo: m.toNo, Resume: txn.SubmitterStatus(is.Status) == txn.Active})
}

// redirect changes the ledger of a move that was given up before its tombstone.
func (m *AccountMove) redirect(ctx context.Context) error {
	return pgx.BeginFunc(ctx, m.directory.taker, func(tx pgx.Tx) error {
		q := db.New(tx)
		move, err := q.LockMove(ctx, m.move.MoveID)
		if err != nil {
			return err
		}
		// No other command sets a tombstone while the row is locked.
		is, err := m.state(ctx, m.from.read())
		if err != nil || is.MovedTo != nil || moveStep(move.Step) != moveBegun {
			return err
		}
		_, err = q.RedirectMove(ctx, db.RedirectMoveParams{MoveID: move.MoveID, ToNo: m.toNo})
		return err
	})
}

// All writers of the ledger wait for a tombstone that waits for the statement of one of them. So it
// waits for less than a call does, and each time that was too short, the move pauses for longer.
const (
	sealPatience = 100 * time.Millisecond
	mostPauses   = 30 // of poll
)

// seal sets the tombstone, while no other command takes a step of this move. If the account does
// not rest any more, or writers do not end in time, it changes nothing, and the move tries again.
func (m *AccountMove) seal(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, m.directory.taker, func(directory pgx.Tx) error {
		move, err := db.New(directory).LockMove(ctx, m.move.MoveID)
		if err != nil || move.ToNo != m.toNo {
			return err
		}
		return pgx.BeginFunc(ctx, m.from.taker, func(tx pgx.Tx) error {
			if err := m.sealHere(ctx, tx, moveStep(move.Step)); err != nil {
				return err
			}
			return m.at("in seal")
		})
	})
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && pg.Code == lockNotAvailable {
		m.from.log.Warn("tombstone not set; writers did not end in time; retrying", "submitter",
			m.name)
		m.blocked = min(m.blocked+1, mostPauses-1)
		return nil
	}
	return err
}

func (m *AccountMove) sealHere(ctx context.Context, tx pgx.Tx, step moveStep) error {
	q := db.New(tx)
	older, err := q.OlderNodes(ctx, movedSchema)
	if err != nil {
		return err
	}
	if len(older) > 0 {
		return fmt.Errorf("%w: %w: node %s", ErrCannotMove, ErrOlderNodes, older[0])
	}
	if err := q.SetLockTimeout(ctx, millis(sealPatience)); err != nil {
		return err
	}
	if step != moveBegun { // the tombstone was lost in a restore
		if err := q.KeepOldProgramsOut(ctx, movedSchema); err != nil {
			return err
		}
		return sealAll(ctx, tx, []db.MovedAwayRow{{SubmitterID: int32(m.id), Name: m.name,
			MoveID: m.move.MoveID, Ledger: m.toName}})
	}
	if err := lockAccount(ctx, q, m.id); err != nil {
		return err
	}
	is, err := m.state(ctx, q)
	if err != nil || is.MovedTo != nil {
		return err
	}
	waits, err := whatIsLeft(is)
	if err != nil || waits != "" || txn.SubmitterStatus(is.Status) != txn.Paused {
		return err
	}
	if err := q.KeepOldProgramsOut(ctx, movedSchema); err != nil {
		return err
	}
	return seal(ctx, q, m.id, 1, db.SealSubmitterParams{MoveID: m.move.MoveID, Ledger: m.toName,
		ToEpoch: m.toEpoch})
}

// record records the tombstone of the old ledger in the directory: from now on the old ledger gets
// it again if it loses it.
func (m *AccountMove) record(ctx context.Context) error {
	is, err := m.state(ctx, m.from.read())
	if err != nil || !m.isSealed(is) {
		return err
	}
	_, err = m.directory.read().SealMove(ctx, db.SealMoveParams{MoveID: m.move.MoveID,
		Resume: is.OwnPause, Token: is.FencingToken, ToEpoch: is.MoveEpoch})
	return err
}

func (m *AccountMove) failed(ctx context.Context, err error) error {
	verb := fmt.Sprintf("move submitter %q", m.name)
	switch pg, _ := errors.AsType[*pgconn.PgError](err); {
	case err == nil:
		return nil
	case pg != nil && pg.Code == notPermitted:
		return fmt.Errorf("store: %s: a role does not own the tables of its database; run this "+
			"as the owner", verb)
	case pg == nil && (errors.Is(err, ErrCannotMove) || errors.Is(err, ErrSubmitterNotFound) ||
		errors.Is(err, errStopped)):
		paused := ""
		if m.held {
			paused = fmt.Sprintf("; the account stays paused: give up with %s", m.giveUp())
		}
		return fmt.Errorf("store: %s: %w%s", verb, err, paused)
	case ctx.Err() != nil:
		return m.ended(ctx, "")
	}
	return m.from.failed(ctx, verb, err)
}

// ended is the error of a command that ended early; waits is the reason for the wait.
func (m *AccountMove) ended(ctx context.Context, waits string) error {
	if waits != "" {
		waits = ": " + waits
	}
	next := "repeat the command to resume it"
	if m.held {
		next = "the account stays paused: repeat the command, or give up with " + m.giveUp()
	}
	return fmt.Errorf("store: move submitter %q: %w%s; %s", m.name, context.Cause(ctx), waits, next)
}

// giveUp is the command that ends the pause of a move without a tombstone.
func (m *AccountMove) giveUp() string {
	return fmt.Sprintf("\"fencepost submitter resume %s\"", m.name)
}

// errStopped ends a command between two steps, in tests.
var errStopped = errors.New("stopped")
