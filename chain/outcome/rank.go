package outcome

import "github.com/fencepost/fencepost/txn"

// The order of answers. One send is a round over the endpoints, and of what they say the answer counts that knows most of where the bytes are:
//
//  1. ACCEPTED: this node has them.
//  2. ALREADY_KNOWN, REPLACEMENT_UNDERPRICED, NONCE_TOO_LOW: these bytes or another attempt of their nonce are known. The owner looks for receipts next.
//  3. No answer, or one that nobody understands: AMBIGUOUS. Some node may have them.
//  4. A refusal that time, funds or fees can change: it waits, with the same nonce.
//  5. REVERTED, WRONG_CHAIN, INVALID: these bytes are given up. It takes every endpoint that looked at them to say so.
//  6. They were not looked at: RATE_LIMITED, UNAUTHORIZED, UNAVAILABLE.
//
// The round ends at the first answer of rank 1 or 2. Any other sends the same bytes to the next endpoint: pools differ in room, floors and what they have
// seen, and what one refuses another may take. It is harmless, for bytes of one nonce run once at most.
//
// Of the same rank the more preferred endpoint counts, with the soonest time to come again.
type Rank int

const (
	RankAccepted Rank = iota
	RankKnown
	RankUnknown
	RankRetryable
	RankPermanent
	RankUnprocessed
)

func RankOf(class txn.Class) Rank {
	switch class {
	case txn.Accepted:
		return RankAccepted
	case txn.AlreadyKnown, txn.ReplacementUnderpriced, txn.NonceTooLow:
		return RankKnown
	case txn.NonceGap, txn.Underpriced, txn.FeeCapBelowBaseFee, txn.InsufficientFunds, txn.PoolFull:
		return RankRetryable
	case txn.ExecutionReverted, txn.WrongChain, txn.Invalid:
		return RankPermanent
	case txn.RateLimited, txn.Unauthorized, txn.Unavailable:
		return RankUnprocessed
	}
	return RankUnknown // AMBIGUOUS, and whatever is new
}

// Prefer keeps the higher ranked of two answers.
func Prefer(kept *txn.Outcome, o txn.Outcome) *txn.Outcome {
	if kept == nil {
		return &o
	}
	before, now := RankOf(kept.Class), RankOf(o.Class)
	if now < before {
		return &o
	}
	if now == before && now >= RankUnknown && (kept.RetryAfter > o.RetryAfter) {
		kept.RetryAfter = o.RetryAfter
	}
	return kept
}

// UnderHTTPStatus is what a class is worth under an HTTP status. A server that failed, or a gateway that lost its server, cannot know what was done before: a
// refusal that gives the bytes up, or that says they reached nobody, is only a doubt there.
func UnderHTTPStatus(class txn.Class, status int) txn.Class {
	if status >= 500 && (class == txn.Unavailable || RankOf(class) == RankPermanent) {
		return txn.Ambiguous
	}
	return class
}

// ExplainSend is Explain for the answer to a transaction that was handed over: doubted where it says more than the one who answered can know.
func ExplainSend(a Response) (class txn.Class, why string, doubted bool) {
	class, why = Explain(a)
	return class, why, UnderHTTPStatus(class, a.HTTPStatus) != class
}
