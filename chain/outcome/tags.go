package outcome

import (
	"regexp"

	"github.com/fencepost/fencepost/txn"
)

var (
	// noneYet matches responses that a tag has no block yet, from nodes that do not return null:
	// go-ethereum, Reth, and nodes with the code of the execution API specification (-39001).
	noneYet = regexp.MustCompile(
		`(?i)\b(safe|finali[sz]ed|final)\b.*\bnot (yet )?(found|known|available|set)\b|` +
			`\bblock (is )?not found\b|\bunknown block\b|\bno (safe|finali[sz]ed) block\b`)
	// unknownTag matches the rejections of nodes without tags: an invalid block number, or plain
	// words.
	unknownTag = regexp.MustCompile(
		`(?i)\b(hex|0x|prefix|parse|unmarshal|deserialize)\b|\b(invalid|unknown|unsupported|` +
			`bad|unrecognized|illegal)\b.*\b(argument|param\w*|tag|block|variant|number|value|` +
			`input|string)\b|` +
			`\b(tag|parameter|safe|finali[sz]ed)\b.*\b(not|un)[ -]?(supported|implemented|` +
			`recognized|allowed|valid)\b`,
	)
)

const (
	codeUnknownBlock  = -39001 // execution API specification
	codeInvalidParams = -32602 // JSON-RPC 2.0
)

// NoBlockYet reports whether the response to a query for a tagged block means that there is none
// yet.
func NoBlockYet(a Response) bool {
	return a.Code == codeUnknownBlock || noneYet.MatchString(a.Message)
}

// UnknownTag reports whether the response means that the node does not support the tag.
func UnknownTag(a Response) bool {
	if a.Code == codeInvalidParams {
		return true
	}
	class := Classify(a).Class
	return (class == txn.Ambiguous || class == txn.Invalid) && unknownTag.MatchString(a.Message)
}
