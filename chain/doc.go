// Package chain connects the engine to one EVM chain through one or more JSON-RPC endpoints.
//
// A [Client] reads heads and blocks, receipts and accounts, quotes drafts, and broadcasts signed
// bytes. It never allocates a nonce and never signs. It does not retry beyond one round over its
// endpoints: the engine decides when to try again.
//
// # Facts and errors
//
// "Not found" is a result. A failed read is an error that is txn.ErrUnavailable, and nothing can be
// concluded from it. A send returns no error: its outcome is one class of a closed set, and every
// uncertain result is AMBIGUOUS. A call is UNAVAILABLE only if no byte of it was sent.
//
// Package outcome classifies the responses of nodes. If several endpoints respond to a send,
// [outcome.Rank] decides which response counts.
//
// # Endpoints
//
// Endpoints have an order of preference. Head selects the first healthy endpoint that has seen as
// much of the chain as any other. Subsequent reads use the same endpoint, so that a receipt, its
// block and the head belong to one view. If the endpoint fails, another one takes over only once it
// has reached the mark, the highest head seen: a missing receipt or an old nonce of a lagging
// endpoint would look like a reorg. If an endpoint that had reached the mark reports a lower head,
// the chain has reorganized. After LagGrace the head of any endpoint counts.
//
// The class of a fault decides about health:
//
//   - Rejected bytes and reverts come from healthy nodes.
//   - An unsupported method or an unknown block has no effect, unless it is the head.
//   - An endpoint that accepts no transactions gets none for a while, if another endpoint does.
//   - A broken connection, a timeout or a request limit makes the endpoint unhealthy. Except after
//     a request limit, it is verified before its next use: at once after the first failure, then
//     with a delay that grows to a second, or for as long as the provider asks. Calls that fail
//     together count once, so the delay does not depend on their number.
//
// An unhealthy endpoint is used last and probed in the background, so no call waits for it while
// another endpoint serves. One call tries the endpoints in turn, and stops after two timeouts.
//
// Bytes that an endpoint did not accept are sent to the next one as well. They are the same bytes,
// so at worst every endpoint has them. A draft that one endpoint cannot judge is sent to the next
// one, and INVALID takes two endpoints.
//
// Connections are lazy. Every connection is verified before its responses count: chain id and
// genesis block, in one batch with the head. Batches of reads about nonces and receipts read the
// genesis block again, because a proxy may pass them to another chain. A chain that is down at
// startup, or replaced behind its address, needs no restart. A broken WebSocket is replaced before
// the next call, and calls that wait on it end shortly after it.
//
// Clients of different chains share nothing, so a slow or dead chain does not affect others
// (TestClients_OneChainDown_OthersUnaffected).
//
// # Fees
//
// The tip for a speed is a percentile of the tips paid in the newest blocks, between floors and
// caps: the configured ones, the caller's cap, and a learned floor. A node reports its minimum fee
// only in rejections, so those are read ([Floors]). The learned floor decays and never exceeds the
// configured cap. If no fees fit between floor and cap there is no quote, because a nonce allocated
// for such a transaction would be stuck.
//
// # Reverts
//
// A revert in a simulation is reported with its reason: the text of require, the meaning of a
// panic, a custom error by name if an ABI contains it ([outcome.Errors]), otherwise its selector.
// The contract chooses these words, so they are cleaned and cut like any remote text.
//
// # Secrets
//
// Endpoint addresses contain API keys, and signed bytes can be broadcast by anyone. Errors,
// outcomes and logs name an endpoint by its number, describe transport failures in fixed words, and
// clean remote text of addresses, long hex and keys.
//
// # Tests
//
// Package conformance is the suite that the client passes on real nodes, and that the in-memory
// chain of package chaintest passes too. A property test runs random transactions and reorgs on go-
// ethereum and on the in-memory chain and compares every response.
package chain
