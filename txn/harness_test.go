package txn

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// world is a submitter and its chain, reduced to the inputs of Decide, and driven step by step.
type world struct {
	view     View
	included map[Hash]*Receipt
	head     uint64
	unknown  map[Hash]bool
	failing  time.Time      // since when receipts of unknown hashes cannot be read
	events   map[TxID]int64 // newest event of each transaction
	kinds    map[TxID][]Kind
	nonces   []Nonce // in the order of allocation
	order    []TxID  // in the order of allocation
	final    []Tx
	audited  []Tx // view.Audited, with attempts

	elsewhere   Nonce // the account's next nonce after foreign transactions
	consumer    *Consumer
	policyAsked []string
	answer      StuckAction
	forkAt      uint64
	reported    map[TxID][]BlockRef // blocks that a watcher has after all events
	market      Fees                // fees of a new attempt
	results     []CommandResult
	gaps        []Nonce
	unsent      bool      // the owner knows what it has not sent: no attempt is included before
	pooled      Diagnosis // default IN_POOL
	salted      bool      // hashes depend on transaction and era
	era         byte      // changes with each restore
	snapshot    [][]Tx    // the view's, while a step is computed
}

func newWorld(queued int, p Policy) *world {
	w := &world{
		included: map[Hash]*Receipt{},
		unknown:  map[Hash]bool{},
		events:   map[TxID]int64{},
		kinds:    map[TxID][]Kind{},
		head:     100,
	}
	w.view = View{
		Now:     noon,
		Policy:  p,
		BlockAt: noon.AddDate(1, 0, 0), // a block follows each attempt
		Submitter: Submitter{
			ID:        1,
			Limit:     1,
			Mode:      Strict,
			Status:    Active,
			StartFrom: "0",
			Chain:     1,
		},
	}
	w.view.Inclusion = func(h Hash) Inclusion {
		r := w.included[h]
		i := Inclusion{Known: !w.unknown[h], Receipt: r}
		if w.unknown[h] {
			i.FailingSince, i.Fault = w.failing, "no status"
		}
		if r != nil {
			i.Confirmations = w.head - r.BlockNumber
			i.Final = i.Confirmations >= w.view.Policy.Confirmations
			for n := r.BlockNumber + 1; w.view.Policy.ReportConfirmations && n <= w.head &&
				n <= r.BlockNumber+w.view.Policy.Confirmations; n++ {
				i.Above = append(i.Above, BlockRef{n, w.blockHash(n)})
			}
		}
		return i
	}
	for i := range queued {
		id, _ := NewTxID(noon, 1)
		w.view.Queue = append(
			w.view.Queue,
			Tx{
				ID:        id,
				Submitter: 1,
				QueueSeq:  int64(i + 1),
				Status:    Status{State: Queued, Version: 1, Executed: Unknown},
			},
		)
		w.events[id] = 1
	}
	return w
}

// blockHash is the canonical hash of a block. A test's fork changes it from forkAt on.
func (w *world) blockHash(n uint64) Hash {
	h := Hash{byte(n), byte(n >> 8), 2}
	if w.forkAt > 0 && n >= w.forkAt {
		h[3] = 1
	}
	return h
}

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

// do performs a step as the engine does, with these outcomes.
func (w *world) do(t fataler, s Step, answer Outcome, prep Preparation) {
	t.Helper()
	w.snapshot = w.copied()
	defer func() { w.snapshot = nil }()
	switch s := s.(type) {
	case Record:
		w.apply(t, s.Change)
	case ReadAccount:
		w.setAccount(Account{Latest: w.onChain(), Pending: w.onChain(), Settled: w.onChain(),
			CommandID: s.CommandID})
	case AskPolicy:
		w.policyAsked = append(w.policyAsked, s.Case.ActionID)
		w.view.Open = PolicyAnswered(&w.view, s, w.answer)
	case Diagnose:
		w.view.Open = Diagnosed(&w.view, s, cmp.Or(w.pooled, InPool))
	case FindConsumer:
		w.view.NonceUse = &NonceUse{CommandID: s.CommandID, Tx: s.Tx.ID, At: w.view.Now,
			Head: w.view.Head, By: w.consumer}
	case Investigate:
		w.apply(t, Investigated(&w.view, s, w.consumer))
	case *Replace:
		fees, ok := s.BumpedFees(w.market)
		r := Replacement{Outcome: prep.Outcome, Fees: fees, AboveLimit: !ok, SignErr: prep.SignErr}
		if r.SignErr == nil {
			no := byte(len(s.Tx.Attempts) + 1)
			r.Signed = Signed{Hash: w.attemptHash(*s.Tx, *s.Tx.Nonce, no), Raw: []byte{no}}
		}
		w.apply(t, Replaced(&w.view, s, r))
	case Prepare:
		w.sign(s, &prep)
		w.apply(t, Prepared(&w.view, s, &prep))
	case PrepareRange:
		w.apply(t, PreparedRange(&w.view, s, w.prepareRange(s, prep)))
	case BroadcastRange:
		answers := slices.Repeat([]Outcome{answer}, len(s.Items))
		w.apply(t, SentRange(&w.view, s, answers))
	case Broadcast:
		if s.CommandID != 0 {
			w.apply(t, OriginalSent(&w.view, s, answer))
			return
		}
		w.apply(t, Sent(&w.view, s, answer))
	}
}

