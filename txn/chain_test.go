package txn

import (
	"slices"
	"time"
)

// chained is a world with a whole chain. Its blocks use nonces of the account, with attempts from a
// pool or foreign transactions, and can be undone. Pools never drop an attempt.
type chained struct {
	*world
	blocks  []chainBlock // from chainBase+1 on
	longest int          // greatest length ever
	salt    byte         // makes block hashes unique
	pool    map[Nonce][]Hash
	pruned  bool               // no node keeps state deeper than final
	exits   []Action           // actions by which an operator tries to exit a protection
	lost    map[TxID][]Attempt // attempts missing in a restored ledger
	lag     int                // blocks that the endpoint of account reads is behind
	first   TxID               // of the queue at the beginning
}

type chainBlock struct {
	hash    Hash
	uses    bool // uses a nonce of the account
	tx      Hash // the transaction that does; zero: foreign
	success bool
}

const chainBase = 100

func newChained(queued int, p Policy) *chained {
	c := &chained{
		world: newWorld(queued, p),
		pool:  map[Nonce][]Hash{},
		exits: []Action{ActionResume, ActionAlign},
	}
	c.view.Canonical = func(n uint64) (Hash, bool) {
		if n <= chainBase || n > c.head {
			return Hash{}, false
		}
		return c.blocks[n-chainBase-1].hash, true
	}
	c.mine(chainBlock{})
	return c
}

// mine adds a block.
func (c *chained) mine(b chainBlock) {
	c.salt++
	n := len(c.blocks) + chainBase + 1
	b.hash = Hash{byte(n), byte(n >> 8), 7, c.salt}
	c.blocks = append(c.blocks, b)
	c.longest = max(c.longest, len(c.blocks))
	c.head = uint64(chainBase + len(c.blocks))
	c.view.Head, c.included = c.head, map[Hash]*Receipt{}
	for i, b := range c.blocks {
		if b.tx != (Hash{}) {
			c.included[b.tx] = &Receipt{
				TxHash:      b.tx,
				BlockNumber: uint64(chainBase + 1 + i),
				BlockHash:   b.hash,
				Success:     b.success,
				GasUsed:     21000,
			}
		}
	}
}

// minePool adds a block with an attempt that a pool has for the next nonce, if any.
func (c *chained) minePool(success bool, which int) {
	if attempts := c.pool[c.nonceAt(c.head)]; len(attempts) > 0 {
		c.mine(chainBlock{uses: true, tx: attempts[which%len(attempts)], success: success})
	}
}

// reorg undoes the n newest blocks and adds one. It keeps every block that ever was deepest blocks
// deep.
func (c *chained) reorg(n, deepest int) {
	if n = min(n, len(c.blocks)-(c.longest-deepest)); n < 1 {
		return
	}
	c.blocks = c.blocks[:max(1, len(c.blocks)-n)]
	c.mine(chainBlock{})
	c.view.Account, c.view.Suspicion = nil, nil // as the engine does on a reorg
}

// nonceAt is the account's next nonce as of a block.
func (c *chained) nonceAt(number uint64) (n Nonce) {
	for i, b := range c.blocks {
		if uint64(chainBase+1+i) <= number && b.uses {
			n++
		}
	}
	return n
}

// consumerOf returns the consumer of a nonce, or nil.
func (c *chained) consumerOf(n Nonce) *Consumer {
	at := Nonce(0)
	for i, b := range c.blocks {
		if !b.uses {
			continue
		}
		if at == n {
			by := &Consumer{Block: uint64(chainBase + 1 + i), BlockHash: b.hash, TxHash: b.tx}
			if b.tx == (Hash{}) {
				by.TxHash = Hash{0xee, byte(n)}
			}
			return by
		}
		at++
	}
	return nil
}

// account is the result of an account read.
func (c *chained) account(s ReadAccount) Account {
	lag := min(c.lag, len(c.blocks)-1)
	head := c.head - uint64(lag)
	a := Account{
		Latest:    c.nonceAt(head),
		CommandID: s.CommandID,
		Head:      head,
		HeadHash:  c.blocks[len(c.blocks)-1-lag].hash,
	}
	if head > s.Depth {
		a.Settled = c.nonceAt(head - s.Depth)
	}
	if a.Pending = a.Latest; c.view.Cursor != nil {
		a.Expected = c.view.Expected()
	}
	return a
}

