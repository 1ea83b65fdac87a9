package outcome

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// unseen are responses of nodes and providers outside testdata/rpc_errors.jsonl, the purpose of the
// rules. They were classified with the existing rules first; misread ones led to more general
// rules.
var unseen = []struct {
	from string
	in   Response
	want txn.Class
}{
	// Wrapped by gateways.
	{"gateway", Response{Message: "call failed: OldNonce"}, txn.NonceTooLow},
	{"gateway", Response{Message: "call failed: AlreadyKnown"}, txn.AlreadyKnown},
	{"gateway", Response{Message: "transaction rejected: nonce too low"}, txn.NonceTooLow},
	{
		"gateway",
		Response{Message: "rpc error: code = Unknown desc = already known"},
		txn.AlreadyKnown,
	},
	{
		"gateway",
		Response{
			Message: "err: max fee per gas less than block base fee: address " +
				"0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c, maxFeePerGas: 1, baseFee: 7 " +
				"(supplied gas 21000)",
		},
		txn.FeeCapBelowBaseFee,
	},
	{
		"gateway",
		Response{
			Code: -32000,
			Message: "failed to send transaction: insufficient funds for gas * price + value: " +
				"address 0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c have 5 want 9",
		},
		txn.InsufficientFunds,
	},
	{
		"gateway",
		Response{Message: `{"code":-32000,"message":"nonce too low: next nonce 7, tx nonce 3"}`},
		txn.NonceTooLow,
	},
	{
		"gateway",
		Response{
			HTTPStatus: 400,
			Message:    "intrinsic gas too low: gas 20000, minimum needed 21000",
		},
		txn.Invalid,
	},
	{"gateway", Response{HTTPStatus: 500, Message: "already known"}, txn.AlreadyKnown},

	// geth and its forks.
	{
		"geth",
		Response{Message: "invalid sender: invalid chain id for signer: have 1 want 31337"},
		txn.WrongChain,
	},
	{"geth", Response{Message: "txpool is full"}, txn.PoolFull},
	{"geth", Response{Message: "future transaction tries to replace pending"}, txn.PoolFull},
	{"geth", Response{Message: "address already reserved"}, txn.PoolFull},
	{
		"geth",
		Response{Message: "max priority fee per gas higher than max fee per gas"},
		txn.Invalid,
	},
	{
		"geth",
		Response{Message: "transaction gas limit too high (cap: 16777216, tx: 20000000)"},
		txn.Invalid,
	},
	{
		"geth",
		Response{
			Message: "insufficient gas for floor data gas cost: gas 21000, minimum needed 40000",
		},
		txn.Invalid,
	},
	{
		"geth",
		Response{Message: "tx fee (1.10 ether) exceeds the configured cap (1.00 ether)"},
		txn.Invalid,
	},
	{
		"geth",
		Response{Message: "transaction underpriced: tip needed 1000000000, tip permitted 1"},
		txn.Underpriced,
	},
	{"geth", Response{Message: "execution reverted: nonce too low"}, txn.ExecutionReverted},
	{
		"geth",
		Response{Code: 3, Message: "execution reverted: ERC20: insufficient balance", Data: "0x"},
		txn.ExecutionReverted,
	},
	{
		"geth",
		Response{Code: -32602, Message: "invalid argument 0: hex string without 0x prefix"},
		txn.Invalid,
	},
	{"geth", Response{Code: -32602, Message: "missing value for required argument 0"}, txn.Invalid},
	{"geth", Response{Message: "rlp: expected input list for types.LegacyTx"}, txn.Invalid},
	{"geth", Response{Message: "request timed out", Code: -32002}, txn.Ambiguous},
	{
		"geth",
		Response{Message: "missing trie node 8f3c (path ) state 0xabcdefabcdef is not available"},
		txn.Unavailable,
	},
	{
		"bor",
		Response{Message: "gas price lower than minimum: transaction underpriced"},
		txn.Underpriced,
	},
	{
		"avalanche",
		Response{
			Message: "call failed: nonce too low: address " +
				"0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c current nonce (5833) > tx nonce (5511)",
		},
		txn.NonceTooLow,
	},
	{
		"optimism",
		Response{
			Message: "fee too low: 30365610000000, use at least tx.gasLimit = 5874374 and " +
				"tx.gasPrice = 15000000",
		},
		txn.Underpriced,
	},
	{
		"optimism",
		Response{
			Message: "fee too high: 5835750750000000, use less than 467550750000000 * 0.700000",
		},
		txn.Invalid,
	},
	{"arbitrum", Response{Message: "gas price too low"}, txn.Underpriced},
	{"arbitrum", Response{Message: "forbidden sender address"}, txn.Unauthorized},
	{"harmony", Response{Message: "transaction already finalized"}, txn.AlreadyKnown},
	{"harmony", Response{Message: "`from` address of transaction in blacklist"}, txn.Unauthorized},
	{"kaia", Response{Message: "invalid unit price"}, txn.Ambiguous},

	// Other clients.
	{
		"rsk",
		Response{Code: -32010, Message: "pending transaction with same hash already exists"},
		txn.AlreadyKnown,
	},
	{
		"rsk",
		Response{Code: -32010, Message: "gas price not enough to bump transaction"},
		txn.ReplacementUnderpriced,
	},
	{"rsk", Response{Code: -32010, Message: "transaction nonce too high"}, txn.NonceGap},
	{
		"rsk",
		Response{
			Code: -32010,
			Message: "transaction's gas limit of 9000000 is higher than the block's gas limit " +
				"of 6800000",
		},
		txn.Invalid,
	},
	{
		"rsk",
		Response{Code: -32010, Message: "transaction's basic cost is above the gas limit"},
		txn.Invalid,
	},
	{
		"rsk",
		Response{Code: -32010, Message: "transaction's gas price lower than block's minimum"},
		txn.Underpriced,
	},
	{
		"rsk",
		Response{Code: -32010, Message: "transaction's size is higher than defined maximum"},
		txn.Invalid,
	},
	{
		"rsk",
		Response{
			Code:    -32010,
			Message: "insufficient funds to pay for pending and new transactions",
		},
		txn.InsufficientFunds,
	},
	{"rsk", Response{Code: -32010, Message: "account exceeds quota"}, txn.PoolFull},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data: "\"Transaction " +
				"0x84b64ffdfb5246153420e73f142fbbc939e2879f17ca11c5a38e77770c4990ff " +
				"is discarded due to a too stale nonce\"",
		},
		txn.NonceTooLow,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data: "\"Transaction " +
				"0x84b64ffdfb5246153420e73f142fbbc939e2879f17ca11c5a38e77770c4990ff " +
				"is discarded due to in too distant future\"",
		},
		txn.NonceGap,
	},
	{
		"conflux",
		Response{Code: -32602, Message: "Invalid parameters: tx", Data: "\"tx already exist\""},
		txn.AlreadyKnown,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data: "Tx with same nonce already inserted. To replace it, you need to specify " +
				"a gas price > 20000000000",
		},
		txn.ReplacementUnderpriced,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data:    "\"NotEnoughBaseGas { required: 21000, got: 2000 }\"",
		},
		txn.Invalid,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data: "\"transaction gas 20000000 exceeds the maximum value 15000000, the half " +
				"of pivot block gas limit\"",
		},
		txn.Invalid,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data:    "\"transaction gas price 1 less than the minimum value 1000000000\"",
		},
		txn.Underpriced,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data:    "ChainIdMismatch { expected: 1, got: 1029 }",
		},
		txn.WrongChain,
	},
	{
		"conflux",
		Response{
			Code:    -32602,
			Message: "Invalid parameters: tx",
			Data: "Transaction 0x84b6 is discarded due to out of balance, needs 200 but " +
				"account balance is 100",
		},
		txn.InsufficientFunds,
	},
	{
		"conflux",
		Response{
			Code:    -32077,
			Message: "Failed imported to deferred pool: Transaction Pool is full",
		},
		txn.PoolFull,
	},
	{
		"conflux",
		Response{Code: -32077, Message: "Request rejected due to still in the catch up mode."},
		txn.Unavailable,
	},
	{
		"substrate",
		Response{Code: 1010, Message: "Invalid Transaction", Data: "Transaction is outdated"},
		txn.NonceTooLow,
	},
	{
		"substrate",
		Response{
			Code:    1010,
			Message: "Invalid Transaction",
			Data:    "Transaction will be valid in the future",
		},
		txn.NonceGap,
	},
	{
		"substrate",
		Response{
			Code:    1010,
			Message: "Invalid Transaction",
			Data:    "Inability to pay some fees (e.g. account balance too low)",
		},
		txn.InsufficientFunds,
	},
	{
		"substrate",
		Response{
			Code:    1010,
			Message: "Invalid Transaction",
			Data:    "Transaction has a bad signature",
		},
		txn.Invalid,
	},
	{"substrate", Response{Code: 1010, Message: "Invalid Transaction"}, txn.Ambiguous},
	{"substrate", Response{Code: 1012, Message: "Transaction is temporarily banned"}, txn.PoolFull},
	{"substrate", Response{Code: 1013, Message: "Transaction Already Imported"}, txn.AlreadyKnown},
	{
		"substrate",
		Response{
			Code:    1016,
			Message: "Immediately Dropped",
			Data:    "The transaction couldn't enter the pool because of the limit",
		},
		txn.PoolFull,
	},
	{
		"moonriver",
		Response{Message: "submit transaction to pool failed: Pool(AlreadyImported)"},
		txn.AlreadyKnown,
	},
	{
		"moonriver",
		Response{
			Message: "submit transaction to pool failed: Pool(TooLowPriority { old: 20000, " +
				"new: 20000 })",
		},
		txn.ReplacementUnderpriced,
	},
	{
		"moonriver",
		Response{Message: "submit transaction to pool failed: Pool(ImmediatelyDropped)"},
		txn.PoolFull,
	},
	{
		"moonriver",
		Response{
			Message: "submit transaction to pool failed: " +
				"InvalidTransaction(InvalidTransaction::Stale)",
		},
		txn.NonceTooLow,
	},
	{
		"moonriver",
		Response{
			Message: "submit transaction to pool failed: " +
				"InvalidTransaction(InvalidTransaction::Future)",
		},
		txn.NonceGap,
	},
	{
		"moonriver",
		Response{
			Message: "submit transaction to pool failed: " +
				"InvalidTransaction(InvalidTransaction::Payment)",
		},
		txn.InsufficientFunds,
	},
	{"polygon zkevm", Response{Code: -32000, Message: "nonce intrinsic error"}, txn.NonceTooLow},
	{
		"polygon zkevm",
		Response{Code: -32000, Message: "balance intrinsic error"},
		txn.InsufficientFunds,
	},
	{"polygon zkevm", Response{Code: -32000, Message: "chain id intrinsic error"}, txn.WrongChain},
	{"polygon zkevm", Response{Code: -32000, Message: "gas limit intrinsic error"}, txn.Invalid},
	{"polygon zkevm", Response{Code: -32000, Message: "signature intrinsic error"}, txn.Invalid},
	{"aurora", Response{Message: "ERR_INCORRECT_NONCE: ac: 5, tx: 3"}, txn.NonceTooLow},
	{"aurora", Response{Message: "ERR_INCORRECT_NONCE: ac: 5, tx: 9"}, txn.NonceGap},
	{"aurora", Response{Message: "ERR_TX_RLP_DECODE"}, txn.Invalid},
	{"aurora", Response{Message: "ERR_INTRINSIC_GAS"}, txn.Invalid},
	{
		"cosmos",
		Response{
			Code:    -32000,
			Message: "account sequence mismatch, expected 12, got 10: incorrect account sequence",
		},
		txn.NonceTooLow,
	},
	{
		"cosmos",
		Response{
			Code:    -32000,
			Message: "account sequence mismatch, expected 12, got 14: incorrect account sequence",
		},
		txn.NonceGap,
	},
	{"cosmos", Response{Code: -32000, Message: "tx already exists in cache"}, txn.AlreadyKnown},
	{
		"cosmos",
		Response{
			Code: -32000,
			Message: "mempool is full: number of txs 5000 (max: 5000), total txs bytes 12345 " +
				"(max: 1073741824)",
		},
		txn.PoolFull,
	},
	{
		"cosmos",
		Response{
			Code:    -32000,
			Message: "insufficient fees; got: 100aevmos required: 200aevmos: insufficient fee",
		},
		txn.Underpriced,
	},
	{
		"cosmos",
		Response{Code: -32000, Message: "sender balance < tx cost (100 < 200): insufficient funds"},
		txn.InsufficientFunds,
	},
	{
		"nethermind",
		Response{Code: -32010, Message: "ReplacementNotAllowed"},
		txn.ReplacementUnderpriced,
	},
	{"nethermind", Response{Code: -32010, Message: "SenderIsContract"}, txn.Invalid},
	{"nethermind", Response{Code: -32010, Message: "NotCurrentNonceForDelegation"}, txn.Ambiguous},
	{"nethermind", Response{Code: -32010, Message: "DelegatorHasPendingTx"}, txn.PoolFull},
	{"nethermind", Response{Code: -32010, Message: "PendingTxsOfConflictingType"}, txn.PoolFull},
	{"nethermind", Response{Code: -32010, Message: "MaxTxSizeExceeded"}, txn.Invalid},
	{"erigon", Response{Code: -32000, Message: "pending sub-pool is full"}, txn.PoolFull},
	{"erigon", Response{Code: -32000, Message: "nonce too low"}, txn.NonceTooLow},
	{
		"erigon",
		Response{
			Code:    -32000,
			Message: "INTERNAL_ERROR: NotReplaced: could not replace existing tx",
		},
		txn.ReplacementUnderpriced,
	},
	{"besu", Response{Code: -32001, Message: "Nonce too low"}, txn.NonceTooLow},
	{
		"besu",
		Response{Code: -32000, Message: "TRANSACTION_REPLACEMENT_UNDERPRICED"},
		txn.ReplacementUnderpriced,
	},
	{
		"besu",
		Response{
			Code:    -32000,
			Message: "Transaction gas price too low to replace existing transaction",
		},
		txn.ReplacementUnderpriced,
	},
	{"besu", Response{Code: -32000, Message: "Invalid signature"}, txn.Invalid},
	{
		"parity",
		Response{
			Code:    -32010,
			Message: "Insufficient balance for transaction. Balance=100.25, Cost=200.50",
		},
		txn.InsufficientFunds,
	},
	{
		"parity",
		Response{
			Code:    -32010,
			Message: "Transaction is too big, see chain specification for the limit.",
		},
		txn.Invalid,
	},
	{
		"parity",
		Response{
			Code: -32010,
			Message: "Transaction cost exceeds current gas limit. Limit: 50, got: 100. Try " +
				"decreasing supplied gas.",
		},
		txn.Invalid,
	},
	{
		"ganache",
		Response{
			Message: "VM Exception while processing transaction: the tx doesn't have the " +
				"correct nonce. account has nonce of: 5 tx has nonce of: 3",
		},
		txn.NonceTooLow,
	},
	{
		"ganache",
		Response{
			Message: "the tx doesn't have the correct nonce. account has nonce of: 5 tx has " +
				"nonce of: 8",
		},
		txn.NonceGap,
	},
	{
		"ganache",
		Response{
			Message: "VM Exception while processing transaction: sender doesn't have enough " +
				"funds to send tx. The upfront cost is: 200 and the sender's account only has: 100",
		},
		txn.InsufficientFunds,
	},
	{"tron", Response{Message: "REVERT opcode executed"}, txn.ExecutionReverted},
	{"iotex", Response{Message: "insufficient balance for gas"}, txn.InsufficientFunds},
	{"unnamed", Response{Message: "nonce gap too large: current 5, tx nonce 90"}, txn.NonceGap},
	{"unnamed", Response{Message: "per-sender transaction limit exceeded"}, txn.PoolFull},
	{
		"unnamed",
		Response{Message: "max fee per gas less than max priority fee per gas"},
		txn.Invalid,
	},
	{"unnamed", Response{Message: "transaction pool is full"}, txn.PoolFull},
	{
		"unnamed",
		Response{
			Code:    -32015,
			Message: "transaction pool error transaction already exists in the pool",
		},
		txn.AlreadyKnown,
	},
	{
		"unnamed",
		Response{Message: "Transaction 0xabc123abc123 is already in the pool"},
		txn.AlreadyKnown,
	},
	{
		"unnamed",
		Response{Message: "Transaction nonce 5 is lower than the account nonce 7"},
		txn.NonceTooLow,
	},
	{
		"unnamed",
		Response{Message: "Transaction nonce 9 is greater than the expected nonce 7"},
		txn.NonceGap,
	},
	{"unnamed", Response{Message: "unknown transaction"}, txn.Ambiguous},
	{"unnamed", Response{Message: "the block is already known"}, txn.Ambiguous},
	{"unnamed", Response{Message: "This transaction was already rejected"}, txn.Ambiguous},

	// Providers and gateways.
	{
		"quicknode",
		Response{
			Code: -32007,
			Message: "100/second request limit reached - reduce calls per second or upgrade " +
				"your account at quicknode.com",
		},
		txn.RateLimited,
	},
	{"blast", Response{Code: -32603, Message: "rate limit exceeded"}, txn.RateLimited},
	{"provider", Response{Code: -32029, Message: "slow down"}, txn.RateLimited},
	{"provider", Response{Code: -32000, Message: "Too Many Requests"}, txn.RateLimited},
	{
		"provider",
		Response{
			Code:    -32090,
			Message: "Too many requests, reason: call rate limit exhausted, retry in 10s",
		},
		txn.RateLimited,
	},
	{
		"provider",
		Response{Code: -32001, Message: "You have exceeded your daily request limit"},
		txn.RateLimited,
	},
	{"provider", Response{HTTPStatus: 429, Message: "Too Many Requests"}, txn.RateLimited},
	{"provider", Response{HTTPStatus: 429}, txn.RateLimited},
	{"provider", Response{Message: "capacity limit exceeded"}, txn.RateLimited},
	{"provider", Response{Message: "user exceeded credits"}, txn.RateLimited},
	{"provider", Response{HTTPStatus: 401, Message: "Must be authenticated!"}, txn.Unauthorized},
	{"provider", Response{HTTPStatus: 403, Message: "Forbidden"}, txn.Unauthorized},
	{"provider", Response{HTTPStatus: 403}, txn.Unauthorized},
	{"provider", Response{Message: "invalid project id"}, txn.Unauthorized},
	{"provider", Response{Message: "tenant disabled"}, txn.Unauthorized},
	{"provider", Response{Message: "invalid api key"}, txn.Unauthorized},
	{"provider", Response{Code: -32601, Message: "Method not found"}, txn.Unauthorized},
	{
		"provider",
		Response{Code: -32601, Message: "eth_sendRawTransaction is not supported on this network"},
		txn.Unauthorized,
	},
	{
		"provider",
		Response{Message: "Method eth_sendRawTransaction not whitelisted"},
		txn.Unauthorized,
	},
	{
		"provider",
		Response{HTTPStatus: 503, Message: "Service Temporarily Unavailable"},
		txn.Unavailable,
	},
	{"provider", Response{HTTPStatus: 502, Message: "502 Bad Gateway"}, txn.Unavailable},
	{"provider", Response{HTTPStatus: 504, Message: "Gateway Time-out"}, txn.Ambiguous},
	{"provider", Response{HTTPStatus: 500, Message: "Internal Server Error"}, txn.Ambiguous},
	{"provider", Response{Message: "no available upstream"}, txn.Unavailable},
	{"provider", Response{Message: "all upstreams are unhealthy"}, txn.Unavailable},
	{"provider", Response{Message: "backend is overloaded"}, txn.Unavailable},
	{"provider", Response{Message: "node is not synced"}, txn.Unavailable},
	{"provider", Response{Message: "could not connect to upstream"}, txn.Unavailable},
	{
		"transport",
		Response{Message: "read tcp 10.0.0.1:5000->10.0.0.2:443: read: connection reset by peer"},
		txn.Ambiguous,
	},
	{"transport", Response{Message: "unexpected EOF"}, txn.Ambiguous},
	{
		"transport",
		Response{Message: "dial tcp 127.0.0.1:8545: connect: connection refused"},
		txn.Unavailable,
	},
	{"transport", Response{Message: "dial tcp: lookup rpc.example: no such host"}, txn.Unavailable},
	{"transport", Response{Message: "context deadline exceeded"}, txn.Ambiguous},
	{"nobody", Response{}, txn.Ambiguous},
	{"nobody", Response{Message: "some words that mean nothing"}, txn.Ambiguous},
}

func TestClassifyUnseen(t *testing.T) {
	t.Parallel()
	for _, c := range unseen {
		if got, why := Explain(c.in); got != c.want {
			t.Errorf("%s: %q %v (code %d, HTTP %d) is %s because %s; want %s", c.from, c.in.Message,
				c.in.Data, c.in.Code, c.in.HTTPStatus, got, why, c.want)
		}
	}
}
