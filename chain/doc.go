// Package chain connects the engine to one EVM chain over one or more JSON-RPC endpoints.
//
// A [Client] answers what the engine asks of a chain: heads and blocks, receipts, accounts, quotes, and what became of signed bytes that were handed in. It
// never takes a nonce, never signs and never repeats by itself beyond one round over its endpoints: when to ask again is the engine's decision.
//
// # Facts, not guesses
//
// "Not there" is an answer; "could not look" is an error that is txn.ErrUnavailable, and nothing follows from it. A send has no error at all: its outcome
// is one class out of a closed set, and whatever is not surely another one is AMBIGUOUS. Only a call of which surely not a byte left is UNAVAILABLE.
//
// [Classify] reads what nodes say. It goes by the words first, because the codes mean many things, and by rules for kinds of words (rules.go), each with its
// reason, because the clients are many and change. The order of the rules follows from what a wrong reading would cost.
//
// # Endpoints
//
// Endpoints have an order of preference. Head begins a pass: it looks for the first endpoint that is well and has seen as much of the chain as any other,
// and the reads that follow stay with that one, so that a receipt, its block and the head come from one view. If it fails, another answers only after it
// proved to be at the mark, the highest head seen: a lagging endpoint's missing receipt or old nonce must not be read as a reorg. An endpoint that had been
// at the mark itself and goes back is believed at once, and after LagGrace anybody is.
//
// Health goes by the class of a fault. A refusal of our bytes, a revert: the node is well. A method that is closed, an unknown block: nothing follows,
// unless it is the newest one; but who takes no transactions gets none for a while, as long as another looks at them. A broken connection, a late answer, a request
// limit: the endpoint is left alone for a while that grows, or for as long as the provider asks, and it is verified anew before it is used again, unless it
// was only a limit. While another endpoint serves, nobody waits for one that is ailing: it comes last, and one call at a time tries aside whether it is well.
// One call of the port is a round over the endpoints, which tries no further one after two timeouts.
//
// Bytes that an endpoint did not surely take go to the next one too; they are the same bytes, so the worst that can happen is that all have them. Which of
// the answers counts is the order of answers in send.go. A draft that one endpoint cannot make sense of is shown to the next, and INVALID takes two of them.
//
// Clients of different chains share nothing, so a chain that is slow or dead costs the others nothing (TestBulkheads).
//
// Connecting is lazy, and every connection is verified before an answer of it counts: chain id and genesis block, in one batch with the head. A chain that
// is down at start, or replaced behind its address, needs no restart of ours.
// A WebSocket that broke is replaced before the next call, and calls that still wait on it end shortly after it.
//
// # Fees
//
// What a speed takes is a percentile of the tips that the newest blocks paid, between floors and caps: those of the configuration, the caller's own cap, and
// a floor that is learned. A node that insists on a least tip or price tells it nowhere but in its refusals, so those are read ([Floors]); the memory fades,
// and is bounded by the configured cap. Below a known floor or above a cap nothing is quoted: a nonce taken for such a transaction would be held for nothing.
//
// # Reverts
//
// A simulation that reverts is told by its reason: the text of require, the meaning of a panic, a custom error by name where an ABI names it ([Errors]), its
// selector otherwise. The contract chooses these words, so they are cleaned and cut like a node's.
//
// # What is told
//
// Addresses of endpoints hold API keys, and signed bytes are bearer instruments. Errors, outcomes and logs name an endpoint by its number, transport
// failures are told in this package's own words, and a node's words are cleaned of addresses, long hex and keys before they leave.
//
// # Proof
//
// The package conformance holds the suite that the client passes on real nodes, and package chaintest its twin in memory. A test plays random
// transactions and reorgs to both go-ethereum and the twin and compares every answer.
package chain
