package outcome

import (
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// rule reads one kind of text. Rules are tried in order and the first that matches decides, so an order of two rules is a statement too; where it matters
// the reason says so.
type rule struct {
	class  txn.Class
	why    string
	match  patterns
	unless patterns               // exceptions
	decide func(string) txn.Class // nil: class
}

func (r *rule) read(text string) (txn.Class, bool) {
	if !r.match.match(text) || r.unless.match(text) {
		return "", false
	}
	if r.decide != nil {
		return r.decide(text), true
	}
	return r.class, true
}

func newRule(class txn.Class, why string, patterns ...string) rule {
	return rule{class: class, why: why, match: anyOf(patterns...)}
}

// decidedRule is a kind of text whose class its words or numbers decide.
func decidedRule(why string, decide func(string) txn.Class, patterns ...string) rule {
	return rule{why: why, decide: decide, match: anyOf(patterns...)}
}

func (r rule) except(patterns ...string) rule {
	r.unless = anyOf(patterns...)
	return r
}

// fewWords is a gap of at most six words inside a phrase: texts carry addresses and numbers between the words that matter.
const fewWords = `(\S+ ){0,6}`

// rules is the outcome table. Texts are in the form that normalise gives them.
//
// The order follows from what a wrong reading costs. What says that the bytes (or another attempt of ours) may sit in a pool, or that the nonce is used,
// comes first, told by a pool or by whoever passed them on. Then what is about money and room, then what is about the endpoint; INVALID, which gives bytes
// up, comes last and asks for words that speak of the transaction itself.
var rules = slices.Concat(poolRules, doubtRules, feeRules, endpointRules, bytesRules, accessRules)
