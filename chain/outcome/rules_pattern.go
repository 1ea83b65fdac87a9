package outcome

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// pattern is a regular expression with literals that every match contains. Most texts lack them,
// and the literal search costs a hundredth of a match.
type pattern struct {
	*regexp.Regexp
	needs []string // a matching text contains one of these; empty if unknown
}

func newPattern(text string) pattern {
	p := pattern{Regexp: regexp.MustCompile(text)}
	if tree, err := syntax.Parse(text, syntax.Perl); err == nil {
		p.needs = needed(tree)
	}
	return p
}

func (p pattern) matches(text string) bool {
	return (len(p.needs) == 0 || containsAny(text, p.needs)) && p.MatchString(text)
}

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

type patterns []pattern

func anyOf(texts ...string) patterns {
	all := make(patterns, len(texts))
	for i, text := range texts {
		all[i] = newPattern(text)
	}
	return all
}

func (all patterns) match(text string) bool {
	for _, p := range all {
		if p.matches(text) {
			return true
		}
	}
	return false
}

// needed returns literals of which every match contains at least one; nil if there are none.
func needed(e *syntax.Regexp) []string {
	switch e.Op {
	case syntax.OpLiteral:
		if e.Flags&syntax.FoldCase == 0 {
			return []string{string(e.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(e.Sub[0])
	case syntax.OpRepeat:
		if e.Min > 0 {
			return needed(e.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range e.Sub {
			some := needed(sub)
			if len(some) == 0 {
				return nil
			}
			all = append(all, some...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range e.Sub {
			if some := needed(sub); shortest(some) > shortest(best) {
				best = some
			}
		}
		return best
	}
	return nil
}

// shortest returns the length of the shortest literal, the least selective one; 0 if there are
// none.
func shortest(literals []string) int {
	n := 0
	for i, l := range literals {
		if i == 0 || len(l) < n {
			n = len(l)
		}
	}
	return n
}
