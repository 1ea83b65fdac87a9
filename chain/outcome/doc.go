// Package outcome classifies the JSON-RPC responses of nodes, gateways and providers. It is pure:
// no I/O, no clock, no state.
//
// [Classify] maps a response to one class of a closed set (txn.Class). Remote text is the only
// evidence that most nodes give, so the text decides first: JSON-RPC codes are ambiguous (-32000
// stands for everything). Rules match kinds of wording rather than exact messages, because clients
// are many and change. Each rule carries its reason, and the order of the rules follows from the
// cost of a wrong reading. A response that no rule matches is AMBIGUOUS: the bytes may have been
// accepted.
//
// The package also reads everything else from remote text: the numbers in a message, wait hints,
// revert reasons, and the sanitizer that makes remote text safe to store and to show.
//
// docs/outcomes.md is generated from the tables of this package.
package outcome
