package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// auditor checks the ledger of the node's submitters against its laws, one submitter after the
// other (requirements H69). It trusts nothing that an owner has in memory: it reads the ledger and
// the account on chain itself. A broken law is counted and logged, and the submitter is protected,
// so that nothing is built on a wrong ledger. That takes a command, as an operator's decision
// does: only the owner writes.
//
// Its cost is bounded. Audits run one at a time, at most one in minAuditPause, spread evenly over
// the interval, and each reads only new nonces. [audit.Run] reads everything.
type auditor struct {
	e          *Engine
	audits     metric.Int64Counter
	violations metric.Int64Counter
	memory     map[txn.SubmitterID]*auditMemory
	last       txn.SubmitterID // audited last
}

// auditMemory is the auditor's state for a submitter while it has the same owner.
type auditMemory struct {
	owner   *actor
	from    txn.Nonce // nonces below were audited when they were final
	account audit.AccountWatch
}

const (
	// minAuditPause bounds the audits of a node to twenty a second.
	minAuditPause = 50 * time.Millisecond
	// auditBack is how many nonces below the cursor the first audit of an owner starts. Lower ones
	// were audited under earlier owners.
	auditBack = 1000
	// auditOverlap is how many nonces below the cursor every audit reads again: those that were in
	// flight at the last one.
	auditOverlap = 64
	// maxReported bounds the violations in the evidence of one protection; a full audit has all.
	maxReported = 10
	// maxPastProtections is how many of the latest protections are searched for a violation.
	maxPastProtections = 100
)

func newAuditor(e *Engine) (*auditor, error) {
	m := e.Meter
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	u := &auditor{e: e, memory: map[txn.SubmitterID]*auditMemory{}}
	var err error
	u.audits, err = m.Int64Counter("fencepost_audit",
		metric.WithDescription("audits of a submitter's ledger, by result"))
	if err != nil {
		return nil, fmt.Errorf("engine: metric fencepost_audit: %w", err)
	}
	u.violations, err = m.Int64Counter("fencepost_audit_violation",
		metric.WithDescription("violations, counted by each audit that finds them, by law"))
	if err != nil {
		return nil, fmt.Errorf("engine: metric fencepost_audit_violation: %w", err)
	}
	zero(u.audits, "result", "ok", "violation", "failed")
	zero(u.violations, "law", audit.Laws...)
	return u, nil
}

func (u *auditor) run(ctx context.Context) {
	if u.e.AuditInterval < 0 {
		return
	}
	timer := u.e.Clock.NewTimer(u.pause(1))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		owner, owned := u.next()
		if owner != nil {
			u.last = owner.id
			u.audit(ctx, owner)
		}
		timer.Reset(u.pause(owned))
	}
}

// pause spreads the audits of all owned submitters over the interval.
func (u *auditor) pause(owned int) time.Duration {
	return max(u.e.AuditInterval/time.Duration(max(1, owned)), minAuditPause)
}

// next returns the owner with the next higher id, or else the lowest, and the number of owners.
func (u *auditor) next() (owner *actor, owned int) {
	r := u.e.router
	r.mu.Lock()
	defer r.mu.Unlock()
	var lowest *actor
	for id, a := range r.actors {
		if id > u.last && (owner == nil || id < owner.id) {
			owner = a
		}
		if lowest == nil || id < lowest.id {
			lowest = a
		}
	}
	for id, m := range u.memory {
		if r.actors[id] != m.owner {
			delete(u.memory, id)
		}
	}
	if owner == nil {
		owner = lowest
	}
	return owner, len(r.actors)
}

// stillOwned reports whether this node still owns the submitter. Otherwise another node audits it.
func (u *auditor) stillOwned(a *actor) bool {
	r := u.e.router
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.actors[a.id] == a
}

func (u *auditor) audit(ctx context.Context, a *actor) {
	of := a.auditFacts.Load()
	if of == nil {
		return // it has not read its ledger yet
	}
	m := u.memory[a.id]
	if m == nil {
		m = &auditMemory{owner: a}
		if of.cursor != nil {
			m.from = back(of.cursor.Next, auditBack)
		}
		u.memory[a.id] = m
	}
	limited, cancel := context.WithTimeout(ctx, u.e.LeaseDuration)
	defer cancel()
	// The account is read before the ledger: the ledger then has all of ours that it shows.
	account := u.readAccount(limited, of)
	found, next, err := u.e.Store.Audit(limited, a.id, m.from)
	if err != nil {
		u.count(ctx, "failed")
		if ctx.Err() == nil {
			u.log(a).Warn("audit failed; retrying", "error", err)
		}
		return
	}
	from := back(next, max(auditOverlap, 2*txn.Nonce(of.submitter.Limit)))
	ahead := m.account.Ahead(account, next)
	if len(found) == 0 && ahead == nil {
		m.from = from
		u.count(ctx, "ok")
		return
	}
	u.count(ctx, "violation")
	if u.stillOwned(a) && u.report(limited, a, found, ahead) {
		m.from = from // otherwise it has to be found again
	}
}

