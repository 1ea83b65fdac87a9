package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// Result is what a run came to.
type Result struct {
	Plan   Plan
	Broken []string
	Digest uint64
	Steps  int
	Rest   time.Duration // from the last fault until everything was final
	Faults map[string]int
	tail   string
	trace  []string
}

// Play runs a plan from its beginning to its end.
func Play(t *testing.T, p Plan) Result {
	t.Helper()
	db := openDatabase(t)
	r := Result{Plan: p}
	synctest.Test(t, func(t *testing.T) {
		if err := db.open(); err != nil {
			t.Fatal(err)
		}
		defer db.close()
		w := newWorld(p, db)
		w.play()
		r.Broken, r.Digest, r.Steps, r.Rest, r.Faults, r.tail, r.trace = w.broken, w.digest, w.steps, w.rest, w.faults, w.tail(), w.trace
	})
	return r
}

func (w *World) play() {
	defer w.close()
	if err := w.db.tick(); err != nil {
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
	w.run(w.now()+faultTime, func() bool { return false })
	w.heal()
	healed := w.now()
	if !w.run(w.now()+restTime, w.rested) && len(w.broken) == 0 {
		w.violated("liveness", "%v after the last fault not everything is final: %s", restTime,
			w.unfinished())
	}
	w.rest = w.now() - healed
	if verbose() {
		w.dump()
	}
	w.judge()
}

// heal ends all faults.
func (w *World) heal() {
	w.healed, w.triggers, w.staleUntil = true, nil, 0
	for _, n := range w.nodes {
		n.frozenUntil, n.noDatabase, n.noAnswers, n.noChain, n.noSigner, n.lagUntil = 0, 0, 0, 0, 0, 0
	}
	for len(w.locks) > 0 {
		w.unlock(w.locks[0])
	}
	w.remark("all is healed")
}

// close ends everything, so that the bubble can end.
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
		w.violated("sim", "the nodes do not end")
	}
	w.run(w.now()+30*time.Second,
		func() bool { return false }) // goroutines of drivers that wait out something
}

// unfinished tells what is still open.
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
	return strings.Join(s, "; ")
}

// tail is the end of the trace, with what the nodes logged between its lines.
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

// dump adds the ledger to the trace.
func (w *World) dump() {
	for _, query := range []string{
		"SELECT format('tx %s of s%s: %s %s nonce %s, %s, attempts %s, requeued %s, %s', request_id, submitter_id, state, sub_state, nonce, reason, submit_attempts, requeued, last_error) FROM managed_tx ORDER BY submitter_id, nonce",
		"SELECT format('command %s of s%s: %s %s expect %s: %s', command_id, submitter_id, kind, action, expect, result) FROM submitter_command ORDER BY submitter_id, command_id",
		"SELECT format('cursor of s%s: next %s, %s protections, %s: %s', submitter_id, next_nonce, protections, protect_reason, protect_evidence) FROM submitter_nonce_cursor ORDER BY 1",
		"SELECT format('gap of s%s: %s to %s: %s', submitter_id, first_nonce, last_nonce, reason) FROM nonce_gap ORDER BY 1",
	} {
		if err := w.db.each(query, func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			w.trace = append(w.trace, line)
			return err
		}); err != nil {
			w.trace = append(w.trace, err.Error())
		}
	}
}
