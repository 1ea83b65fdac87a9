package outcome

import (
	"slices"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// Made-up responses of pools and gateways that use the words of INVALID or ALREADY_KNOWN but mean
// something else.
func TestClassifyBorrowedWords(t *testing.T) {
	t.Parallel()
	for want, texts := range map[txn.Class][]string{
		txn.PoolFull: {
			"existing conflicting transaction type for sender",
			"conflicting tx type in pool for sender",
			"sender has pending blob transactions, legacy transaction type not accepted",
			"authorization list contains an account with in-flight transactions",
			"tx pool data size limit exceeded",
			"mempool bytes exceed max size",
			"too large backlog of pending transactions",
		},
		txn.ReplacementUnderpriced: {
			"nonce 5 is already being used by a pending transaction",
			"pending transaction with nonce 5 exists",
			"invalid: tx nonce is in-flight",
			"max priority fee per gas 5 not higher than existing one",
			"tip must be larger than pending transaction",
		},
		txn.NonceTooLow: {"could not parse submission: sequence number 5 already used"},
		txn.Underpriced: {
			"priority fee must be higher than the chain's least",
			"bump fee: required priority fee 15 exceeds offered 12",
		},
		txn.RateLimited: {
			"your balance of API credits is insufficient",
			"insufficient balance to use this API",
			"transactions per second limit exceeded for this sender",
		},
		txn.Unauthorized: {
			"invalid request signature",
			"the operation is not supported by this endpoint",
			"this operation is not supported on your plan",
			"access token is not active",
		},
		txn.Ambiguous: {
			"cannot unmarshal object into Go value of type common.Hash",
			"bad signature on bearer: rejected",
			"not enough gas in block, it stays pending",
			"transaction already seen as invalid",
			"tx not in pool and not already imported",
			"transaction creates a contract that already exists",
			"transaction rejected: too many already pending",
			"transaction cannot be accepted, another one already pending",
		},
	} {
		for _, text := range texts {
			if got, why := Explain(Response{Message: text}); got != want {
				t.Errorf("%q is %s because %s; want %s", text, got, why, want)
			}
		}
	}
	for _, text := range []string{
		"transaction hash already exists in the blacklist",
		"duplicate transaction type field",
		"insufficient funds: tx already imported would exceed balance",
	} {
		if got, why := Explain(Response{Message: text}); slices.Contains(
			[]txn.Class{txn.AlreadyKnown, txn.Accepted}, got) {
			t.Errorf("a refusal, %q, is %s because %s", text, got, why)
		}
	}
	for text, want := range map[string]txn.Class{
		// Texts that the exceptions must not affect.
		"max priority fee per gas higher than max fee per gas": txn.Invalid,
		"tip above fee cap is not allowed":                     txn.Invalid,
		"CREATE operation is disabled":                         txn.Invalid,
		"transaction type not supported":                       txn.TypeNotSupported,
		"not enough gas":                                       txn.Invalid,
		"Invalid parameters: tx already exist":                 txn.AlreadyKnown,
		"transaction rejected: already in mempool":             txn.AlreadyKnown,
		"insufficient balance for intrinsic gas":               txn.Invalid,
	} {
		if got, why := Explain(Response{Message: text}); got != want {
			t.Errorf("%q is %s because %s; want %s", text, got, why, want)
		}
	}
}
