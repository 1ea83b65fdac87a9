package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A rule names an idiom and the words to use instead.
type rule struct {
	name  string
	match *regexp.Regexp
	// unless matches legitimate occurrences, from the same offset on.
	unless *regexp.Regexp
}

// idiom makes a rule of two patterns in which a space stands for any white space.
func idiom(name, match, unless string) rule {
	pattern := func(format string, args ...any) *regexp.Regexp {
		return regexp.MustCompile(strings.ReplaceAll(fmt.Sprintf(format, args...), " ", `\s+`))
	}
	r := rule{name: name, match: pattern(`(?i)\b(?:%s)\b`, match)}
	if unless != "" {
		r.unless = pattern(`(?i)^(?:%s)`, unless)
	}
	return r
}

// rules are the idioms that an engineer of the field would not write in a code review.
var rules = []rule{
	idiom("what-noun: name the thing", `what|whatever|whoever`,
		`what (?:to|if)\b|what's\b|what(?:ever)?\?`),
	idiom("who-noun: name the person or program",
		`(?:for|to|by|from|of|with|but) who|who (?:asks|calls|wants|waits|looks)`, ``),
	idiom("tell: software returns, reports, logs", `tells?|told|telling`, `tells? apart`),
	idiom("say: software returns, reports, logs", `says?|said|saying`, ``),
	idiom("somebody: name the actor", `somebody|nobody|anybody|everybody|somebody's`, ``),
	idiom("by itself: automatically", `by (?:itself|themselves)`, ``),
	idiom("anew: again", `anew`, ``),
	idiom("go on: continue", `(?:go|goes|going|went|gone) on`, `go on with `),
	idiom("come of: outcome", `(?:come|comes|came|become|becomes|became) of`, ``),
	idiom("there is not: unknown, missing", `there (?:is|are) not`, ``),
	idiom("is no: is not a", `(?:there )?(?:is|are|was|were) no`,
		`there |\w+ no (?:longer|more|fewer|less|later|earlier|\w+er than)\b`),
	idiom("that of: repeat the noun", `(?:that|those) of`, ``),
	idiom("shall: will, must", `shall`, ``),
	idiom("hand over: broadcast, release, transfer", `hand(?:s|ed|ing)?[ -]over|handovers?`, ``),
	idiom("heed: apply", `heed(?:s|ed|ing)?|obey(?:s|ed|ing)?`, ``),
	idiom("all the same: still, anyway", `all the same`, ``),
	idiom("no more: no longer", `no more`, `no more than`),
	idiom("look at: read, check", `look(?:s|ed|ing)? at`, ``),
	idiom("private word: see the glossary in CONTRIBUTING.md",
		`turnstiles?|parcels?|doorkeepers?|tongues?|purses?|menders?|venues?|picky|heirs?|duels?|`+
			`overdue|held back`, ``),
}

// find returns the offsets in text at which it breaks the rule.
func (r rule) find(text string) []int {
	var at []int
	for _, m := range r.match.FindAllStringIndex(text, -1) {
		if r.unless == nil || !r.unless.MatchString(text[m[0]:]) {
			at = append(at, m[0])
		}
	}
	return at
}

// sentenceName matches tests named by a sentence: it starts with an article, a pronoun or the like.
var sentenceName = regexp.MustCompile(
	`^Test(?:An?|The|Wh(?:at|o)(?:ever)?|Nothing|Nobody|Each|Every|Any|All|No|One|Two|It|That|` +
		`Those|Of|In|On|From|For|With|Without|After|Before|While|When|As|Only|Some|Both)` +
		`(?:[A-Z][a-z]|$)`)

var capitals = regexp.MustCompile(`[A-Z][a-z0-9]*`)

// sentence reports whether the name of a test is a sentence. One of many words without an
// underscore is one as well.
func sentence(name string) bool {
	if sentenceName.MatchString(name) {
		return true
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(name, "Test"), "_") {
		if len(capitals.FindAllString(part, -1)) > 5 {
			return true
		}
	}
	return false
}
