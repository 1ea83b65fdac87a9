package outcome

import (
	"regexp"

	"github.com/fencepost/fencepost/txn"
)

var (
	// noneYet is how nodes tell that a tag has no block yet, where they do not answer null: go-ethereum, Reth, and those who follow the code of the
	// execution API specification (-39001).
	noneYet = regexp.MustCompile(
		`(?i)\b(safe|finali[sz]ed|final)\b.*\bnot (yet )?(found|known|available|set)\b|\bblock (is )?not found\b|\bunknown block\b|\bno (safe|finali[sz]ed) block\b`)
	// unknownTag is how nodes without tags refuse them: as a block number that cannot be read, or in plain words.
	unknownTag = regexp.MustCompile(
		`(?i)\b(hex|0x|prefix|parse|unmarshal|deserialize)\b|\b(invalid|unknown|unsupported|bad|unrecognized|illegal)\b.*\b(argument|param\w*|tag|block|variant|number|value|input|string)\b|` +
			`\b(tag|parameter|safe|finali[sz]ed)\b.*\b(not|un)[ -]?(supported|implemented|recognized|allowed|valid)\b`,
	)
)

const (
	codeUnknownBlock  = -39001 // execution API specification
	codeInvalidParams = -32602 // JSON-RPC 2.0
)

// NoBlockYet tells whether the answer to a question for the block of a tag says that there is none yet.
func NoBlockYet(a Response) bool {
	return a.Code == codeUnknownBlock || noneYet.MatchString(a.Message)
}

// UnknownTag tells whether the answer says that the node does not know the tag.
func UnknownTag(a Response) bool {
	if a.Code == codeInvalidParams {
		return true
	}
	class := Classify(a).Class
	return (class == txn.Ambiguous || class == txn.Invalid) && unknownTag.MatchString(a.Message)
}
