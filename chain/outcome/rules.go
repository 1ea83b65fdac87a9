package outcome

import (
	"slices"

	"github.com/fencepost/fencepost/txn"
)

// rule matches one kind of text. The first matching rule decides, so the order of two rules
// matters; the reason states where it does.
type rule struct {
	class  txn.Class
	why    string
	match  patterns
	unless patterns               // exceptions
	decide func(string) txn.Class // nil means class
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

// decidedRule is a rule whose class depends on the words or numbers in the text.
func decidedRule(why string, decide func(string) txn.Class, patterns ...string) rule {
	return rule{why: why, decide: decide, match: anyOf(patterns...)}
}

func (r rule) except(patterns ...string) rule {
	r.unless = anyOf(patterns...)
	return r
}

// fewWords is a gap of at most six words: texts carry addresses and numbers inside phrases.
const fewWords = `(\S+ ){0,6}`

// rules is the outcome table. It matches normalized text.
//
// The order follows from the cost of a wrong reading. Texts that imply that the bytes or another
// attempt may be in a pool, or that the nonce is used, come first. Money and pool capacity follow,
// then the endpoint. INVALID gives up bytes, so it comes last and requires words about the
// transaction itself.
var rules = slices.Concat(knownRules, doubtRules, capacityRules, endpointRules, bytesRules,
	priceRules, sizeRules, accessRules)
