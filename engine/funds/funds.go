// Package funds watches the balances of the accounts on one chain, and tops accounts up from a
// treasury.
//
// Every node watches all accounts, without a lease. A top-up is decided by inserting a row under
// the next number of the account (store.DecideTopUp), which only one node can do, and only once the
// top-up before it is final. The row has the amount and a random request_id, so that its
// transaction can be created by any node, any number of times: it is one transaction. A need is
// judged by two balances of blocks that include the last top-up.
package funds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Rule tops up accounts from a treasury.
type Rule struct {
	From      string      // name of the treasury, a submitter of the chain
	Below     uint256.Int // an account is topped up while it has less than this
	To        uint256.Int // what it has afterwards
	MaxPerDay uint256.Int // of all top-ups of one account in 24 hours
	// The accounts. Without any, all of the chain but treasuries; those only by name.
	Submitters, Pools []string
}

// Store is the ledger.
type Store interface {
	Submitters(ctx context.Context, names []string, after string,
		limit int) ([]store.SubmitterInfo, error)
	Pools(ctx context.Context, names []string, after string, limit int) ([]store.Pool, error)
	Commitments(ctx context.Context, ids []txn.SubmitterID,
		nonces map[txn.SubmitterID]txn.Nonce) (map[txn.SubmitterID]store.Commitment, error)
	FundsOf(ctx context.Context, ids []txn.SubmitterID) (map[txn.SubmitterID]store.Funds, error)
	RecordLow(ctx context.Context, id txn.SubmitterID,
		c store.LowChange) (changed bool, err error)
	RecordHeld(ctx context.Context, id txn.SubmitterID, held string) (changed bool, err error)
	DecideTopUp(ctx context.Context, n store.TopUpNeed) (store.TopUp, bool, error)
	CreateTopUp(ctx context.Context, to txn.Submitter,
		u store.TopUp) (info store.TxInfo, created bool, err error)
}

// Options are the settings of a watch.
type Options struct {
	Name     string // of the chain
	Chain    txn.ChainID
	Low      *uint256.Int // an account with less is low; nil: none is
	Events   bool         // emits an event when an account becomes low
	Rules    []Rule       // the first that has an account applies to it
	Interval time.Duration
	Store    Store
	Others   []Names // the other ledgers of the node, which have names in rules too
	// Balances reads the newest block, the balances and nonces after it, and the hashes of blocks,
	// all from one endpoint.
	Balances func(ctx context.Context, of []txn.Address, blocks []uint64) (txn.FundsRead, error)
	Clock    clock.Clock
	Logger   *slog.Logger
	// Counted gets the number of accounts that are low, and of those whose top-up is held, by
	// reason; nil: not wanted.
	Counted func(low int, held map[string]int)
	Decided func() // gets each top-up that this node decided; nil: not wanted
}

// Watch watches the balances of one chain.
type Watch struct {
	Options
	page         int // accounts that are read at once
	needs        sightings
	falls, rises sightings         // of accounts that are low now, or no longer
	logged       map[ruleName]bool // names in rules
}

// sightings are judgements that a balance has shown, and a later one has not confirmed yet.
type sightings map[txn.SubmitterID]sighting

type sighting struct {
	after int64 // number of the last top-up, or fall, then
	block uint64
	looks int // at the same block
}

// accountsPage is how many accounts are read at once.
const accountsPage = 100

// New returns a watch.
func New(o Options) *Watch {
	if o.Counted == nil {
		o.Counted = func(int, map[string]int) {}
	}
	if o.Decided == nil {
		o.Decided = func() {}
	}
	return &Watch{Options: o, page: accountsPage, needs: sightings{}, falls: sightings{},
		rises: sightings{}, logged: map[ruleName]bool{}}
}

// Run looks at the balances until ctx ends. Other nodes do the same.
func (w *Watch) Run(ctx context.Context) error {
	for {
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.Logger.Warn("reading balances failed; retrying", "chain", w.Name, "error", err)
		}
		if clock.Sleep(ctx, w.Clock, w.Interval) != nil {
			return nil
		}
	}
}

