// Package sim runs a whole cluster in one process, under one scheduler and one seed, and breaks it in every way that we know of.
//
// # What is real
//
// Two or three nodes of the real engine and the real store work on one real PostgreSQL schema. The chain is chain/chaintest, which passes the suite that real
// nodes pass. Callers create and cancel on random nodes, watchers read the feed, an operator decides when a submitter is protected.
//
// # How a seed fixes what happens
//
// Each run lives in a testing/synctest bubble, so its time is virtual and moves only when every goroutine waits for something within the bubble. Whatever
// leaves a node passes the scheduler ([World]): messages to PostgreSQL and their answers, dials, calls of the chain and of the signer, the points of
// engine.Gate, and every firing of a timer. The scheduler lets exactly one thing happen, waits until the process is still again, and chooses the next by a
// random source that the seed starts. PostgreSQL is asked only by the scheduler itself, one exchange at a time; the nodes' connections are pipes in memory.
// Its clock_timestamp() is one of the schema's, which tells the time of the bubble, or is off by as much as a fault has let it jump.
//
// # Faults
//
// A [Plan], drawn from the seed, says how many nodes there are, what callers ask and which [Fault] happens when. See fault_test.go for the list. At the end all
// faults are healed, and the run must come to rest: every transaction final within a bounded time.
//
// # Oracles
//
// What the laws L1 to L12 ask is checked from the ledger's rows (by SQL of our own), from a log that triggers keep of every write, from all that the chain was
// ever given, and from what the watchers heard. See oracle_test.go and oracle_chain_test.go.
//
// # When it fails
//
// A failing seed prints its plan, the last steps, and how to run it again; `make sim SEED=... DROP=...` leaves out faults of the plan, to find those that matter.
package sim