func (w *world) sign(s Prepare, prep *Preparation) {
	if prep.Outcome.Class == Accepted {
		prep.Signed = Signed{Hash: w.attemptHash(*s.Tx, s.Nonce, 1), Raw: []byte{1}}
		prep.Quote = Quote{GasLimit: 21000}
	}
}

// prepareRange prepares as the engine does: all transactions have this result, or the last one has.
func (w *world) prepareRange(s PrepareRange, prep Preparation) (done []Preparation) {
	for i, item := range s.Items {
		one := accepted
		if w.head%2 == 0 || i == len(s.Items)-1 {
			one = prep
		}
		w.sign(item, &one)
		if done = append(done, one); !one.usable() {
			break
		}
	}
	return done
}

// lists are the transactions of the view. Computing a step must not change them, because it may
// never be committed.
func (w *world) lists() [][]Tx { return [][]Tx{w.view.Open, w.view.Queue, w.view.NotExecuted} }

func (w *world) copied() [][]Tx {
	lists := w.lists()
	for i := range lists {
		lists[i] = slices.Clone(lists[i])
		for j := range lists[i] {
			lists[i][j].Attempts = slices.Clone(lists[i][j].Attempts)
		}
	}
	return lists
}

// afterRead is the next step after the account read that precedes each rebroadcast.
func (w *world) afterRead(t fataler) Step {
	t.Helper()
	if look, ok := Decide(&w.view).(ReadAccount); ok {
		w.do(t, look, Outcome{}, accepted)
	}
	return Decide(&w.view)
}

// afterClaim is the next step after the claim of a due rebroadcast.
func (w *world) afterClaim(t fataler) Step {
	t.Helper()
	r, ok := w.afterRead(t).(Record)
	if !ok || len(r.Change.Writes) != 1 || !r.Change.Writes[0].Turn.Claimed ||
		r.Change.Writes[0].Kind != "" {
		t.Fatalf("%+v is not a claim", Decide(&w.view))
	}
	w.do(t, r, Outcome{}, accepted)
	return Decide(&w.view)
}

// onChain is the next nonce of the account: by blocks in the ledger, or by foreign transactions.
func (w *world) onChain() Nonce {
	n := Nonce(0)
	if w.view.Cursor != nil {
		n = w.view.Cursor.Next
	}
	for _, tx := range w.view.Open {
		if !slices.ContainsFunc(tx.Attempts,
			func(a Attempt) bool { return a.Nonce == *tx.Nonce && w.included[a.Hash] != nil }) {
			n = min(n, *tx.Nonce)
		}
	}
	return max(n, w.elsewhere)
}

// setAccount gives the owner a view of the account at the newest head.
func (w *world) setAccount(a Account) {
	a.Head, a.HeadHash = w.head, Hash{byte(w.head), byte(w.head >> 8), 2}
	w.view.Head = w.head
	if w.view.Cursor != nil {
		a.Expected = w.view.Expected()
	}
	w.view.Suspicion, w.view.Open = AccountReadDone(&w.view, &a)
	w.view.Account = &a
}

