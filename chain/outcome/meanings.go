package outcome

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

//go:generate go run generate.go ../../docs/outcomes.md

// Meaning is what a class says of the bytes, and what Fencepost does about it.
type Meaning struct {
	Class txn.Class
	Says  string
	Does  string
}

// NonceKept is what every class does to a nonce that was taken.
const NonceKept = "kept: no answer of a node frees a nonce"

const (
	nextEndpoint = "does not count it as a hand-over; asks the next endpoint and leaves this one alone for a while"
	sameAgain    = "hands the same bytes over again, after a pause that grows"
	offerMore    = sameAgain + ", or, of a cancel always and else with gas_bump.enabled, signs a replacement of the same nonce that offers more"
)

// Meanings are all classes, in the order of the design.
func Meanings() []Meaning {
	return []Meaning{
		{
			txn.Accepted,
			"the node took the bytes, and the hash that it answered is theirs",
			"looks for the hash in blocks, and hands the bytes over again if no block takes them",
		},
		{
			txn.AlreadyKnown,
			"the node has these very bytes, in its pool or in a block",
			"the same as after ACCEPTED",
		},
		{txn.NonceTooLow, "the nonce is used up, by one of our attempts or by somebody else",
			"looks for the receipts of every attempt and at the account's nonce; " + sameAgain},
		{
			txn.NonceGap,
			"a lower nonce is missing at this node",
			"sees to the lower nonces first; " + sameAgain,
		},
		{
			txn.ReplacementUnderpriced,
			"another attempt of the same nonce is in the pool and is not outbid",
			"goes on following every attempt; " + offerMore,
		},
		{txn.Underpriced, "below the node's or the chain's minimum", offerMore},
		{
			txn.FeeCapBelowBaseFee,
			"the most that is paid is below what a block asks now",
			offerMore + ". Before a nonce is taken it waits for the fees to fall",
		},
		{
			txn.InsufficientFunds,
			"the account cannot pay for it now",
			sameAgain + ", and signs no replacement that offers more. Before a nonce is taken it waits without one. Either way its sub-state is UNFUNDED, and it goes on by itself once the account is funded",
		},
		{txn.PoolFull, "the pool has no room for it now", sameAgain},
		{
			txn.RateLimited,
			"a provider's request limit: the bytes were not looked at",
			nextEndpoint + ": at least for as long as the provider asks",
		},
		{
			txn.Unavailable,
			"the bytes did not reach a node, or the endpoint cannot serve now",
			nextEndpoint,
		},
		{
			txn.Unauthorized,
			"this endpoint does not serve the method, the account or us",
			nextEndpoint + "; the refusal is shown as the reason",
		},
		{
			txn.WrongChain,
			"signed for another chain than the one that the node follows",
			sameAgain + ". It is shown as the reason: the endpoint or the chain_id has to be corrected",
		},
		{txn.Invalid, "these bytes can never pass, at any node of the chain",
			"has its nonce cancelled, and fails; what a pool may have all the same goes on like AMBIGUOUS, and is STUCK after as many hand-overs. Of a cancel it asks anew what gas it takes. Before a nonce is taken it fails, once the chain has said so on several blocks"},
		{
			txn.ExecutionReverted,
			"a contract refused the call",
			sameAgain + ". Before a nonce is taken it fails, once the chain has said so on several blocks",
		},
		{
			txn.Ambiguous,
			"everything else, a call without an answer included: the bytes may have been taken",
			"gives the next endpoint the same bytes, looks for the hash and at the account's nonce; " + sameAgain,
		},
	}
}

// MeaningOf is the meaning of a class; one that is not known means nothing more than AMBIGUOUS.
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
	"Every answer of a node to a transaction becomes one class. What a class says and what follows from it:\n\n" +
	"| class | it says | Fencepost |\n|---|---|---|\n"

const rulesIntroduction = "" +
	"## How an answer is read\n\n" +
	"The words decide first, because codes mean many things (-32000 means all of them): message and words in the data, in lower case and without quotes, addresses,\n" +
	"markup and long hex. Of these kinds of text the first that fits decides. The order follows from what a wrong reading costs: first what says that the bytes or\n" +
	"another attempt of their nonce may be in a pool or in a block, then money and room, then the endpoint, then the bytes. INVALID gives bytes up, so it comes late\n" +
	"and asks for words that speak of the transaction itself. `fencepost explain-rpc-error` tells which one read a text.\n\n" +
	"Under an HTTP status of 500 or more UNAVAILABLE, INVALID, WRONG_CHAIN and REVERTED are AMBIGUOUS when they answer a transaction: a server that failed cannot know\n" +
	"what was done before. So is a refusal beside the hash of the bytes, and an error that is null is none (both over HTTP and over WebSocket).\n\n" +
	"| | class | kind of text |\n|---|---|---|\n"

const numbersIntroduction = "" +
	"\n## Numbers\n\n" +
	"Numbers that decide are read out of the words: the two nonces (the next one of the account, and the one in the bytes; they tell the direction where the words\n" +
	"do not), the least fee cap and the least tip per unit of gas that would be taken, what the account has, what it needs and what is short, and how long to stay\n" +
	"away (also from fields of the data and from the Retry-After header, at most 10 minutes). A number that is out of range or contradicts its class is not believed,\n" +
	"and no number frees a nonce.\n"

// Reference is docs/outcomes.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(outcomesIntroduction)
	for _, m := range Meanings() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Class, m.Says, m.Does)
	}
	fmt.Fprintf(&b,
		"\nA nonce that was taken is %s. It is free for nobody else until a block with a transaction of that nonce is final.\n\n",
		NonceKept)
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
