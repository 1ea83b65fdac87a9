package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// auditor holds the ledger of the node's submitters to its laws, one after the other, for ever (requirements H69). It trusts nothing that an owner has in memory:
// the ledger is read anew and compared with itself, and the cursor with the account on chain. What breaks a law is counted, told loudly, and the submitter is
// protected: nothing is built on a ledger that is wrong. That goes by a command, as an operator's would, so that only the owner writes.
//
// Its cost is bounded. One audit is under way at a time, never more than one in minAuditPause, evenly over the interval; and an audit reads what came since the
// last one. The whole ledger of a submitter is read by [Audit].
type auditor struct {
	e          *Engine
	audits     metric.Int64Counter
	violations metric.Int64Counter
	memory     map[txn.SubmitterID]*audited
	last       txn.SubmitterID // looked at last
}

// audited is what the auditor remembers of a submitter while one and the same owner has it.
type audited struct {
	owner *actor
	from  txn.Nonce    // what is below was looked at when it was final
	ahead *txn.Account // a first look at a chain that has used more nonces than the ledger; it takes a second one at a later block
}

const (
	// minAuditPause bounds the audits of a node: twenty in a second, whatever it owns.
	minAuditPause = 50 * time.Millisecond
	// auditBack is how many nonces below the cursor the first audit of an owner begins. Those below were audited under the owners before.
	auditBack = 1000
	// auditOverlap is how many nonces below the cursor every audit looks at again: what was in flight at the last one.
	auditOverlap = 64
	// toldViolations bounds what is told of one audit; the rest is in the full audit.
	toldViolations = 10
	// knownProtections is how many of the latest protections because of a violation are searched for the same one.
	knownProtections = 100
)

// standing is what the auditor asks an owner for: who it is about, and where the cursor stands.
type standing struct {
	submitter txn.Submitter
	cursor    *txn.Cursor
}

func newAuditor(e *Engine) (*auditor, error) {
	m := e.Meter
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	u := &auditor{e: e, memory: map[txn.SubmitterID]*audited{}}
	var err error
	if u.audits, err = m.Int64Counter("fencepost_audit", metric.WithDescription("audits of a submitter's ledger, by result")); err != nil {
		return nil, fmt.Errorf("engine: metric fencepost_audit: %w", err)
	}
	if u.violations, err = m.Int64Counter("fencepost_audit_violation", metric.WithDescription("broken laws that audits found, each time they found them, by law")); err != nil {
		return nil, fmt.Errorf("engine: metric fencepost_audit_violation: %w", err)
	}
	zero(u.audits, "result", "ok", "violation", "failed")
	zero(u.violations, "law", auditedLaws...)
	return u, nil
}

// auditedLaws are those that an audit can find broken.
var auditedLaws = []string{"L1", "L2", "L3", "L4", "L5", "L6", "L8", "L10"}

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

// pause spreads the audits of all that is owned over the interval.
func (u *auditor) pause(owned int) time.Duration {
	return max(u.e.AuditInterval/time.Duration(max(1, owned)), minAuditPause)
}

// next is the owner with the next higher number, or the lowest when there is none higher; and how many there are.
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

// stillOwned tells whether the owner has not ended. What was found out about a submitter of another node is that node's to find out.
func (u *auditor) stillOwned(a *actor) bool {
	r := u.e.router
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.actors[a.id] == a
}

func (u *auditor) audit(ctx context.Context, a *actor) {
	of := a.standing.Load()
	if of == nil {
		return // it has not read its ledger yet
	}
	m := u.memory[a.id]
	if m == nil {
		m = &audited{owner: a}
		if of.cursor != nil {
			m.from = back(of.cursor.Next, auditBack)
		}
		u.memory[a.id] = m
	}
	limited, cancel := context.WithTimeout(ctx, u.e.LeaseDuration)
	defer cancel()
	account := u.look(limited,
		of) // before the ledger: whatever it shows of ours is in the ledger by then
	found, next, err := u.e.Store.Audit(limited, a.id, m.from)
	if err != nil {
		u.count(ctx, "failed")
		if ctx.Err() == nil {
			u.log(a).Warn("a submitter cannot be audited; trying again", "error", err)
		}
		return
	}
	from, elsewhere := back(next, max(auditOverlap, 2*txn.Nonce(of.submitter.Limit))), m.compare(
		account, next)
	if len(found) == 0 && elsewhere == "" {
		m.from = from
		u.count(ctx, "ok")
		return
	}
	u.count(ctx, "violation")
	if u.stillOwned(a) && u.tell(limited, a, found, elsewhere, next, account) {
		m.from = from // otherwise it is to be found again
	}
}

func back(from, by txn.Nonce) txn.Nonce { return from - min(by, from) }