// apply checks the laws of a change and applies it to the world.
func (w *world) apply(t fataler, c Change) {
	t.Helper()
	if w.snapshot != nil && !reflect.DeepEqual(w.snapshot, w.lists()) {
		t.Fatalf(
			"a step changed the view before its commit: %+v, was %+v",
			w.lists(), w.snapshot)
	}
	w.snapshot = nil
	if c.Init != nil {
		w.view.Cursor = &Cursor{Next: c.Init.Nonce, Init: c.Init.Nonce}
	}
	w.applyProtection(t, c)
	if c.Take != nil && w.view.FailedOver && w.view.Trial == nil {
		w.view.Trial = &c.Take.Nonce
	}
	if c.TrialOver {
		w.view.TrialOver = true
		w.view.Account, w.view.Suspicion = nil, nil
	}
	if c.Compared {
		w.view.FailedOver, w.view.MayHaveLost = false, false
		w.view.Trial, w.view.TrialOver = nil, false
	}
	if c.Status != "" {
		w.view.Submitter.Status = c.Status
	}
	for _, r := range c.Commands {
		w.results = append(w.results, r)
		w.view.Commands = slices.DeleteFunc(w.view.Commands,
			func(k Command) bool { return k.ID == r.ID })
	}
	for _, x := range c.Writes {
		w.write(t, c, x)
	}
}

// applyProtection applies the protection part of a change.
func (w *world) applyProtection(t fataler, c Change) {
	t.Helper()
	if p := c.Protect; p != nil {
		allowed, replaces := !w.view.Cursor.AwaitsDecision(), w.view.Cursor.replaceable()
		if was := w.view.Cursor.Protected; p.Reason == ProtectRestored && was != nil {
			allowed, replaces = was.Reason != ProtectRestored, was.ID
		}
		if p.Expect != w.view.Cursor.Next || !allowed || p.Replaces != replaces ||
			p.Evidence == "" || p.Reason == ProtectRestored && len(c.Writes) > 0 {
			t.Fatalf("%+v protects %+v", p, w.view.Cursor)
		}
		cursor := *w.view.Cursor
		cursor.Protections++
		cursor.Protected = &Protected{
			ID:       cursor.Protections,
			Reason:   p.Reason,
			Evidence: p.Evidence,
			Tx:       c.LostTx(),
		}
		w.view.Cursor = &cursor
		if p.Reason == ProtectRestored {
			restoredWorld(w)
		}
	}
	if u := c.Unprotect; u != nil {
		cursor := *w.view.Cursor
		if u.Expect != cursor.Next || u.To < cursor.Next || cursor.Protected == nil ||
			cursor.Protected.ID != u.ID {
			t.Fatalf("%+v unprotects %+v", u, cursor)
		}
		for ; cursor.Next < u.To; cursor.Next++ {
			w.gaps = append(w.gaps, cursor.Next)
		}
		cursor.Protected = nil
		w.view.Cursor = &cursor
	}
}

