package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// LawHistory is the law that the hash chains keep: history is only added to.
const LawHistory = "A1"

// chainPage is how many transactions or commands are read at once.
const chainPage = 500

// ChainReport is the result of verifying hash chains.
type ChainReport struct {
	Transactions, Events, Commands int
	// rows that are older than the hashes
	Unhashed int
	// transactions whose events are in an archive, and checkpoints of such events: neither can be
	// verified here
	Archived   int
	Violations []Violation
}

func (r *ChainReport) report(check string, tx *uuid.UUID, format string, values ...any) {
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, Violation{Law: LawHistory, Check: check,
			Tx: (*txn.TxID)(tx), What: fmt.Sprintf(format, values...), Values: values})
	}
}

// ChainLine is a row with a hash, for exports.
type ChainLine struct {
	Type    string `json:"type"` // intent, event, command or result
	Content string `json:"content"`
	Chain   string `json:"chain,omitempty"` // hex; empty: older than the hashes, or has none
}

// VerifyChain verifies the hashes of all intents, events and commands of a submitter in one
// snapshot, and passes each to visit, unless that is nil.
func (s *Store) VerifyChain(ctx context.Context, submitter txn.SubmitterID,
	visit func(ChainLine) error) (ChainReport, error) {
	v := &chainVerifier{id: int32(submitter), visit: visit, key: s.cfg.IntentKey}
	if visit == nil {
		v.visit = func(ChainLine) error { return nil }
	}
	err := s.snapshot(ctx, func(q *db.Queries) error {
		if err := q.SetStatementTimeout(ctx, millis(auditLimit)); err != nil {
			return err
		}
		if err := v.transactions(ctx, q); err != nil {
			return err
		}
		return v.commands(ctx, q)
	})
	return v.ChainReport,
		s.failed(ctx, fmt.Sprintf("verify the history of submitter %d", submitter), err)
}

// chainVerifier verifies the chains of one submitter.
type chainVerifier struct {
	ChainReport
	id    int32
	visit func(ChainLine) error
	key   []byte // of authentication codes; empty: they are not verified
}

func (v *chainVerifier) transactions(ctx context.Context, q *db.Queries) error {
	for after := (uuid.UUID{}); ; {
		txs, err := q.ChainedTxs(ctx,
			db.ChainedTxsParams{SubmitterID: v.id, After: after, MaxRows: chainPage})
		if err != nil {
			return err
		}
		last := uuid.UUID(bytes.Repeat([]byte{0xff}, 16))
		if len(txs) == chainPage {
			last = txs[chainPage-1].ManagedTx.TxID
		}
		events, err := q.ChainedEvents(ctx,
			db.ChainedEventsParams{SubmitterID: v.id, After: after, Last: last})
		if err != nil {
			return err
		}
		if err := v.page(txs, events); err != nil || len(txs) < chainPage {
			return err
		}
		after = last
	}
}

