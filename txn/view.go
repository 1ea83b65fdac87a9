package txn

import "time"

// Policy configures the tracking of a chain's transactions.
type Policy struct {
	Confirmations uint64 // canonical blocks above the receipt's that make it final
	// depth at which the next nonce may be taken; 0: once it is final. See releases
	ReleaseDepth uint64
	// depth below which reorgs are considered impossible: a lost nonce may be resolved there
	AuditDepth uint64
	// how long the chain may lack transactions of the ledger before this is no longer lag
	LagGrace            time.Duration
	ReportConfirmations bool          // emit an event for each block above the receipt's
	PrepareMaxAge       time.Duration // longest wait at the head of the queue; 0: no limit
	ResubmitInterval    time.Duration // between two broadcasts of the same bytes
	// broadcasts after which a transaction is STUCK (still tracked and rebroadcast)
	ResubmitMax int
	// age of the first attempt after which it is STUCK regardless of RPC responses; 0: no limit
	ResubmitMaxAge time.Duration
	Diagnose       bool // look up the pool before each rebroadcast
	Stuck          bool // a stuck policy is configured
	// nil: replacements only on request, and cancel transactions are not bumped automatically
	Bump BumpPolicy
	// minimum factor of both fees of a replacement, in thousandths; pools require at least 1100
	BumpPermille uint64
	// transactions of a pipelined submitter that the bump policy may replace in a ResubmitInterval,
	// lowest nonces first; 0: one
	BumpBudget int
	// highest fee cap of a replacement per unit of gas; zero: no limit
	BumpMaxFee Wei
	// the same for a transaction that no node has accepted yet
	MaxFee     Wei
	FixedPrice bool // the gas price is configured, and not read from nodes
	// accounts that delegate to the code of one of these may send: see acceptsCode
	AllowCode []Address
	External  ExternalPolicy
}

// View is everything the owner of a submitter knows at one moment: its ledger, pending commands,
// and the chain under one frozen head.
type View struct {
	Now       time.Time
	Policy    Policy
	Submitter Submitter
	Cursor    *Cursor    // nil before the account was read
	Open      []Tx       // with a nonce and not final, lowest nonce first
	Queue     []Tx       // head of the queue, in order
	Audited   []Finished // final with a receipt, still within the audit depth
	// final as not executed, with signed attempts, still within the audit depth
	NotExecuted []Tx
	Commands    []Command
	Account     *Account // nil: not read since the lease was acquired, or since the last doubt
	Suspicion   *Suspicion
	NonceUse    *NonceUse // user of a nonce, as of the last FindConsumer; nil: not queried
	Head        uint64    // number of the newest block of this view; 0: none yet
	BlockAt     time.Time // when that block arrived; zero: before this node followed the chain
	Inclusion   func(Hash) Inclusion
	Canonical   func(number uint64) (Hash, bool) // for blocks of the view; nil: none
	// the database failed over, or was restored, since the account was last compared with the chain
	FailedOver bool
	// commits of the account may have been lost since then: it did not only move to this ledger
	MayHaveLost bool
	Trial       *Nonce // the first one taken since then, by this owner; nil: none
	TrialOver   bool   // its transaction is final; Account was read after that, or is nil
	Lost        string // commits of this node that the ledger lacks; empty: none
	Twin        bool   // another ledger may use the key: see checkUnsent
	// why a queued transaction must not be signed; it must be pure. nil: none is refused
	Refuse   func(*Tx) Refusal
	External ExternalView
}

// inclusion returns the chain's state of a transaction: of the attempt that is included. It is
// known only if no attempt is in doubt. Attempts from before a REQUEUE have other nonces and are
// excluded: see earlierInclusion.
func (v *View) inclusion(tx *Tx) Inclusion {
	all, counted := Inclusion{}, false
	for _, a := range tx.Attempts {
		if tx.Nonce == nil || a.Nonce != *tx.Nonce {
			continue
		}
		one := v.Inclusion(a.Hash)
		if one.Known && one.Receipt != nil {
			return one
		}
		all.Known = one.Known && (all.Known || !counted)
		counted = true
	}
	return all
}

// move returns the write of one move, or of a schedule if kind is empty, as a list of one.
func (v *View) move(tx *Tx, kind Kind, next *Status, delay time.Duration) []Write {
	list := make([]Write, 1)
	w := &list[0]
	w.Tx = tx.ID
	w.Version = tx.Version
	w.From = tx.State
	w.Kind = kind
	w.Next = *next
	w.Delay = delay
	if kind != "" {
		w.Next.Version = tx.Version + 1
	}
	w.Next.LastErrorBase = validBase(next.LastError, next.LastErrorBase)
	if next.State.Final() && next.Executed == No && v.mayHaveExecuted(tx, next) {
		w.Next.markUnproven()
	}
	if next.State.Final() && next.Receipt == nil && len(tx.Attempts) > 0 {
		w.Next.FinalBlock = max(v.Head, 1)
	}
	return list
}

// Suspicion is a first account read that disagrees with the ledger. Only a second one at a later
// block makes it a finding, because a single reading may be wrong (requirements H18, H21). It is in
// memory only: a new owner reads twice again.
type Suspicion struct {
	Reason string
	Nonce  Nonce // the nonce in question: the cursor's, or the lowest one in flight
	Latest Nonce // the account's next nonce by that read
	Head   uint64
	Hash   Hash // of the head
	Since  time.Time
}

// BumpPolicy decides whether a due transaction is replaced before it is rebroadcast. It sees the
// ledger's state, and must be pure.
type BumpPolicy interface {
	// Bump reports whether to replace now. last is the newest attempt and n the number of
	// replacements: of the first cancel, if last is a cancel. A cancel that is never bumped may
	// never be included, and nothing else is broadcast meanwhile (H29).
	Bump(now time.Time, tx *Tx, last *Attempt, n int) bool
}

func openTx(v *View, id TxID) (*Tx, bool) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.ID == id {
			return tx, true
		}
	}
	return nil, false
}

// deepest returns the depth at which reorgs are considered impossible.
func (p Policy) deepest() uint64 { return max(p.Confirmations, p.AuditDepth) }

// settledDepth returns the depth of the settled nonce in the account read for a decision.
func (v *View) settledDepth() uint64 {
	if v.Account.Shallow {
		return v.Policy.Confirmations
	}
	return v.Policy.deepest()
}

// claim counts a broadcast before it happens; Sent undoes the count if no node examined the bytes.
// An early broadcast is not counted.
func (v *View) claim(tx *Tx, next *Status, kind Kind, delay time.Duration) []Write {
	w := v.move(tx, kind, next, delay)
	w[0].Turn = tx.Turn
	if !tx.Turn.Claimed {
		w[0].Turn.Claimed = true
		if v.early(tx) {
			w[0].Turn.Early = tx.Due
		} else {
			w[0].Next.SubmitAttempts++
		}
	}
	return w
}