// respond is a node's response to an attempt. The pool keeps it unless it is refused.
func (c *chained) respond(a Attempt, answer Class) Class {
	switch next := c.nonceAt(c.head); {
	case a.Nonce < next:
		return NonceTooLow
	case answer == NonceTooLow:
		answer = AlreadyKnown
	}
	if ((Outcome{Class: answer}).inPool() || answer == Ambiguous) &&
		!slices.Contains(c.pool[a.Nonce], a.Hash) {
		c.pool[a.Nonce] = append(c.pool[a.Nonce], a.Hash)
	}
	return answer
}

// step takes one step, and returns whether it was a Rest.
func (c *chained) step(t fataler, answer Class, prep Preparation) (rested bool) {
	t.Helper()
	c.audit()
	step := Decide(&c.view)
	switch s := step.(type) {
	case Rest:
		rested = true
	case ReadAccount:
		if c.pruned && s.Depth > c.view.Policy.Confirmations {
			if s.MinDepth == 0 {
				c.apply(t, OldStateMissing(&c.view, s))
				break
			}
			s.Depth = s.MinDepth
		}
		a := c.account(s)
		a.Shallow = s.Depth == s.MinDepth
		c.view.Suspicion, c.view.Open = AccountReadDone(&c.view, &a)
		c.view.Account = &a
	case FindConsumer:
		c.view.NonceUse = &NonceUse{CommandID: s.CommandID, Tx: s.Tx.ID, At: c.view.Now,
			Head: c.view.Head, By: c.consumerOf(*s.Tx.Nonce)}
		if by := c.view.NonceUse.By; c.pruned && by != nil && by.Block+
			c.view.Policy.Confirmations < c.head {
			c.view.NonceUse.By = nil
		}
	case Investigate:
		by := c.consumerOf(s.Finding.Nonce)
		if s.Finding.RefutedBy(by) {
			t.Fatalf("refuted: %+v", s.Finding)
		}
		c.apply(t, Investigated(&c.view, s, by))
	case Broadcast:
		c.do(t, s, Outcome{Class: c.respond(*s.Attempt, answer)}, prep)
	case BroadcastRange:
		var answers []Outcome
		for _, b := range s.Items {
			answers = append(answers, Outcome{Class: c.respond(*b.Attempt, answer)})
		}
		c.apply(t, SentRange(&c.view, s, answers))
	default:
		c.do(t, s, Outcome{Class: answer}, prep)
	}
	if r, ok := step.(Record); ok && invalidatesAccount(r.Change) {
		c.view.Account, c.view.Suspicion = nil, nil
	}
	slices.SortFunc(c.view.Queue, func(a, b Tx) int { return int(a.QueueSeq - b.QueueSeq) })
	return rested
}

// invalidatesAccount reports whether the engine reads the account again after a change.
func invalidatesAccount(c Change) bool {
	return c.Unprotect != nil ||
		slices.ContainsFunc(c.Writes,
			func(w Write) bool { return w.Kind == EventReorged || w.Kind == EventIncluded })
}

// run takes steps until a Rest.
func (c *chained) run(t fataler, answer Class, prep Preparation) {
	t.Helper()
	for range 150 {
		if c.step(t, answer, prep) {
			return
		}
	}
	t.Fatalf("a loop without rest: %T, open %+v", Decide(&c.view), c.view.Open)
}

// audit keeps final transactions as the engine does: with the receipt until compared at that depth.
// Reopened outcomes are not audited.
func (c *chained) audit() {
	live := func(id TxID) bool {
		return slices.ContainsFunc(slices.Concat(c.view.Open, c.view.Queue),
			func(tx Tx) bool { return tx.ID == id })
	}
	c.final = slices.DeleteFunc(c.final, func(tx Tx) bool { return live(tx.ID) })
	c.setAudited()
	for _, tx := range c.final {
		if tx.Receipt == nil {
			continue
		}
		hash, _ := c.view.canonicalHash(tx.Receipt.BlockNumber)
		if tx.Receipt.BlockNumber+c.view.Policy.AuditDepth > c.head ||
			hash != tx.Receipt.BlockHash {
			c.setAudited(append(c.audited, tx)...)
		}
	}
}

// wait lets time pass without faults: a node accepts everything, and one block includes one of it.
func (c *chained) wait(t fataler, d time.Duration) {
	t.Helper()
	c.run(t, Accepted, accepted)
	c.view.Now = c.view.Now.Add(d)
	c.minePool(true, 0)
	c.mine(chainBlock{})
}
