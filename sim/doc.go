// Package sim simulates a whole cluster in one process, driven by one scheduler and one seed, under
// every fault we know of.
//
// # Real parts
//
// Two or three nodes run the real engine and the real store on one real PostgreSQL schema. The
// chain is chain/chaintest, which passes the same test suite as real nodes. Clients create and
// cancel transactions on random nodes, watchers read the feed, and an operator decides when a
// submitter is protected.
//
// # Determinism
//
// Each run lives in a testing/synctest bubble: its time is virtual and advances only when every
// goroutine in the bubble is blocked. Everything that leaves a node passes through the scheduler
// ([World]): messages to PostgreSQL and their replies, dials, calls to the chain and the signer,
// the points of engine.Gate, and every timer. The scheduler lets exactly one thing happen, waits
// until the process is quiet again, and draws the next one from a random source that the seed
// initializes. Only the scheduler talks to PostgreSQL, one exchange at a time; the nodes'
// connections are in-memory pipes. The schema overrides clock_timestamp() with the bubble's time,
// plus any clock jump that a fault has added.
//
// # Faults
//
// A [Plan], drawn from the seed, fixes the number of nodes, the calls of the clients, and which
// [Fault] happens when. See fault_test.go for the list. At the end all faults are healed, and the
// run must settle: every transaction must become final within a bounded time.
//
// # Oracles
//
// The oracles check laws L1 to L12 against the ledger's rows (with their own SQL), a log of every
// write that triggers keep, every transaction the chain received, and the events that the watchers
// received. See oracle_test.go and oracle_chain_test.go.
//
// Plans with Sinks also deliver events to a receiver that rejects, disappears, and accepts without
// a reply (sink_test.go). Its oracle requires that nothing is delivered before its commit (E1),
// that the first deliveries of a transaction are in order (E2), and that every event arrives (E3).
// In some of these plans PostgreSQL is killed and started again, and later the ledger is dumped,
// restored on another server and adopted there, while events wait (move_test.go). Each has servers
// of its own.
//
// Plans with Holds have clients that reserve nonces of an external account, sign, send and report,
// late, twice or never, and die in between (external_test.go). The oracle compares what they signed
// with the ledger (N1 to N3).
//
// Plans with Policies have calls that spend, some above the limits of their caller. The oracles
// require that nothing leaves a node that the policy refuses (P1), or that no other caller approved
// although it must (P2).
//
// Plans with Drains take all funds from accounts, and ask a pool of them for transactions
// (funds_test.go). Balances may be older than they should be. The oracle requires one top-up per
// loss of funds and one transaction per top-up (T1), and one transaction per request to the pool.
//
// Plans with AccountMoves have two ledgers and their directory, on one server with one clock. Nodes
// serve both, and clients go to the ledger that the node knows, or to the one that a refusal names.
// An operator moves accounts under load (accounts_test.go). Its command may be killed, frozen or
// cut off at every message. It is repeated until it succeeds, and may run twice at the same time.
// Once every account has arrived, all nodes end, both ledgers are restored to before the moves, and
// new nodes start while the directory is away (restore_test.go). All laws hold over the rows of
// both ledgers. The oracle also requires that no account has an owner in two ledgers or in one that
// it has left, that the new ledger has the whole history of the old one, and that it writes later,
// under higher tokens (M1). After the restore each account must get its tombstone again.
//
// # Failures
//
// A failing seed prints its plan, the last steps, and the command that repeats the run.
// `make sim SEED=... DROP=...` leaves out faults of the plan, to isolate the ones that matter.
package sim
