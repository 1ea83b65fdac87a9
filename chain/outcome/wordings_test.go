package outcome

import (
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// wordings are made-up messages of unknown clients.
var wordings = map[txn.Class][]string{
	txn.AlreadyKnown: {
		"transaction already in pool",
		"tx already exists in mempool",
		"Transaction 0xabcabcabc already exists",
		"this transaction has already been submitted",
		"duplicate transaction hash",
		"Tx hash already present",
		"transaction is already being processed",
		"TX_ALREADY_IN_MEMPOOL",
		"txn-already-known",
		"ALREADY_EXISTS: already known",
		"Transaction already pending in the mempool",
		"tx with hash 0xabcabcabc already in queue",
		"already have transaction 0xabcabcabc",
		"transaction already confirmed in block 55",
		"The transaction has been already included in the blockchain",
		"We already have this transaction",
		"identical transaction already queued",
		"transaction exists in pool",
		"TransactionAlreadyExists",
		"ErrTxAlreadyInPool",
		"tx already received",
		"DuplicateTransaction",
		"known transaction: 0xabcabcabc",
	},
	txn.NonceTooLow: {
		"nonce is lower than expected",
		"Nonce already used",
		"nonce has already been used",
		"tx nonce 5 less than account nonce 7",
		"NONCE_EXPIRED",
		"transaction nonce is stale",
		"InvalidNonce: expected 7, got 5",
		"nonce: expected >= 7, got 5",
		"account nonce is 10 but transaction nonce is 8",
		"the nonce of the transaction is too low",
		"NonceTooLow",
		"tx nonce (5) below current nonce (7)",
		"bad nonce: 5 < 7",
		"Nonce mismatch: account 7, transaction 5", "sequence number too old",
	},
	txn.NonceGap: {
		"nonce is higher than expected",
		"tx nonce 9 greater than account nonce 7",
		"InvalidNonce: expected 7, got 9",
		"NonceTooHigh",
		"nonce too far ahead",
		"queued: nonce gap",
		"nonce 9 exceeds next nonce 7",
		"account nonce is 8 but transaction nonce is 10",
		"Transaction nonce is too distant",
		"nonce not contiguous with account",
		"previous transaction missing for nonce 9",
		"nonce is in the future",
	},
	txn.ReplacementUnderpriced: {
		"underpriced replacement",
		"gas price bump too small to replace pending transaction",
		"A transaction with the same nonce is already pending",
		"fee not high enough to replace transaction",
		"insufficient fee to replace existing transaction",
		"nonce 5 already exists in pool with higher gas price",
		"pending transaction with the same nonce has a higher fee",
		"min gas price bump of 10% not met",
		"duplicate nonce in pool",
		"transaction with nonce 12 already in the txpool",
		"a transaction with this nonce is already being processed, please wait",
		"transaction for that nonce was already submitted",
		"nonce 5 is already being processed",
		"replaced by transaction with higher tip",
		"tx was replaced",
		"transaction has been replaced by another transaction",
		"dropped: replaced by a newer tx",
		"ReplacementTransactionUnderpriced",
		"Transaction would replace an existing one with lower fees",
		"REPLACEMENT_UNDERPRICED",
	},
	txn.Underpriced: {
		"gas price below minimum of 5 gwei",
		"min gas price is 5000000000",
		"max priority fee per gas below the minimum",
		"gas tip cap too low",
		"fee below network minimum",
		"gasPrice must be at least 1000000000",
		"GasPriceTooLow",
		"tip too low",
		"priority fee too low",
		"transaction fee is below required minimum",
		"TransactionUnderpriced",
		"offered gas price is insufficient",
		"effective gas price too low",
		"price too low",
	},
	txn.FeeCapBelowBaseFee: {
		"maxFeePerGas (5) is lower than baseFeePerGas (9)",
		"fee cap below base fee",
		"base fee exceeds fee cap",
		"gas price lower than block base fee",
		"MaxFeePerGas is less than base fee",
		"transaction max fee per gas too low, base fee is 9",
		"FeeCapLessThanBaseFee",
		"max fee below current base fee 9", "GasPriceLessThanBasefee",
	},
	txn.InsufficientFunds: {
		"insufficient ETH balance",
		"sender has insufficient funds",
		"not enough funds",
		"account balance too low",
		"Insufficient balance to pay for gas",
		"balance insufficient",
		"cost exceeds balance",
		"doesn't have enough funds to send tx",
		"InsufficientBalance",
		"LackOfFundForMaxFee { fee: 5, balance: 3 }",
		"account does not have sufficient funds",
		"gas * price + value exceeds balance",
		"sender's balance is less than required",
		"can't pay gas",
		"insufficient funds for gas and value",
		"no funds",
		"INSUFFICIENT_FUNDS",
		"total cost exceeds account balance", "insufficient native balance",
	},
	txn.PoolFull: {
		"mempool is full",
		"transaction pool capacity reached",
		"pool limit exceeded",
		"too many transactions in pool from this account",
		"queue is full",
		"max pending transactions per account reached",
		"account slots exceeded",
		"per-account limit reached in txpool",
		"MempoolFull",
		"sender has reached the limit of pending transactions",
		"TxPoolOverflow",
		"transaction pool limit reached",
		"mempool at capacity",
		"maximum number of queued transactions reached",
		"pool exhausted",
		"no space in mempool",
		"exceeds the max number of transactions per account",
		"account exceeds available quota",
		"another transaction from this sender is being validated; type of lock not supported",
		"previous tx of the same account is still in progress",
	},
	txn.RateLimited: {
		"Too Many Requests",
		"request limit exceeded",
		"You are being rate limited",
		"rate limit hit",
		"quota exceeded",
		"you have hit your limit",
		"requests per second exceeded",
		"Exceeded maximum requests",
		"API calls limit reached",
		"monthly request limit",
		"throughput limit exceeded",
		"credits exhausted",
		"max requests per second exceeded",
		"TOO_MANY_REQUESTS",
		"rate-limited, please retry later",
		"You have used up your free requests",
		"usage cap reached",
		"call rate limit exhausted, retry in 10s",
		"too many request",
		"bandwidth limit exceeded", "request throttled", "429",
	},
	txn.Unavailable: {
		"node is not synced",
		"upstream unavailable",
		"no upstreams available",
		"service temporarily unavailable",
		"sequencer down",
		"backend not available",
		"node is syncing",
		"Connection refused",
		"node offline",
		"server is overloaded",
		"RPC node unhealthy",
		"network maintenance",
		"no live upstream",
		"failed to connect to backend",
		"no nodes available",
		"all nodes are down",
		"no available nodes",
		"endpoint is down for maintenance",
		"sequencer is not ready",
		"node is starting",
		"chain is halted",
		"leader unavailable",
		"server too busy",
		"service unavailable",
		"no backends available", "the node is behind", "not synced yet", "sequencer paused",
	},
	txn.Unauthorized: {
		"API key invalid",
		"missing api key",
		"access denied",
		"method not allowed",
		"method eth_sendRawTransaction is not supported",
		"The method eth_sendRawTransaction is disabled",
		"sender not allowed",
		"address is blacklisted",
		"sanctioned address",
		"invalid token",
		"Unauthorized",
		"not authorized",
		"permission denied",
		"project not found",
		"IP not allowed",
		"origin not allowed",
		"host not allowed",
		"your plan does not include this method",
		"subscription expired",
		"account is suspended",
		"OFAC sanctioned",
		"transaction from blocked address",
		"endpoint not found",
		"account not whitelisted",
		"eth_sendRawTransaction not allowed",
		"read-only node",
		"this RPC does not accept transactions",
		"Authentication required", "invalid credentials",
	},
	txn.WrongChain: {
		"chain id mismatch",
		"wrong chain id: expected 1, got 5",
		"invalid chainId",
		"chainId does not match",
		"transaction signed for another network",
		"incorrect chain ID",
		"InvalidChainID",
		"unexpected chain id",
		"chain_id not equal to network id",
		"network id does not match",
		"Wrong network",
	},
	txn.Invalid: {
		"intrinsic gas too low",
		"gas limit exceeds block gas limit",
		"transaction too large",
		"invalid signature",
		"failed to decode transaction",
		"gas limit too low",
		"contract code size exceeds limit",
		"tip higher than fee cap",
		"invalid sender",
		"rlp: value size exceeds available input length",
		"cannot decode rlp",
		"exceeds maximum transaction size",
		"sender is a contract",
		"invalid v value",
		"gas limit above maximum",
		"init code too large",
		"data exceeds max size",
		"missing signature",
		"could not recover sender",
		"transaction size exceeds limit",
		"max priority fee exceeds max fee",
		"IntrinsicGasTooLow",
		"gas limit is less than intrinsic gas",
		"invalid transaction encoding",
		"signature verification failed",
		"calldata too large",
		"transaction exceeds gas cap", "MaxInitCodeSizeExceeded",
		// Negated, not forwarded, or about a single server.
		"transaction not accepted: intrinsic gas too low",
		"transaction cannot be accepted: invalid sender",
		"the transaction submitted has an invalid signature",
		"transaction broadcast failed: invalid sender",
		"tx must be submitted to the sequencer: invalid sender",
		"failed to send transaction to node 1: intrinsic gas too low",
		"transaction sent is oversized",
	},
	txn.TypeNotSupported: {
		"transaction type not supported",
		"unsupported tx type 3",
		"blob tx not supported",
		"only legacy transactions are supported",
		"only legacy transactions supported",
		"only legacy tx are allowed",
		"this node only supports legacy transactions",
		"legacy transactions only",
		"transaction must be legacy",
		"transaction must be of type 0",
		"only type 0 transactions are accepted",
		"only replay-protected legacy transactions are supported",
		"non-legacy transactions are not accepted",
		"please use legacy transactions",
		"expected legacy transaction, got type 2",
		"dynamic fee transactions are not supported",
		"dynamic fee tx not supported",
		"DynamicFeeTx is not enabled",
		"typed transactions not supported",
		"type-2 transactions are disabled",
		"type 0x2 transactions are rejected",
		"EIP-1559 is not activated",
		"EIP1559 not enabled",
		"this network does not support EIP-1559",
		"chain does not support 1559",
		"eip-1559 transactions are not supported on this chain",
		"London transactions are not supported",
		"maxFeePerGas is not supported",
		"max_priority_fee_per_gas not supported",
		"invalid transaction type",
		"invalid tx type: 2",
		"unknown transaction type 0x02",
		"transaction type not valid in this context",
		"tx type not allowed: 2",
		"TxTypeNotSupported",
		"InvalidTxType: 2",
		"TransactionTypeNotAllowed",
		"Transaction type EIP1559 is invalid, accepted transaction types are [FRONTIER]",
		"rlp: expected input list for types.txdata",
		"rlp: expected List for types.Transaction",
	},
	txn.ExecutionReverted: {
		"execution reverted: foo",
		"Reverted",
		"VM Exception while processing transaction: revert",
		"transaction reverted",
		"call reverted",
		"Error: VM Exception while processing transaction: reverted with reason string 'x'",
	},
	txn.Ambiguous: {
		"timeout",
		"request timed out",
		"internal error",
		"unknown error",
		"connection reset by peer",
		"unexpected error",
		"something went wrong",
		"Internal JSON-RPC error.",
		"gateway timeout",
		"upstream timed out",
		"response too large",
		"failed to parse response",
		"invalid response from backend",
		"server error",
		"Bad Request",
		"could not send transaction",
		"transaction failed",
		"transaction rejected",
		"unable to process request",
		"error",
		"panic: runtime error: index out of range",
		"service load is very high",
		"broken pipe",
		"json: cannot unmarshal object",
		"context deadline exceeded",
		"stack overflow in handler",
		"invalid request",
		"transaction not found",
		"failed to broadcast",
		"simulation failed",
		"transaction dropped",
		"not a known transaction",
		"Invalid JSON",
		"request payload too large",
		"another transaction is already pending for this account",
		// Parts of servers.
		"simulation engine error: failed to decode trace",
		"type of lock not supported",
		"unsupported: database type 3 not supported",
		"cannot parse snapshot",
		// Accepted or forwarded before something else failed.
		"tx accepted into pool; journal write error: rlp: encode failed",
		"transaction pooled, but broadcast failed: invalid sender set",
		"transaction broadcast, waiting for receipt failed: out of gas",
		"transaction forwarded to 4 builders, 1 builder returned: invalid sender",
		"error forwarding to sequencer (may have been accepted): unexpected transaction type " +
			"in response",
		"sent to mempool, gossip failed: oversized data",
		"error after submission: invalid sender",
		"transaction was added to the pool; rebroadcast error: transaction type not supported",
		"transaction has been forwarded, then: node is not synced",
		"the transaction might already have been included: insufficient funds",
		"forwarded to 3 relays: gas limit too high",
		// Some of several servers.
		"failed to broadcast transaction 0xabcabcabc to 3 of 5 peers: transaction type not " +
			"supported by peer",
		"node1: internal error, node2: exceeds block gas limit",
		"upstream: 2 of 3 nodes: intrinsic gas too low",
		"2/3 providers rejected: invalid sender",
		"some nodes rejected it: invalid sender",
		"1 of 3 failed: invalid signature",
		"partial failure: gas limit too high", "no quorum: intrinsic gas too low",
	},
}

func TestClassifyWordings(t *testing.T) {
	t.Parallel()
	for want, texts := range wordings {
		for _, text := range texts {
			if got, why := Explain(Response{Message: text}); got != want {
				t.Errorf("%q is %s because %s; want %s", text, got, why, want)
			}
		}
	}
}

// Every matching text contains one of the literals of its pattern.
func TestPatterns_Literals(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, s := range append(append(readSamples(t), further(
		t,
		"further_rpc_errors.jsonl",
	)...), further(t, "later_rpc_errors.jsonl")...) {
		texts = append(texts, normalize(s.response().text()))
	}
	for _, list := range wordings {
		for _, text := range list {
			texts = append(texts, normalize(text))
		}
	}
	filtered := 0
	for _, r := range rules {
		for _, p := range append(r.match, r.unless...) {
			if len(p.needs) > 0 {
				filtered++
			}
			for _, text := range texts {
				if p.MatchString(text) && !p.matches(text) {
					t.Errorf("%s matches %q, which holds none of %q", p.Regexp, text, p.needs)
				}
			}
		}
	}
	if filtered == 0 {
		t.Error("no pattern has words that it needs")
	}
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`\bnonce (is )?too low\b`: "too low",
		`ab.*longer`:              "longer",
		`longer.*ab`:              "longer",
		`[0-9]+`:                  "",
		`(a|b*)c?`:                "",
		`(full)?`:                 "",
		`(full){0,6}`:             "",
		`(full){2}`:               "full",
		`(known|seen|\d)`:         "",
		`(known|seen)`:            "known seen",
		`(xx|yy){2}`:              "xx yy",
		`(?i)full`:                "",
	} {
		if got := strings.Join(newPattern(text).needs, " "); got != want {
			t.Errorf("%s needs %q, want %q", text, got, want)
		}
	}
}

