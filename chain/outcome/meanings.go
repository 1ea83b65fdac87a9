package outcome

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

//go:generate go run generate.go ../../docs/outcomes.md

// Meaning describes a class: its statement about the bytes, and the reaction of Fencepost.
type Meaning struct {
	Class txn.Class
	Says  string
	Does  string
}

// NonceKept states the effect of every class on an allocated nonce.
const NonceKept = "kept: no response of a node frees a nonce"

const (
	nextEndpoint = "not counted as a broadcast; tries the next endpoint and backs off from this one"
	rebroadcast  = "rebroadcasts the same bytes, with a growing delay"
	replace      = rebroadcast +
		", or signs a replacement with higher fees (cancels, and transactions that no node has " +
		"accepted, always; others with gas_bump.enabled)"
)

// Meanings returns the meaning of every class, in the order of txn.Classes.
func Meanings() []Meaning {
	return []Meaning{
		{
			txn.Accepted,
			"the node accepted the bytes and returned their hash",
			"watches blocks for the hash, and rebroadcasts if no block includes it",
		},
		{
			txn.AlreadyKnown,
			"the node already has these bytes, in its pool or in a block",
			"the same as after ACCEPTED",
		},
		{
			txn.NonceTooLow,
			"the nonce is used, by an attempt of this transaction or by another sender",
			"reads the receipts of every attempt and the account's nonce; " + rebroadcast,
		},
		{
			txn.NonceGap,
			"the node lacks a transaction with a lower nonce",
			"handles the lower nonces first; " + rebroadcast,
		},
		{
			txn.ReplacementUnderpriced,
			"the pool holds another attempt of the nonce, and the fees are too low to replace it",
			"keeps tracking every attempt; " + replace,
		},
		{
			txn.Underpriced,
			"the fees are below the minimum of the node or the chain",
			replace,
		},
		{
			txn.FeeCapBelowBaseFee,
			"the fee cap is below the base fee of the next block",
			replace + ". Before a nonce is allocated: waits for lower fees",
		},
		{
			txn.InsufficientFunds,
			"the account cannot afford the transaction",
			rebroadcast + ", and signs no replacement with higher fees. " +
				"Before a nonce is allocated: waits. The sub-state is UNFUNDED in both cases, " +
				"and the transaction proceeds once the account is funded",
		},
		{txn.PoolFull, "the pool has no room", rebroadcast},
		{
			txn.RateLimited,
			"the provider's request limit was hit; the bytes were not processed",
			nextEndpoint + ", at least for as long as the provider asks",
		},
		{
			txn.Unavailable,
			"the bytes did not reach a node, or the endpoint cannot serve requests",
			nextEndpoint,
		},
		{
			txn.Unauthorized,
			"the endpoint does not serve this method, account or client",
			nextEndpoint + "; the response is shown as the reason",
		},
		{
			txn.WrongChain,
			"the bytes are signed for another chain than the node's",
			rebroadcast + ". It is shown as the reason: correct the endpoint or the chain_id",
		},
		{
			txn.TypeNotSupported,
			"the node takes no transactions of this type (EIP-2718)",
			"signs a legacy transaction for the same nonce, unless a node has accepted an " +
				"attempt, and uses legacy transactions on this chain for a day. A legacy " +
				"transaction with this response is treated as INVALID",
		},
		{
			txn.Invalid,
			"no node of the chain will ever accept these bytes",
			"cancels the nonce and fails. Bytes that a pool may hold are treated as AMBIGUOUS, " +
				"and become STUCK after the same number of broadcasts. A cancel transaction " +
				"estimates its gas again. Before a nonce is allocated: fails once the chain " +
				"reports it at several blocks; an estimate that lacks gas is AMBIGUOUS",
		},
		{
			txn.ExecutionReverted,
			"a contract reverted the call",
			rebroadcast + ". Before a nonce is allocated: fails once the chain reports it " +
				"at several blocks",
		},
		{
			txn.Ambiguous,
			"any other response, or none: the bytes may have been accepted",
			"sends the same bytes to the next endpoint, then looks for the hash and reads the " +
				"account's nonce; " + rebroadcast,
		},
	}
}