// look is one look at all accounts.
type look struct {
	*Watch
	accounts map[string]*store.SubmitterInfo
	byID     map[txn.SubmitterID]*store.SubmitterInfo
	rules    []chosen
	low      int
	held     map[string]int
}

// chosen is a rule with the accounts that it names; nil: all but treasuries.
type chosen struct {
	*Rule
	named map[string]bool
}

// Look judges all balances once.
func (w *Watch) Look(ctx context.Context) error {
	l := &look{Watch: w, accounts: map[string]*store.SubmitterInfo{},
		byID: map[txn.SubmitterID]*store.SubmitterInfo{}, held: map[string]int{}}
	var of []*store.SubmitterInfo
	for after := ""; ; {
		page, err := w.Store.Submitters(ctx, nil, after, w.page)
		if err != nil {
			return err
		}
		for i := range page {
			if page[i].Chain == w.Chain {
				of = append(of, &page[i])
				l.accounts[page[i].Name], l.byID[page[i].ID] = &page[i], &page[i]
			}
		}
		if len(page) < w.page {
			break
		}
		after = page[len(page)-1].Name
	}
	if err := l.choose(ctx); err != nil {
		return err
	}
	var failed error // an error of some accounts must not stop the others
	for len(of) > 0 {
		n := min(len(of), w.page)
		if err := l.judge(ctx, of[:n]); err != nil {
			failed = errors.Join(failed, err)
			if stops(ctx, err) {
				return failed // some accounts are not counted
			}
		}
		of = of[n:]
	}
	w.Counted(l.low, l.held)
	return failed
}

// stops reports whether an error is about all accounts.
func stops(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrUnavailable)
}

// choose reads the members of the pools that rules name.
func (l *look) choose(ctx context.Context) error {
	var lacking []ruleName
	for i := range l.Rules {
		c := chosen{Rule: &l.Rules[i]}
		if len(c.Submitters) > 0 || len(c.Pools) > 0 {
			c.named = map[string]bool{}
		}
		if len(c.Pools) > 0 {
			pools, err := l.Store.Pools(ctx, c.Pools, "", len(c.Pools))
			if err != nil {
				return err
			}
			for _, name := range c.Pools {
				if !slices.ContainsFunc(pools, func(p store.Pool) bool { return p.Name == name }) {
					lacking = append(lacking, ruleName{ofPool, name})
				}
			}
			for _, p := range pools {
				for _, m := range p.Members {
					c.named[m.Name] = true
				}
			}
		}
		l.rules = append(l.rules, c)
	}
	for _, c := range l.rules { // a treasury is topped up only by name
		for _, of := range l.rules {
			delete(of.named, c.From)
		}
	}
	for _, c := range l.rules {
		for _, name := range c.Submitters {
			if c.named[name] = true; l.accounts[name] == nil {
				lacking = append(lacking, ruleName{ofSubmitter, name})
			}
		}
	}
	l.judgeNames(ctx, lacking)
	return nil
}

// ruleOf returns the rule for an account; nil: none.
func (l *look) ruleOf(name string) *Rule {
	treasury := false
	for _, c := range l.rules {
		treasury = treasury || c.From == name
	}
	for _, c := range l.rules {
		if c.From != name && (c.named[name] || c.named == nil && !treasury) {
			return c.Rule
		}
	}
	return nil
}

