package store

import "testing"

// moveWorld is everything that the steps of a move, other commands, operators and restores change.
// It is a value, so that every way through it can be walked.
type moveWorld struct {
	step    moveStep
	sealed  bool
	paused  bool
	asked   bool // the old ledger asked the directory for tombstones since it was restored
	arrived bool

	restored, backupSealed, backupPaused bool

	lost       bool // the directory was restored
	backupStep moveStep
	oldAway    bool // has not joined the restored directory again
	newAway    bool
	commands   [2]moveAction // chosen from a view that may be old
}

// moveRules are the rules of a move and of restores. Some tests break one.
type moveRules struct {
	next func(moveView) moveAction
	// Broken: a ledger asks a restored directory before all have joined it; ledgers join while
	// commands run; the new ledger does not record its arrivals; a join of the old ledger counts as
	// the answer of the directory.
	asksEarly, joinsEarly, forgetsArrival, joinAnswers bool
}

// actCommit ends a copy whose rows were read.
const actCommit moveAction = "commit"

func (w moveWorld) view() moveView {
	return moveView{step: w.step, sealed: w.sealed, arrived: w.arrived, paused: w.paused,
		rests: w.paused}
}

// choose returns the next action of a command. It first records a tombstone that a restored
// directory lacks.
func (w moveWorld) choose(next func(moveView) moveAction) moveAction {
	if w.step == moveNone && w.sealed {
		return actRecord
	}
	return next(w.view())
}

// bothSend reports whether nodes of both ledgers may work on the account.
func (w moveWorld) bothSend() bool { return w.asked && !w.sealed && w.arrived }

// act does what a command has chosen, as the statements of the action do it.
func (w moveWorld) act(i int) moveWorld {
	action := w.commands[i]
	w.commands[i] = ""
	switch action {
	case actBegin:
		if w.step == moveNone {
			w.step = moveBegun
		}
	case actPause:
		w.paused = w.paused || !w.sealed
	case actSeal:
		// the directory's row is locked; the tombstone is set only over an account at rest
		w.sealed = w.sealed || w.step == moveBegun && w.paused || w.step == moveSealed ||
			w.step == moveDone
	case actRecord:
		if w.step == moveNone || w.step == moveBegun {
			w.step = moveSealed
		}
	case actCopy:
		if w.sealed && !w.arrived {
			w.commands[i] = actCommit
		}
	case actCommit:
		w.arrived = true
	case actFinish:
		if w.step == moveSealed {
			w.step = moveDone
		}
	}
	return w
}

// after lists the worlds that one more step leads to.
func (w moveWorld) after(rules moveRules) (all []moveWorld) {
	for i, chosen := range w.commands {
		chooses, ends := w, w
		if chosen == "" {
			chooses.commands[i] = w.choose(rules.next)
			all = append(all, chooses)
			continue
		}
		ends.commands[i] = ""
		all = append(all, w.act(i), ends)
	}
	if w.paused && !w.sealed {
		resumed := w
		resumed.paused = false
		all = append(all, resumed)
	}
	if !w.restored {
		backup, restored := w, w
		backup.backupSealed, backup.backupPaused = w.sealed, w.paused
		restored.restored, restored.asked = true, false
		restored.sealed, restored.paused = w.backupSealed, w.backupPaused
		all = append(all, backup, restored)
	}
	if !w.asked && (rules.asksEarly || !w.oldAway && !w.newAway) {
		asked := w
		asked.asked = true
		asked.sealed = w.sealed || w.step == moveSealed || w.step == moveDone
		all = append(all, asked)
	}
	return append(all, w.afterDirectory(rules)...)
}

// afterDirectory lists the worlds that a restore of the directory leads to.
func (w moveWorld) afterDirectory(rules moveRules) (all []moveWorld) {
	if !w.lost {
		backup, restored := w, w
		backup.backupStep = w.step
		restored.lost, restored.step = true, w.backupStep
		restored.oldAway, restored.newAway = true, true
		all = append(all, backup, restored)
	}
	if w.commands != [2]moveAction{} && !rules.joinsEarly {
		return all
	}
	if w.oldAway {
		joined := w
		joined.oldAway = false
		if w.sealed && (w.step == moveNone || w.step == moveBegun) {
			joined.step = moveSealed
		}
		joined.asked = w.asked ||
			rules.joinAnswers && (joined.step == moveNone || joined.step == moveBegun)
		all = append(all, joined)
	}
	if w.newAway {
		joined := w
		joined.newAway = false
		if w.arrived && !rules.forgetsArrival {
			joined.step = moveDone
		}
		all = append(all, joined)
	}
	return all
}

// walk visits every world that the steps lead to, and returns the first in which both ledgers send.
func walk(rules moveRules, visit func(moveWorld)) (broken *moveWorld) {
	first := moveWorld{asked: true}
	seen, left := map[moveWorld]bool{first: true}, []moveWorld{first}
	for len(left) > 0 {
		w := left[0]
		left = left[1:]
		if w.bothSend() {
			return &w
		}
		visit(w)
		for _, n := range w.after(rules) {
			if !seen[n] {
				seen[n] = true
				left = append(left, n)
			}
		}
	}
	return nil
}

// TestMove_EveryInterleaving_OneLedger walks all orders of the steps of two commands, an operator
// who resumes the account, a restore of the old ledger, and one of the directory. Wherever they
// are, one more command ends the move.
func TestMove_EveryInterleaving_OneLedger(t *testing.T) {
	t.Parallel()
	worlds := 0
	broken := walk(moveRules{next: moveView.next}, func(w moveWorld) {
		worlds++
		w.commands = [2]moveAction{}
		for range 12 {
			if w.commands[0] == "" {
				w.commands[0] = w.choose(moveView.next)
			}
			w = w.act(0)
		}
		if w.step != moveDone || !w.sealed || !w.arrived {
			t.Fatalf("a command does not end the move: %+v", w)
		}
	})
	if broken != nil {
		t.Errorf("both ledgers send: %+v", *broken)
	}
	if worlds < 100 {
		t.Errorf("%d worlds were seen", worlds)
	}
}

// TestMove_RuleLeftOut_BothSend: the walk notices a move without its rules.
func TestMove_RuleLeftOut_BothSend(t *testing.T) {
	t.Parallel()
	next := moveView.next
	for name, rules := range map[string]moveRules{
		"no tombstone": {next: func(v moveView) moveAction {
			if v.step == moveBegun && v.rests && !v.sealed {
				return actCommit // the rows are copied from an account that only rests
			}
			return v.next()
		}},
		"copied before the directory has the tombstone": {next: func(v moveView) moveAction {
			if v.step == moveBegun && v.sealed && !v.arrived {
				return actCopy
			}
			return v.next()
		}},
		"recorded before it is set": {next: func(v moveView) moveAction {
			if v.step == moveBegun && v.rests && !v.sealed {
				return actRecord
			}
			if v.step == moveSealed && !v.arrived {
				return actCommit
			}
			return v.next()
		}},
		"a directory is asked before all ledgers joined": {next: next, asksEarly: true},
		"ledgers join while commands run":                {next: next, joinsEarly: true},
		"the new ledger forgets its arrivals":            {next: next, forgetsArrival: true},
		"a join is an answer of the directory":           {next: next, joinAnswers: true},
	} {
		if walk(rules, func(moveWorld) {}) == nil {
			t.Errorf("%s: no order of steps lets both ledgers send", name)
		}
	}
}