// All parts of a response count, however it is wrapped.
func TestResponse_Text(t *testing.T) {
	t.Parallel()
	const nope = "0x08c379a0" + "0000000000000000000000000000000000000000000000000000000000000020" +
		"0000000000000000000000000000000000000000000000000000000000000004" +
		"6e6f706500000000000000000000000000000000000000000000000000000000"
	object := func(key string, value any) map[string]any { return map[string]any{key: value} }
	for name, c := range map[string]struct {
		in   Response
		want txn.Class
	}{
		"markup": {
			Response{Message: "<p><b>nonce</b> too <i>low</i></p>"},
			txn.NonceTooLow,
		},
		"entities": {
			Response{Message: "max fee per gas &lt; base fee"},
			txn.FeeCapBelowBaseFee,
		},
		"escapes": {
			Response{Message: `can\u0027t replace it; gas price \u003c 5`},
			txn.ReplacementUnderpriced,
		},
		"less than": {
			Response{Message: "sender balance <tx cost (1 <2)>: balance insufficient"},
			txn.InsufficientFunds,
		},
		"data text": {Response{Message: "failed", Data: "nonce too low"}, txn.NonceTooLow},
		"data object": {
			Response{Message: "failed", Data: object("message", "nonce too low")},
			txn.NonceTooLow,
		},
		"original error": {
			Response{
				Message: "failed",
				Data:    object("originalError", object("message", "nonce too low")),
			},
			txn.NonceTooLow,
		},
		"list": {
			Response{Message: "failed", Data: object("errors", []any{"x", "nonce too low"})},
			txn.NonceTooLow,
		},
		"too deep": {
			Response{
				Message: "failed",
				Data: object(
					"error",
					object("error", object("error", object("error", "nonce too low"))),
				),
			},
			txn.Ambiguous,
		},
		"another field": {
			Response{Message: "failed", Data: object("method", "nonce too low")},
			txn.Ambiguous,
		},
		"contract's data": {Response{Message: "failed", Data: nope}, txn.ExecutionReverted},
		"other data":      {Response{Message: "failed", Data: "0xdeadbeef"}, txn.Ambiguous},
	} {
		if got, why := Explain(c.in); got != c.want {
			t.Errorf("%s: %s because %s; want %s", name, got, why, c.want)
		}
	}
}