// MeaningOf returns the meaning of a class. An unknown class means the same as AMBIGUOUS.
func MeaningOf(class txn.Class) Meaning {
	all := Meanings()
	for _, m := range all {
		if m.Class == class {
			return m
		}
	}
	return all[len(all)-1]
}

const outcomesIntroduction = "" +
	"<!-- Generated from chain/outcome by `make generate`; do not edit. -->\n\n" +
	"# Outcomes\n\n" +
	"Use this page to look up how Fencepost reacts to a node's response. To classify the " +
	"text of an\n" +
	"error:\n\n" +
	"```sh\nfencepost explain-rpc-error 'nonce too low: next nonce 12, tx nonce 11'\n```\n\n" +
	"Every response to a broadcast belongs to one class:\n\n" +
	"| class | meaning | Fencepost |\n|---|---|---|\n"

const keptIntroduction = "" +
	"\nAn allocated nonce is %s. It stays with its\n" +
	"transaction until a block with a transaction of that nonce is final.\n\n"

const rulesIntroduction = "" +
	"## How a response is classified\n\n" +
	"The text decides first, because JSON-RPC codes are ambiguous (-32000 stands for " +
	"everything). The\n" +
	"text is the message plus the words in the data, in lower case, without quotes, " +
	"addresses, markup\n" +
	"and long hex. The first matching rule of the table below decides.\n\n" +
	"The order of the rules follows from the cost of a wrong reading. Texts that imply that the\n" +
	"bytes or another attempt may be in a pool or in a block come first. Money and pool " +
	"capacity\n" +
	"follow, then the endpoint, then the bytes. INVALID gives up bytes, so it comes late and " +
	"requires\n" +
	"words about the transaction itself. `fencepost explain-rpc-error` prints the rule that " +
	"matched.\n\n" +
	"Over HTTP and WebSocket:\n\n" +
	"- With an HTTP status of 500 or above, UNAVAILABLE, INVALID, TX_TYPE_NOT_SUPPORTED, " +
	"WRONG_CHAIN\n" +
	"  and REVERTED become AMBIGUOUS for a broadcast. A failed server cannot know the state of " +
	"the\n" +
	"  bytes.\n" +
	"- An error next to the hash of the bytes is AMBIGUOUS as well.\n" +
	"- An error that is null is ignored.\n\n" +
	"| | class | kind of text |\n|---|---|---|\n"

const numbersIntroduction = "" +
	"\n## Numbers\n\n" +
	"These numbers are read from a response:\n\n" +
	"- the account's next nonce and the nonce of the bytes, which show the direction of a " +
	"mismatch;\n" +
	"- the lowest fee cap and the lowest tip that would be accepted, in wei per unit of gas;\n" +
	"- the balance, the required amount and the difference, in wei;\n" +
	"- the delay before a retry, also from data fields and the Retry-After header (at most 10\n" +
	"  minutes).\n\n" +
	"A number that is out of range or contradicts its class is ignored. No number frees a nonce.\n"

// Reference returns the text of docs/outcomes.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(outcomesIntroduction)
	for _, m := range Meanings() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Class, m.Says, m.Does)
	}
	fmt.Fprintf(&b, keptIntroduction, NonceKept)
	b.WriteString(rulesIntroduction)
	row := 0
	add := func(class, why string) {
		row++
		fmt.Fprintf(&b, "| %d | %s | %s |\n", row, class, why)
	}
	for _, r := range rules {
		class := string(r.class)
		if r.decide != nil {
			class = string(txn.NonceTooLow) + " or " + string(txn.NonceGap)
		}
		add(class, r.why)
	}
	add(string(txn.ExecutionReverted), solidityWhy)
	for _, r := range append(codes, statuses...) {
		add(string(r.class), r.why+": "+strings.Trim(fmt.Sprint(r.numbers), "[]"))
	}
	add(string(txn.Ambiguous), unknownWhy)
	b.WriteString(numbersIntroduction)
	return b.String()
}
