package e2e

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// commitCase is one kind of commit: its preconditions, its trigger, its signature on the wire, and
// the rows it writes.
type commitCase struct {
	name string
	// mined after the transaction was sent, before the trigger; -1: there is no transaction yet
	blocks  int
	before  func(*frozen, *member)             // further preconditions; nil: none
	payload func(*frozen) *fencepostv1.Payload // nil: a transfer
	trigger func(*frozen)
	mines   bool // blocks are made until the commit is seen
	match   func(fenced) bool
	event   txn.Kind        // that it writes, if any
	command txn.CommandKind // that it ends, if any

	// lets the other node take over and finish
	meanwhile func(*frozen, *member)
	// Reverts on the other node the state that the held commit writes as well. Then only the fence
	// prevents the old commit: a pause expects nothing of any row, and a protection only the nonce
	// of the cursor.
	undo func(*frozen, *member)
	// a command to the frozen node after it, so that another transaction can be sent
	after func(*frozen, *member)
}

// commitCases are all kinds of commit. One statement writes under a lease, so its kinds are the
// possible contents of a txn.Change: each part of it, each event and each command has a case, which
// TestFence_EveryCommitKindCovered checks. A part with several reasons (decision of an operator or
// of the owner; with or without skipped nonces; from a queue, a pool or a final state) has a case
// for each.
var commitCases = []commitCase{
	{name: "cursor init", blocks: -1, trigger: (*frozen).create, match: fenced.startsCursor},
	{
		name:    "delayed",
		blocks:  -1,
		payload: (*frozen).reverting,
		trigger: (*frozen).create,
		match:   moves(txn.EventDelayed),
		event:   txn.EventDelayed,
	},
	{
		name:    "allocation",
		blocks:  -1,
		trigger: (*frozen).create,
		match:   moves(txn.EventAllocated),
		event:   txn.EventAllocated,
	},
	{
		name:    "sent",
		blocks:  -1,
		trigger: (*frozen).create,
		match:   moves(txn.EventSubmitted),
		event:   txn.EventSubmitted,
	},
	{name: "claim of a broadcast", trigger: (*frozen).nothing, match: fenced.claims},
	{
		name:    "sent again",
		trigger: (*frozen).dropPending,
		match:   moves(txn.EventResubmitted),
		event:   txn.EventResubmitted,
	},
	{
		name:    "included",
		trigger: (*frozen).mine,
		match:   moves(txn.EventIncluded),
		event:   txn.EventIncluded,
	},
	{
		name:    "blocks above",
		blocks:  1,
		trigger: (*frozen).mine,
		match:   moves(txn.EventConfirmations),
		event:   txn.EventConfirmations,
	},
	{name: "released", blocks: 1, trigger: (*frozen).mine, match: fenced.releases},
	// Without other work no node takes over a finished submitter.
	{
		name:      "final",
		blocks:    3,
		trigger:   (*frozen).mine,
		match:     moves(txn.EventConfirmed),
		event:     txn.EventConfirmed,
		meanwhile: (*frozen).createDuring,
	},
	{
		name:      "final and reverted",
		blocks:    3,
		payload:   (*frozen).revertingOnceSent,
		trigger:   (*frozen).mine,
		match:     moves(txn.EventFailed),
		event:     txn.EventFailed,
		meanwhile: (*frozen).createDuring,
	},
	{
		name:    "failed in the queue",
		before:  (*frozen).haveLate,
		trigger: (*frozen).mine,
		mines:   true,
		match:   fenced.failsLate,
		event:   txn.EventFailed,
	},
	{
		name:      "reorg",
		blocks:    1,
		trigger:   (*frozen).reorg,
		match:     moves(txn.EventReorged),
		event:     txn.EventReorged,
		meanwhile: awaits(txn.EventReorged),
	},
	{
		name:      "reorg of what was final",
		blocks:    4,
		before:    (*frozen).haveMore,
		trigger:   (*frozen).reorg,
		match:     both(moves(txn.EventReorged), fenced.protectsAutomatically),
		event:     txn.EventReorged,
		meanwhile: awaits(txn.EventReorged),
	},
	{
		name:    "end of a protection by itself",
		blocks:  4,
		before:  (*frozen).haveReorged,
		trigger: (*frozen).nothing,
		mines:   true,
		match:   fenced.unprotectsAutomatically,
	},

	{
		name:    "cancel",
		trigger: (*frozen).cancel,
		match:   moves(txn.EventCancelRequested),
		event:   txn.EventCancelRequested,
		command: txn.CommandCancel,
	},
	{
		name:    "replacement",
		trigger: (*frozen).cancel,
		match:   moves(txn.EventReplaced),
		event:   txn.EventReplaced,
	},
	{
		name:      "final of a cancel",
		before:    (*frozen).haveCancelled,
		trigger:   (*frozen).mine,
		match:     moves(txn.EventCancelled),
		event:     txn.EventCancelled,
		meanwhile: (*frozen).createDuring,
	},
	{
		name:    "speed-up",
		trigger: (*frozen).speedUp,
		match:   moves(txn.EventReplaced),
		event:   txn.EventReplaced,
		command: txn.CommandSpeedUp,
	},

	{
		name:      "stuck",
		trigger:   (*frozen).nothing,
		match:     moves(txn.EventStuck),
		event:     txn.EventStuck,
		meanwhile: awaits(txn.EventStuck),
	},
	{
		name:    "put back on its way",
		before:  (*frozen).haveStuck,
		trigger: (*frozen).retry,
		match:   moves(txn.EventUnstuck),
		event:   txn.EventUnstuck,
		command: txn.CommandResolve,
	},
	{
		name:      "stuck and protected by itself",
		before:    (*frozen).loseNonce,
		trigger:   (*frozen).nothing,
		mines:     true,
		match:     both(moves(txn.EventStuck), fenced.protectsAutomatically),
		event:     txn.EventStuck,
		meanwhile: (*frozen).failLost,
	},
	{
		name:      "given back to the queue",
		before:    (*frozen).haveLost,
		trigger:   (*frozen).requeue,
		match:     moves(txn.EventRequeued),
		event:     txn.EventRequeued,
		command:   txn.CommandResolve,
		meanwhile: (*frozen).exitFirstProtection,
	},

	{
		name:    "pause",
		trigger: (*frozen).pause,
		match:   sets(txn.Paused),
		command: txn.CommandPause,
		undo:    (*frozen).resumeAgain,
	},
	{
		name:    "pause by itself",
		before:  (*frozen).pauseOnFailure,
		payload: (*frozen).revertingOnceSent,
		trigger: (*frozen).mine,
		match:   fenced.pausesAutomatically,
		event:   txn.EventIncluded,
		undo:    (*frozen).resumeAgain,
	},
	{
		name:    "resume",
		before:  (*frozen).pauseNow,
		trigger: (*frozen).resume,
		match:   sets(txn.Active),
		command: txn.CommandResume,
		undo:    (*frozen).pauseAgain,
		after:   (*frozen).resumeNow,
	},
	{
		name:    "change of a policy",
		trigger: (*frozen).update,
		match:   fenced.endsCommandAlone,
		command: txn.CommandUpdate,
	},
	{
		name:    "protect",
		trigger: (*frozen).protect,
		match:   fenced.protects,
		command: txn.CommandProtect,
		undo:    (*frozen).exitProtectionAgain,
	},
	{
		name:    "end of protect",
		before:  (*frozen).protectAndAwait,
		trigger: (*frozen).exitProtect,
		match:   fenced.unprotects,
		command: txn.CommandExitProtect,
		undo:    (*frozen).protectAgain,
		after:   (*frozen).exitSecondProtection,
	},
	{
		name:    "end of protect above a gap",
		before:  (*frozen).haveForeign,
		trigger: (*frozen).align,
		match:   fenced.skipsNonces,
		command: txn.CommandExitProtect,
	},
}