func back(from, by txn.Nonce) txn.Nonce { return from - min(by, from) }

// readAccount returns nil when there is nothing to compare, or no answer.
func (u *auditor) readAccount(ctx context.Context, of *auditFacts) *txn.Account {
	chain, tracker := u.e.chains[of.submitter.Chain], u.e.trackers[of.submitter.Chain]
	if of.cursor == nil || of.cursor.Protected != nil || tracker == nil {
		return nil
	}
	account, err := chain.Account(ctx, of.submitter.Address, tracker.Policy().Confirmations)
	if err != nil {
		return nil
	}
	return &account
}

// report counts and logs violations, and requests one protection. It returns whether
// everything found is covered by a protection, requested now or earlier.
func (u *auditor) report(ctx context.Context, a *actor, found []store.Violation,
	ahead *audit.Ahead) bool {
	if ahead != nil {
		evidence := ahead.Evidence() + u.consumer(ctx, a.auditFacts.Load(), ahead.Next).Evidence()
		u.broken(ctx, a, "L10", "used_elsewhere", evidence)
		asked := u.protect(ctx, a, store.Ask{
			Kind:       txn.CommandProtect,
			Action:     txn.ReasonNonceElsewhere,
			Reason:     evidence,
			ChainNonce: new(ahead.ChainNonce()),
		})
		return asked && len(found) == 0
	}
	for _, v := range found {
		u.broken(ctx, a, v.Law, v.Check, audit.Describe(v))
	}
	fresh := u.unknown(ctx, a, found)
	if len(fresh) == 0 {
		return true
	}
	return u.protect(ctx, a, protectionFor(fresh))
}

// protectionFor is the command for a protection because of violations.
func protectionFor(found []store.Violation) store.Ask {
	var texts, keys []string
	for _, v := range found[:min(len(found), maxReported)] {
		texts, keys = append(texts, audit.Describe(v)), append(keys, v.Key())
	}
	if more := len(found) - maxReported; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return store.Ask{
		Kind:       txn.CommandProtect,
		Action:     txn.ProtectByAudit,
		Reason:     strings.Join(texts, "; "),
		Violations: keys,
	}
}

// consumer finds out who used a nonce; nil: unknown.
func (u *auditor) consumer(ctx context.Context, of *auditFacts, nonce txn.Nonce) *txn.Consumer {
	by, err := u.e.chains[of.submitter.Chain].Consumer(ctx, of.submitter.Address, nonce)
	if err != nil {
		return nil
	}
	return by
}

func (u *auditor) broken(ctx context.Context, a *actor, law, check, evidence string) {
	u.violations.Add(ctx, 1, metric.WithAttributes(attribute.String("law", law)))
	u.log(a).Error("ledger law broken", "law", law, "check", check, "evidence", evidence)
}

// unknown returns the violations that the submitter was not protected for before.
func (u *auditor) unknown(ctx context.Context, a *actor,
	found []store.Violation) []store.Violation {
	past, err := u.e.Store.ProtectionsFor(ctx, a.id, txn.ProtectByAudit, maxPastProtections)
	if err != nil {
		return found // better protected twice than not at all
	}
	return audit.New(found, past)
}

// protect requests a protection, unless one that awaits a decision is in force: its evidence would
// be lost on the operator, and ours is found again.
func (u *auditor) protect(ctx context.Context, a *actor, ask store.Ask) (asked bool) {
	if of := a.auditFacts.Load(); of.cursor == nil || of.cursor.AwaitsDecision() {
		return false
	}
	ask.Operator = "auditor"
	if _, err := u.e.Store.AddCommand(ctx, a.id, ask); err != nil {
		// When the node stops, the auditor of the next owner finds it.
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			u.log(a).Error("protection of a wrong ledger failed; retrying with the next audit",
				"error", err)
		}
		return false
	}
	a.deliver()
	return true
}

// log is not the owner's logger, which changes with its lease.
func (u *auditor) log(a *actor) *slog.Logger {
	return u.e.Logger.With("submitter_id", int(a.id), "submitter",
		a.auditFacts.Load().submitter.Name)
}

func (u *auditor) count(ctx context.Context, result string) {
	u.audits.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}
