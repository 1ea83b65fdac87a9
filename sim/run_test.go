package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// Result is the outcome of a run.
type Result struct {
	Plan   Plan
	Broken []string
	Digest uint64
	Steps  int
	Rest   time.Duration // from the healing until every transaction was final
	Faults map[string]int
	tail   string
	trace  []string
	// defects are the log lines that report a defect of a node
	defects []string
	// deliveries counts accepted events, repetitions included
	deliveries int
}

// Play runs a plan to its end.
func Play(t *testing.T, p Plan) Result {
	t.Helper()
	switch {
	case p.Move > 0:
		return playOn(t, p, openHosts(t))
	case len(p.AccountMoves) > 0:
		return playOn(t, p, openLedgers(t))
	}
	return playOn(t, p, databases{ledgers: []*database{openDatabase(t)}})
}

func playOn(t *testing.T, p Plan, dbs databases) Result {
	t.Helper()
	r := Result{Plan: p}
	synctest.Test(t, func(t *testing.T) {
		if err := dbs.open(); err != nil {
			t.Fatal(err)
		}
		defer dbs.close()
		w := newWorld(p, dbs)
		w.play()
		r = Result{
			Plan: p, Broken: w.broken, Digest: w.digest, Steps: w.steps, Rest: w.rest,
			Faults: w.faults, tail: w.tail(), trace: w.trace, defects: w.defects,
			deliveries: w.received.total,
		}
	})
	return r
}

func (w *World) play() {
	defer w.close()
	if err := w.db.tick(); err != nil {
		w.violated("sim", "%v", err)
		return
	}
	if err := w.beginSink(); err != nil {
		w.violated("sim", "%v", err)
		return
	}
	for i := range w.plan.Nodes {
		if err := w.start(i, 0); err != nil {
			w.violated("sim", "%v", err)
			return
		}
	}
	if err := w.prepare(); err != nil {
		w.violated("sim", "%v", err)
		return
	}
	w.arm()
	w.armHosts()
	w.run(w.now()+faultTime, func() bool { return false })
	w.heal()
	healed := w.now()
	if !w.run(w.now()+restTime, w.rested) && len(w.broken) == 0 {
		w.violated("liveness", "not every transaction is final %v after the last fault: %s",
			restTime, w.unfinished())
	}
	w.rest = w.now() - healed
	w.restoreOld()
	if verbose() {
		w.dump()
	}
	w.judge()
}

// heal ends all faults.
func (w *World) heal() {
	w.healed = true
	w.triggers, w.staleUntil = nil, 0
	for _, n := range w.nodes {
		n.frozenUntil, n.lagUntil = 0, 0
		n.noDatabase, n.noAnswers = 0, 0
		n.noChain, n.noSigner = 0, 0
	}
	for len(w.locks) > 0 {
		w.unlock(w.locks[0])
	}
	w.remark("all faults healed")
}

// close stops everything, so that the bubble can end.
func (w *World) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.healed = true
	for len(w.locks) > 0 {
		w.unlock(w.locks[0])
	}
	for _, n := range w.nodes {
		n.frozenUntil, n.noAnswers = 0, 0
		n.stopping = true
		n.stop()
	}
	w.events = nil
	w.closingSteps = w.steps
	over := func() bool {
		for _, n := range w.nodes {
			select {
			case <-n.ended:
			default:
				return false
			}
		}
		return true
	}
	if !w.run(w.now()+5*time.Minute, over) {
		w.violated("sim", "the nodes do not stop")
	}
	// Let goroutines of the drivers reach their timeouts.
	w.run(w.now()+30*time.Second, func() bool { return false })
}

// unfinished lists the calls whose transactions are not final.
func (w *World) unfinished() string {
	l, err := w.readLedger()
	if err != nil {
		return err.Error()
	}
	var s []string
	for _, c := range w.calls {
		if r := w.rowOf(l, c); r == nil || c.answered == 0 ||
			r.state != "CONFIRMED" && r.state != "FAILED_FINAL" && r.state != "CANCELLED" {
			state := "not in the ledger"
			if r != nil {
				state = fmt.Sprint(r.state, " ", r.reason)
			}
			s = append(
				s,
				fmt.Sprintf("call %d (answered: %v, last error: %v) is %s", c.plan.No,
					c.answered > 0, c.why, state),
			)
		}
	}
	return strings.Join(slices.Concat(s, w.unfinishedHolds(), w.unfinishedMoves()), "; ")
}

// tail returns the end of the trace, with the nodes' log lines in between.
func (w *World) tail() string {
	var s strings.Builder
	from := max(0, len(w.trace)-traceTail)
	if verbose() {
		from = 0
	}
	logs := w.logs
	for i := from; i < len(w.trace); i++ {
		for len(logs) > 0 && logs[0].at <= i {
			if logs[0].at >= from && !strings.Contains(logs[0].text, " DEBUG ") {
				s.WriteString(logs[0].text + "\n")
			}
			logs = logs[1:]
		}
		s.WriteString(w.trace[i] + "\n")
	}
	return s.String()
}

// dump appends the ledger to the trace.
func (w *World) dump() {
	for _, query := range []string{
		`SELECT format('tx %s of s%s: %s %s nonce %s, %s, attempts %s, requeued %s, %s', request_id,
		               submitter_id, state, sub_state, nonce, reason, submit_attempts, requeued,
		               last_error)
		   FROM managed_tx ORDER BY submitter_id, nonce`,
		`SELECT format('command %s of s%s: %s %s expect %s: %s', command_id, submitter_id, kind,
		               action, expect, result)
		   FROM submitter_command ORDER BY submitter_id, command_id`,
		`SELECT format('cursor of s%s: next %s, %s protections, %s: %s', submitter_id, next_nonce,
		               protections, protect_reason, protect_evidence)
		   FROM submitter_nonce_cursor ORDER BY 1`,
		`SELECT format('nonce %s: %s %s of %s, %s', nonce, state, reason, reservation_id, message)
		   FROM external_nonce ORDER BY nonce`,
		`SELECT format('nonce %s was %s %s of %s', nonce, state, reason, reservation_id)
		   FROM sim_nonce ORDER BY no`,
		`SELECT format('gap of s%s: %s to %s: %s', submitter_id, first_nonce, last_nonce, reason)
		   FROM nonce_gap ORDER BY 1`,
	} {
		if err := w.dbs.each(query, func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			w.trace = append(w.trace, line)
			return err
		}); err != nil {
			w.trace = append(w.trace, err.Error())
		}
	}
}