func (w *world) write(t fataler, c Change, x Write) {
	t.Helper()
	tx := w.remove(x.Tx)
	if tx.State != x.From || tx.Version != x.Version {
		t.Fatalf("write expects %s/%d, the ledger has %s/%d", x.From, x.Version, tx.State,
			tx.Version)
	}
	if x.Delay < 0 {
		t.Fatalf("negative delay %v", x.Delay)
	}
	if x.Kind == "" && (x.Next.State != tx.State || x.Next.Version != tx.Version) {
		t.Fatalf("a schedule moves %s/%d to %s/%d", tx.State, tx.Version, x.Next.State,
			x.Next.Version)
	}
	if x.Next.Reason != tx.Reason && x.Kind == "" && !mayChangeSilently(tx, x.Next) {
		t.Fatalf("%s/%s becomes %q from %q without an event", tx.State, tx.Sub, x.Next.Reason,
			tx.Reason)
	}
	checkUnfunded(t, tx, x)
	if x.Kind != "" {
		if !Legal(x.Kind, x.From, x.Next.State) || x.Next.Version != tx.Version+1 {
			t.Fatalf("illegal move %s: %s/%d to %s/%d", x.Kind, tx.State, tx.Version, x.Next.State,
				x.Next.Version)
		}
		w.events[tx.ID]++
		if w.reported == nil {
			w.reported = map[TxID][]BlockRef{}
		}
		if x.NewFork {
			w.reported[tx.ID] = nil
		}
		w.reported[tx.ID] = append(w.reported[tx.ID], x.Above...)
		w.kinds[tx.ID] = append(w.kinds[tx.ID], x.Kind)
	}
	if at := -1; x.Next.Nonce != nil && tx.Nonce == nil &&
		(x.Next.State.Final() || tx.State.Final()) { // it ran before, and has its nonce again
		if at = slices.Index(w.gaps, *x.Next.Nonce); at < 0 {
			t.Fatalf("nonce %d was not given up", *x.Next.Nonce)
		}
		w.gaps = slices.Delete(w.gaps, at, at+1)
	} else if x.Next.Nonce != nil && tx.Nonce == nil {
		n := *x.Next.Nonce
		if c.Take == nil || n < c.Take.Nonce || n >= c.Take.Next() || x.Attempt == nil ||
			w.view.Cursor.Next != n {
			t.Fatalf("nonce %d is taken without cursor and attempt", n)
		}
		for _, other := range w.view.Open {
			if !other.Released && other.Slot == x.Next.Slot {
				t.Fatalf("slot %d is taken twice", x.Next.Slot)
			}
		}
		cursor := *w.view.Cursor
		cursor.Next = n + 1
		w.view.Cursor = &cursor
		w.nonces, w.order = append(w.nonces, n), append(w.order, tx.ID)
	}
	if x.Next.Nonce == nil && tx.Nonce != nil {
		w.gaps = append(w.gaps, *tx.Nonce)
	}
	tx.Status = x.Next
	tx.Unsent = tx.Unsent && w.unsent
	tx.Turn = x.Turn
	tx.Due = w.view.Now.Add(x.Delay)
	tx.Attempts = slices.Clone(tx.Attempts)
	if x.Attempt != nil {
		tx.Attempts = append(tx.Attempts, *x.Attempt)
	}
	switch {
	case tx.State.Final():
		w.final = append(w.final, tx)
		if tx.FinalBlock > 0 {
			w.view.NotExecuted = append(w.view.NotExecuted, tx)
		}
	case tx.Nonce == nil:
		w.view.Queue, w.view.Account = slices.Insert(w.view.Queue, 0, tx), nil
	default:
		w.view.Open = append(w.view.Open, tx)
		slices.SortFunc(w.view.Open, func(a, b Tx) int { return int(*a.Nonce) - int(*b.Nonce) })
	}
}

// mayChangeSilently reports whether a reason may change without an event. Only transient reasons of
// a transaction in flight may: a node's last response, or why there is no new attempt yet.
func mayChangeSilently(tx Tx, next Status) bool {
	hint := func(reason string) bool {
		return reason == "" || transientReasons[reason] || slices.Contains(Classes, Class(reason))
	}
	return (tx.State == Allocated || tx.State == Tracking && tx.Sub == Pending) &&
		hint(tx.Reason) &&
		hint(next.Reason)
}

func (w *world) remove(id TxID) Tx {
	for _, list := range []*[]Tx{&w.view.Open, &w.view.Queue, &w.audited, &w.view.NotExecuted} {
		if i := slices.IndexFunc(*list, func(t Tx) bool { return t.ID == id }); i >= 0 {
			tx := (*list)[i]
			*list = slices.Delete(slices.Clone(*list), i, i+1)
			w.setAudited(w.audited...)
			return tx
		}
	}
	return Tx{}
}

// setAudited sets the final transactions within reach of a reorg.
func (w *world) setAudited(txs ...Tx) {
	w.audited, w.view.Audited = txs, nil
	for i := range txs {
		w.view.Audited = append(w.view.Audited, txs[i].Finished())
	}
}

func (w *world) include(h Hash, ok bool) {
	w.head++
	w.included[h] = &Receipt{
		TxHash:      h,
		BlockNumber: w.head,
		BlockHash:   w.blockHash(w.head),
		Success:     ok,
		GasUsed:     21000,
	}
}

var accepted = Preparation{Outcome: Outcome{Class: Accepted}}

// attemptHash is the hash of a signed attempt. Two transactions may use one nonce if the ledger is
// restored in between.
func (w *world) attemptHash(tx Tx, n Nonce, no byte) Hash {
	h := Hash{byte(n), byte(n >> 8), no}
	if w.salted {
		h[3] = w.era
		copy(h[10:], tx.ID[:])
	}
	return h
}