// look asks the chain for the account; nil when there is nothing to compare it with, or no answer.
func (u *auditor) look(ctx context.Context, of *standing) *txn.Account {
	track := u.e.trackers[of.submitter.Chain]
	if of.cursor == nil || of.cursor.Protected != nil || track == nil {
		return nil
	}
	account, err := track.chain.Account(ctx, of.submitter.Address, track.policy.Confirmations)
	if err != nil {
		return nil
	}
	return &account
}

// compare tells of a chain that has used more nonces than the ledger has given out, when it is seen a second time at a later block (requirement H18).
func (m *audited) compare(account *txn.Account, next txn.Nonce) string {
	switch {
	case account == nil:
	case account.Latest <= next && account.Pending <= next:
		m.ahead = nil
	case m.ahead == nil:
		m.ahead = account
	case account.Head > m.ahead.Head:
		first := m.ahead
		m.ahead = nil
		return fmt.Sprintf(
			"the account's next nonce is %d on chain and %d in its pool, and the ledger has given out those below %d: its key is used elsewhere; "+
				"seen at block %d (%s) and at block %d (%s)",
			account.Latest,
			account.Pending,
			next,
			first.Head,
			first.HeadHash.Hex(),
			account.Head,
			account.HeadHash.Hex(),
		)
	}
	return ""
}

// tell counts and logs what was found, and has the submitter protected. It tells whether that was asked for, or had been before; of two things it asks for one.
func (u *auditor) tell(ctx context.Context, a *actor, found []store.Violation, elsewhere string,
	next txn.Nonce, account *txn.Account) bool {
	if elsewhere != "" {
		elsewhere += u.consumer(ctx, a.standing.Load(), next).Evidence()
		u.broken(ctx, a, "L10", elsewhere)
		asked := u.protect(
			ctx,
			a,
			store.Ask{
				Kind:   txn.CommandProtect,
				Action: txn.ReasonNonceElsewhere,
				Reason: elsewhere,

				ChainNonce: new(max(account.Latest, account.Pending)),
			},
		)
		return asked && len(found) == 0
	}
	var texts []string
	for _, v := range found {
		texts = append(texts, describe(v))
		u.broken(ctx, a, v.Law, describe(v))
	}
	texts = u.news(ctx, a, texts)
	if len(texts) == 0 {
		return true
	}
	if more := len(texts) - toldViolations; more > 0 {
		texts = append(texts[:toldViolations], fmt.Sprintf("and %d more", more))
	}
	return u.protect(
		ctx,
		a,
		store.Ask{
			Kind:   txn.CommandProtect,
			Action: txn.ProtectByAudit,
			Reason: strings.Join(texts, "; "),
		},
	)
}

// consumer asks who used a nonce; nil when that cannot be told.
func (u *auditor) consumer(ctx context.Context, of *standing, nonce txn.Nonce) *txn.Consumer {
	by, err := u.e.trackers[of.submitter.Chain].chain.Consumer(ctx, of.submitter.Address, nonce)
	if err != nil {
		return nil
	}
	return by
}

func (u *auditor) broken(ctx context.Context, a *actor, law, what string) {
	u.violations.Add(ctx, 1, metric.WithAttributes(attribute.String("law", law)))
	u.log(a).Error("an audit found a law of the ledger broken", "law", law, "what", what)
}

// news leaves out what the submitter was protected for before: an operator has seen it and decided to go on.
func (u *auditor) news(ctx context.Context, a *actor, texts []string) []string {
	known, err := u.e.Store.ProtectedFor(ctx, a.id, txn.ProtectByAudit, knownProtections)
	if err != nil {
		return texts // rather once too often
	}
	return slices.DeleteFunc(texts, func(text string) bool {
		return slices.ContainsFunc(known,
			func(evidence string) bool { return strings.Contains(evidence, text) })
	})
}

// protect asks the owner to stop, unless something else has stopped it: then the evidence of that would be lost on the operator, and ours is found again.
func (u *auditor) protect(ctx context.Context, a *actor, ask store.Ask) (asked bool) {
	if of := a.standing.Load(); of.cursor == nil || of.cursor.Protected != nil {
		return false
	}
	ask.Operator = "auditor"
	if _, err := u.e.Store.AddCommand(ctx, a.id, ask); err != nil {
		if !errors.Is(context.Cause(ctx),
			context.Canceled) { // the node stops; the next owner's auditor finds it
			u.log(a).Error(
				"a submitter whose ledger is wrong could not be protected; trying again with the next audit",
				"error", err)
		}
		return false
	}
	a.deliver()
	return true
}

// log is not the owner's, which may change under our hands.
func (u *auditor) log(a *actor) *slog.Logger {
	return u.e.Logger.With("submitter_id", int(a.id), "submitter", a.standing.Load().submitter.Name)
}

func (u *auditor) count(ctx context.Context, result string) {
	u.audits.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

func describe(v store.Violation) string {
	if v.Tx == nil {
		return v.Law + ": " + v.What
	}
	return fmt.Sprintf("%s: transaction %s: %s", v.Law, v.Tx, v.What)
}