func (l *look) judge(ctx context.Context, of []*store.SubmitterInfo) error {
	ids := make([]txn.SubmitterID, len(of))
	addresses := make([]txn.Address, len(of))
	for i, s := range of {
		ids[i], addresses[i] = s.ID, s.Address
	}
	// Read before the balances: a final top-up is in a balance that was read later, at its block or
	// above. The cost of transactions is read after them: it depends on the nonces.
	funds, err := l.Store.FundsOf(ctx, ids)
	if err != nil {
		return err
	}
	var blocks []uint64
	blockOf := map[txn.SubmitterID]int{} // index in blocks
	for _, id := range ids {
		if last := funds[id].TopUp; l.needs[id].looks > 0 && recent(funds[id]) {
			blockOf[id] = len(blocks)
			blocks = append(blocks, last.ReceiptBlock)
		}
	}
	got, err := l.Balances(ctx, addresses, blocks)
	if err != nil {
		return err
	}
	if len(got.Accounts) != len(of) || len(got.Hashes) != len(blocks) ||
		got.Block > math.MaxInt64 {
		return fmt.Errorf("funds: got %d balances of %d accounts, %d of %d blocks, at block %d",
			len(got.Accounts), len(of), len(got.Hashes), len(blocks), got.Block)
	}
	nonces := make(map[txn.SubmitterID]txn.Nonce, len(of))
	for i, id := range ids {
		nonces[id] = got.Accounts[i].Nonce
	}
	committed, err := l.Store.Commitments(ctx, ids, nonces)
	if err != nil {
		return err
	}
	var failed error
	for i, s := range of {
		a := &account{SubmitterInfo: s, funds: funds[s.ID], block: got.Block,
			balance: got.Accounts[i].Balance, committed: committed[s.ID].Committed}
		if k, has := blockOf[s.ID]; has {
			a.receiptHash = got.Hashes[k]
		}
		if err := l.account(ctx, a); err != nil {
			failed = errors.Join(failed, err)
			if stops(ctx, err) {
				break
			}
		}
	}
	return failed
}

// account is an account with what was read of it.
type account struct {
	*store.SubmitterInfo
	funds              store.Funds
	block              uint64
	balance, committed uint256.Int
	receiptHash        txn.Hash // of the last top-up's block, by the endpoint; zero: not read
}

// left is the balance beyond the cost of accepted transactions.
func (a *account) left() *uint256.Int {
	left := new(uint256.Int)
	if a.balance.Gt(&a.committed) {
		left.Sub(&a.balance, &a.committed)
	}
	return left
}

// lacks returns the amount with which the account has so much beyond the cost of its transactions.
func (a *account) lacks(to *uint256.Int) *uint256.Int {
	most, beyond := new(uint256.Int).AddOverflow(to, &a.committed)
	if beyond {
		most.SetAllOne()
	}
	if !most.Gt(&a.balance) {
		return new(uint256.Int)
	}
	return most.Sub(most, &a.balance)
}

func (l *look) account(ctx context.Context, a *account) error {
	if err := l.judgeLow(ctx, a); err != nil {
		return err
	}
	held, err := l.topUp(ctx, a)
	if err != nil {
		return err
	}
	if held != "" {
		l.held[held]++
	}
	if held == a.funds.Held {
		return nil
	}
	changed, err := l.Store.RecordHeld(ctx, a.ID, held)
	if err == nil && changed && held != "" {
		l.Logger.Warn("top-up held", "submitter", a.Name, "chain", l.Name, "reason", held)
	}
	return err
}

// judgeLow counts an account that is low, and records when it becomes so or ceases to be.
func (l *look) judgeLow(ctx context.Context, a *account) error {
	low := l.Low != nil && a.left().Lt(l.Low)
	turn, other := l.falls, l.rises
	if !low {
		turn, other = other, turn
	}
	delete(other, a.ID)
	switch {
	case low == a.funds.Low:
		delete(turn, a.ID)
	case !turn.seenBefore(a, a.funds.Falls):
		low = a.funds.Low // until another block shows it too
	default:
		c := store.LowChange{Low: low, Block: a.block, ReadAt: a.funds.ReadAt}
		if low && l.Events {
			c.Emit = &txn.LowBalance{Balance: a.balance.Dec(), Committed: a.committed.Dec(),
				Low: l.Low.Dec(), Block: a.block}
		}
		changed, err := l.Store.RecordLow(ctx, a.ID, c)
		if err != nil {
			return err
		}
		if changed {
			l.report(ctx, a, low)
		}
	}
	if low {
		l.low++
	}
	return nil
}

// report logs that an account began or ceased to be low.
func (l *look) report(ctx context.Context, a *account, low bool) {
	level, text := slog.LevelInfo, "balance no longer low"
	if low {
		level, text = slog.LevelWarn, "balance low"
	}
	limit := "none"
	if l.Low != nil {
		limit = l.Low.Dec()
	}
	l.Logger.Log(ctx, level, text, "submitter", a.Name, "chain", l.Name,
		"balance", a.balance.Dec(), "committed", a.committed.Dec(), "low", limit)
}