// notFenced are the events that are not written by commits of an owner, with their writers.
// CancelTx of a queued transaction is not such a commit either, but owners write its event, too.
var notFenced = map[txn.Kind]string{
	txn.EventQueued:   "CreateTx, on whichever node, under no lease",
	txn.EventApproved: "ApproveTx, of a transaction that no owner reads",
}

// notFencedCommands are recorded as applied by the node that was asked, with their event.
var notFencedCommands = []txn.CommandKind{txn.CommandApprove, txn.CommandDeny}

// changeParts names a case for each part of a change.
var changeParts = map[string]string{
	"Init": "cursor init", "Take": "allocation", "Writes": "included", "Protect": "protect",
	"Unprotect": "end of protect", "Status": "pause", "StatusReason": "pause by itself",
	"Commands": "change of a policy",
	// a fail-over is settled in the commit that makes the first nonce since then final
	"Compared": "final",
}

// TestFence_EveryCommitKindCovered compares the cases with all parts of a change, all events and
// all commands: a new one needs a case.
func TestFence_EveryCommitKindCovered(t *testing.T) {
	t.Parallel()
	has := func(what string, is func(commitCase) bool) {
		if !slices.ContainsFunc(commitCases, is) {
			t.Errorf("no case of TestFence_FrozenOwner_CannotWrite has %s", what)
		}
	}
	for _, m := range txn.Moves {
		if notFenced[m.Kind] == "" {
			has("the event "+string(m.Kind), func(c commitCase) bool { return c.event == m.Kind })
		}
	}
	for _, kind := range txn.CommandKinds {
		if slices.Contains(notFencedCommands, kind) {
			continue
		}
		has("the command "+string(kind), func(c commitCase) bool { return c.command == kind })
	}
	for _, part := range reflect.VisibleFields(reflect.TypeFor[txn.Change]()) {
		switch part.Name {
		case "Nonces":
			continue // a fenced statement of its own: see the store's tests
		case "TrialOver":
			continue // not written: the owner remembers it
		}
		has(
			fmt.Sprintf("the part %s of a change, which changeParts calls %q", part.Name,
				changeParts[part.Name]),
			func(c commitCase) bool { return c.name == changeParts[part.Name] },
		)
	}
	names := map[string]bool{}
	for _, c := range commitCases {
		if names[c.name] {
			t.Errorf("two cases are called %q", c.name)
		}
		names[c.name] = true
	}
}
