package outcome

import "github.com/fencepost/fencepost/txn"

// Rank orders the outcomes of one send. A send is a round over the endpoints; the response that
// shows best where the bytes are decides:
//
//  1. ACCEPTED: this node has the bytes.
//  2. ALREADY_KNOWN, REPLACEMENT_UNDERPRICED, NONCE_TOO_LOW: a node knows these bytes or another
//     attempt of their nonce. The owner looks for receipts next.
//  3. AMBIGUOUS: no response, or an unknown one. A node may have the bytes.
//  4. A rejection that time, funds or fees can change. The nonce is kept.
//  5. REVERTED, WRONG_CHAIN, TX_TYPE_NOT_SUPPORTED, INVALID: the bytes are given up. Every endpoint
//     that processed them must agree.
//  6. RATE_LIMITED, UNAUTHORIZED, UNAVAILABLE: the bytes were not processed.
//
// The round ends at the first response of rank 1 or 2. After any other response the next endpoint
// gets the same bytes, because pools differ in room, price floors and contents. This is harmless:
// of all bytes with one nonce at most one executes.
//
// Within a rank the more preferred endpoint counts, with the shortest retry delay.
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
	case txn.ExecutionReverted, txn.WrongChain, txn.TypeNotSupported, txn.Invalid:
		return RankPermanent
	case txn.RateLimited, txn.Unauthorized, txn.Unavailable:
		return RankUnprocessed
	}
	return RankUnknown // AMBIGUOUS, and any new class
}

// Prefer returns the outcome of the better rank. kept may be nil.
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

// UnderHTTPStatus returns the class that a response is worth under its HTTP status. A server that
// failed, or a gateway that lost its server, cannot know the state of the bytes. A class that gives
// the bytes up, or states that no node got them, becomes AMBIGUOUS there.
func UnderHTTPStatus(class txn.Class, status int) txn.Class {
	if status >= 500 && (class == txn.Unavailable || RankOf(class) == RankPermanent) {
		return txn.Ambiguous
	}
	return class
}

// ExplainSend is Explain for the response to a broadcast. doubted reports that the HTTP status made
// the class AMBIGUOUS.
func ExplainSend(a Response) (class txn.Class, why string, doubted bool) {
	class, why = Explain(a)
	return class, why, UnderHTTPStatus(class, a.HTTPStatus) != class
}