// page verifies transactions and their events, both in the order of ids.
func (v *chainVerifier) page(txs []db.ChainedTxsRow, events []db.ChainedEventsRow) error {
	events, err := v.account(events)
	if err != nil {
		return err
	}
	for i := range txs {
		id := txs[i].ManagedTx.TxID
		for len(events) > 0 && bytes.Compare(events[0].TxID[:], id[:]) < 0 {
			v.report("event_without_tx", &events[0].TxID, "event %d has no transaction",
				events[0].Seq)
			events = events[1:]
		}
		n := 0
		for n < len(events) && events[n].TxID == id {
			n++
		}
		if err := v.transaction(&txs[i], events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	for i := range events {
		v.report("event_without_tx", &events[i].TxID, "event %d has no transaction", events[i].Seq)
	}
	return nil
}

// account verifies the events of the account itself, which come first, and returns the others.
func (v *chainVerifier) account(
	events []db.ChainedEventsRow) (others []db.ChainedEventsRow, err error) {
	stream := uuid.UUID(txn.AccountStream(txn.SubmitterID(v.id)))
	n := 0
	for n < len(events) && events[n].TxID == stream {
		n++
	}
	return events[n:], v.events(&stream, nil, events[:n])
}

func (v *chainVerifier) transaction(row *db.ChainedTxsRow, events []db.ChainedEventsRow) error {
	v.Transactions++
	r := &row.ManagedTx
	if err := v.visit(ChainLine{Type: "intent", Content: row.Content}); err != nil {
		return err
	}
	tx, err := toTx(*r)
	if r.TrimmedAt != nil {
		v.Archived++
		return nil
	}
	if err != nil || txn.RequestHash(tx.Payload, tx.Terms) != tx.RequestHash {
		v.report("intent_changed", &r.TxID, "payload or terms differ from the hash of the request")
	} else if len(v.key) > 0 && tx.Verify(v.key, false) != nil {
		v.report("intent_unverified", &r.TxID,
			"the intent or its approval does not match its authentication code")
	}
	v.approval(r, events)
	intent := sha256.Sum256([]byte(row.Content))
	if err := v.events(&r.TxID, intent[:], events); err != nil {
		return err
	}
	if n := len(events); n == 0 || events[n-1].Seq != r.Version ||
		events[n-1].State != r.State || events[n-1].Executed != r.Executed {
		v.report("tx_changed", &r.TxID, "state differs from the last event")
	}
	return nil
}

// events verifies the hashes of the events of one transaction, the first of which follows another
// hash.
func (v *chainVerifier) events(id *uuid.UUID, previous []byte,
	events []db.ChainedEventsRow) error {
	hashed := false
	for i := range events {
		e := &events[i]
		v.Events++
		line := ChainLine{Type: "event", Content: e.Content, Chain: hex.EncodeToString(e.Chain)}
		if err := v.visit(line); err != nil {
			return err
		}
		if e.Seq != int64(i)+1 {
			v.report("event_missing", id, "event %d is missing", int64(i)+1)
			return nil
		}
		switch sum := sha256.Sum256(append(bytes.Clone(previous), e.Content...)); {
		case e.Chain == nil && hashed:
			v.report("event_unhashed", id, "event %d has no hash", e.Seq)
		case e.Chain == nil:
			v.Unhashed++
		case !bytes.Equal(sum[:], e.Chain):
			v.report("event_changed", id, "event %d, one before it, or the intent was changed",
				e.Seq)
		}
		previous, hashed = e.Chain, e.Chain != nil
	}
	return nil
}

// approval verifies that a transaction which was accepted on condition of an approval still needs
// it, and that no other event approved one.
func (v *chainVerifier) approval(r *db.ManagedTx, events []db.ChainedEventsRow) {
	state := txn.ApprovalState(r.Approval)
	awaited := len(events) > 0 && txn.Sub(events[0].SubState) == txn.AwaitingApproval
	approved := slices.ContainsFunc(events, func(e db.ChainedEventsRow) bool {
		return txn.Kind(e.Kind) == txn.EventApproved
	})
	if awaited != (state != txn.NoApproval) || approved != (state == txn.ApprovalGiven) {
		v.report("approval_changed", &r.TxID, "approval %q differs from the events", r.Approval)
	}
}

func (v *chainVerifier) commands(ctx context.Context, q *db.Queries) error {
	for after := int64(math.MinInt64); ; {
		rows, err := q.ChainedCommands(ctx,
			db.ChainedCommandsParams{SubmitterID: v.id, After: after, MaxRows: chainPage})
		if err != nil {
			return err
		}
		for i := range rows {
			if err := v.command(&rows[i]); err != nil {
				return err
			}
			after = rows[i].CommandID
		}
		if len(rows) < chainPage {
			return nil
		}
	}
}

func (v *chainVerifier) command(r *db.ChainedCommandsRow) error {
	v.Commands++
	line := ChainLine{Type: "command", Content: r.Content, Chain: hex.EncodeToString(r.Chain)}
	if err := v.visit(line); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(r.Content))
	if r.Applied {
		sum = sha256.Sum256(append(sum[:], r.Outcome...))
		if err := v.visit(ChainLine{Type: "result", Content: r.Outcome}); err != nil {
			return err
		}
	}
	switch {
	case r.Chain == nil:
		v.Unhashed++
	case !bytes.Equal(sum[:], r.Chain):
		v.report("command_changed", nil, "command %d was changed", r.CommandID)
	}
	return nil
}

// Checkpoint is the head of the history of all accounts at a moment.
type Checkpoint struct {
	Series   int64  `json:"series"`
	No       int64  `json:"no"`
	Events   int64  `json:"events"` // of its window
	Commands int64  `json:"commands"`
	Head     string `json:"head"` // hex
}

// checkpointEvents bounds the events of a checkpoint, and with them the time of its statement.
// After a move of the ledger, or without nodes that audit, there may be any number.
const checkpointEvents = 50_000

// AddCheckpoint hashes what was committed since the last checkpoint, and reports whether it added
// one: there is none while nothing new has ended. more: the next one can be added at once. Nodes
// may do so concurrently.
func (s *Store) AddCheckpoint(ctx context.Context) (added, more bool, err error) {
	return s.addCheckpoint(ctx, checkpointEvents)
}

func (s *Store) addCheckpoint(ctx context.Context, most int) (added, more bool, err error) {
	const verb = "add a checkpoint of the history"
	last, err := s.own().LastCheckpoint(ctx)
	if err != nil {
		return false, false, s.failed(ctx, verb, err)
	}
	next := db.InsertCheckpointParams{Series: last.Series, No: last.No + 1, Since: last.Upto,
		Upto: last.Xmin}
	switch {
	case last.Moved: // another server, whose numbers begin again
		next.Series++
		next.No, next.Since = 0, "0"
	case last.Upto == last.Xmin:
		return false, false, nil
	}
	if more, err = s.shorten(ctx, &next, most); err != nil {
		return false, false, s.failed(ctx, verb, err)
	}
	window, err := s.own().Window(ctx, db.WindowParams{Since: next.Since, Upto: next.Upto})
	if err != nil {
		return false, false, s.failed(ctx, verb, err)
	}
	if window.Events+window.Commands == 0 && !last.Moved && !more {
		return false, false, nil
	}
	next.Events, next.Commands = window.Events, window.Commands
	next.Digest = window.Digest
	next.Head = checkpointHead(last.Head, &next)
	n, err := s.own().InsertCheckpoint(ctx, next)
	return n == 1, more, s.failed(ctx, verb, err)
}

// beginSeries begins a series of checkpoints for events with other numbers. Its first window is
// empty, and the next one has everything.
func beginSeries(ctx context.Context, q *db.Queries) error {
	last, err := q.LastCheckpoint(ctx)
	if err != nil {
		return err
	}
	first := db.InsertCheckpointParams{Series: last.Series + 1, Since: "0", Upto: "0"}
	window, err := q.Window(ctx, db.WindowParams{Since: first.Since, Upto: first.Upto})
	if err != nil {
		return err
	}
	first.Digest = window.Digest
	first.Head = checkpointHead(last.Head, &first)
	_, err = q.InsertCheckpoint(ctx, first)
	return err
}

// shorten ends a checkpoint after about most events, and reports whether there are more.
func (s *Store) shorten(ctx context.Context, next *db.InsertCheckpointParams,
	most int) (more bool, err error) {
	end, err := s.own().WindowEnd(ctx, db.WindowEndParams{Since: next.Since, Most: int32(most)})
	if err != nil || end == "0" {
		return false, err
	}
	numbers := [3]uint64{}
	for i, text := range []string{end, next.Since, next.Upto} {
		if numbers[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return false, err
		}
	}
	upto := max(numbers[0], numbers[1]+1) // one transaction may have them all
	if upto >= numbers[2] {
		return false, nil
	}
	next.Upto = strconv.FormatUint(upto, 10)
	return true, nil
}

// checkpointHead hashes a checkpoint and the head before it.
func checkpointHead(previous []byte, c *db.InsertCheckpointParams) []byte {
	text := bytes.Clone(previous)
	for _, n := range []int64{c.Series, c.No, c.Events, c.Commands} {
		text = binary.BigEndian.AppendUint64(text, uint64(n))
	}
	text = append(append(text, c.Since+"-"+c.Upto+":"...), c.Digest...)
	sum := sha256.Sum256(text)
	return sum[:]
}

// VerifyCheckpoints verifies that no event and no applied command was removed, changed or added
// within the windows of the newest series, and returns the last checkpoint.
func (s *Store) VerifyCheckpoints(ctx context.Context) (r ChainReport, last Checkpoint, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) error {
		if err := q.SetStatementTimeout(ctx, millis(auditLimit)); err != nil {
			return err
		}
		all, err := q.Checkpoints(ctx)
		if err != nil {
			return err
		}
		var previous []byte
		for i, c := range all {
			if i > 0 {
				if err := r.checkpoint(ctx, q, previous, &c, all[len(all)-1].Series); err != nil {
					return err
				}
				if before := all[i-1]; c.Series == before.Series &&
					(c.No != before.No+1 || c.Since != before.Upto) {
					r.report("checkpoint_missing", nil, "checkpoint %d.%d does not follow %d.%d",
						c.Series, c.No, before.Series, before.No)
				}
			}
			previous = c.Head
			last = Checkpoint{Series: c.Series, No: c.No, Events: c.Events, Commands: c.Commands,
				Head: hex.EncodeToString(c.Head)}
		}
		if len(all) == 0 || all[0].Series != 1 || all[0].No != 0 {
			r.report("checkpoint_missing", nil, "the first checkpoint is missing")
		}
		return nil
	})
	return r, last, s.failed(ctx, "verify the checkpoints of the history", err)
}

func (r *ChainReport) checkpoint(ctx context.Context, q *db.Queries, previous []byte,
	c *db.CheckpointsRow, newest int64) error {
	head := checkpointHead(previous, &db.InsertCheckpointParams{Series: c.Series, No: c.No,
		Since: c.Since, Upto: c.Upto, Events: c.Events, Commands: c.Commands, Digest: c.Digest})
	if !bytes.Equal(head, c.Head) {
		r.report("checkpoint_changed", nil, "checkpoint %d.%d was changed", c.Series, c.No)
	}
	if c.Series != newest {
		return nil
	}
	if c.Archived {
		r.Archived++
		return nil
	}
	window, err := q.Window(ctx, db.WindowParams{Since: c.Since, Upto: c.Upto})
	if err != nil {
		return err
	}
	if !bytes.Equal(window.Digest, c.Digest) {
		r.report("history_changed", nil,
			"checkpoint %d.%d has %d events and %d commands, the ledger %d and %d, or others",
			c.Series, c.No, c.Events, c.Commands, window.Events, window.Commands)
	}
	return nil
}
