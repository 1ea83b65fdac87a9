package outcome

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// Response is what a node, a gateway or a provider said when it did not say yes.
type Response struct {
	Code       int    // JSON-RPC error code; 0 is none
	Message    string // JSON-RPC error message, or the text of an HTTP error
	Data       any    // JSON-RPC error data, as encoding/json decodes it
	HTTPStatus int    // 0: 200, or not HTTP at all
}

// Classify reads an answer: text first, then code, then HTTP status, for one code means many things (-32000 means all of them). Whatever no rule knows is
// AMBIGUOUS. The detail is safe to store and to show.
func Classify(a Response) txn.Outcome {
	class, _ := Explain(a)
	o := txn.Outcome{Class: class, Detail: Clean(a.Message), RetryAfter: waitHint(a)}
	if class == txn.ExecutionReverted {
		o.Detail = Clean(revertReason(a))
	}
	addNumbers(&o, normalize(a.text()))
	return o
}

// Explain is the class of an answer and why it is that one.
func Explain(a Response) (class txn.Class, why string) {
	text := normalize(a.text())
	for i := range rules {
		if class, ok := rules[i].read(text); ok {
			return class, rules[i].why
		}
	}
	if _, ok := solidityReason(a.Data); ok {
		return txn.ExecutionReverted, solidityWhy
	}
	if byCode, ok := verdictOf(codes, a.Code); ok {
		return byCode.class, byCode.why
	}
	if byStatus, ok := verdictOf(statuses, a.HTTPStatus); ok {
		return byStatus.class, byStatus.why
	}
	return txn.Ambiguous, unknownWhy
}

const (
	solidityWhy = "no rule knows this text, but the data is what a contract returns with a refusal"
	unknownWhy  = "no rule knows this text: the transaction may have been accepted"
)

var (
	// tag is one of HTML; "<" is also what nodes write between two numbers.
	tag     = regexp.MustCompile(`</?[a-zA-Z!][^<>]*>`)
	escapes = strings.NewReplacer(`\u0027`, "'", `\u0022`, `"`, `\u003c`, "<", `\u003e`, ">",
		`\u0026`, "&", `\n`, " ", "&lt;", "<", "&gt;", ">", "&amp;", "&", "&quot;", `"`, "&#39;",
		"'")
)

const (
	maxDataDepth = 4
	maxDataTexts = 20
)

// text is all that was said in words, as plain text. Substrate chains, Conflux and others put the meaning into the data and a headline into the message.
func (a Response) text() string {
	said := append([]string{a.Message}, textsIn(a.Data, maxDataDepth)...)
	said = said[:min(len(said), maxDataTexts)]
	for i, part := range said {
		said[i] = tag.ReplaceAllString(escapes.Replace(part[:min(len(part), TextLimit)]), " ")
	}
	return strings.Join(said, " ")
}

// textKeys are the fields of data that hold words, in the order in which they are read.
var textKeys = []string{
	"message",
	"reason",
	"error",
	"details",
	"detail",
	"description",
	"cause",
	"errors",
	"originalError",
	"data",
}

// textsIn are the words in data. Hex is a contract's.
func textsIn(data any, depth int) []string {
	if depth == 0 {
		return nil
	}
	var said []string
	switch d := data.(type) {
	case string:
		if !strings.HasPrefix(d, "0x") {
			return []string{d}
		}
	case []any:
		for _, inner := range d[:min(len(d), maxDataTexts)] {
			said = append(said, textsIn(inner, depth-1)...)
		}
	case map[string]any:
		for _, key := range textKeys {
			said = append(said, textsIn(d[key], depth-1)...)
		}
	}
	return said
}

type verdict struct {
	class txn.Class
	why   string
}

// codeRule is a class that a number stands for.
type codeRule struct {
	numbers []int
	verdict
}

// codes mean one thing each wherever the text is silent. The codes that several clients use for different things are left out: reading one of them wrongly
// could give up bytes that sit in a pool.
var codes = []codeRule{
	{
		[]int{429, -32005, -32007, -32029, -32097},
		verdict{txn.RateLimited, "the code is one that providers use for their request limits"},
	},
	{
		[]int{401, 403, -32601, 4200, -40100},
		verdict{
			txn.Unauthorized,
			"the code says that this endpoint does not serve the method to us",
		},
	},
}

// statuses are of HTTP, for bodies that say nothing that is known. A 5xx that every server may send is not here: the server behind the gateway may have
// taken the bytes.
var statuses = []codeRule{
	{
		[]int{402, 429},
		verdict{
			txn.RateLimited,
			"HTTP status for too many requests, or for a plan that is used up",
		},
	},
	{
		[]int{521, 523, 525, 526},
		verdict{
			txn.Unavailable,
			"the gateway's own status for a server that it could not connect to",
		},
	},
	{
		[]int{301, 302, 303, 307, 308},
		verdict{
			txn.Unavailable,
			"the endpoint has moved, and bytes are sent only to configured addresses",
		},
	},
	{
		[]int{401, 403, 404, 405, 407, 410, 451},
		verdict{txn.Unauthorized, "HTTP status for an endpoint that does not serve us"},
	},
}

func verdictOf(table []codeRule, number int) (verdict, bool) {
	for _, row := range table {
		if slices.Contains(row.numbers, number) {
			return row.verdict, true
		}
	}
	return verdict{}, false
}

// revertReason is the message of a revert with its reason in words, where the data has one that can be decoded.
func revertReason(a Response) string {
	data := ReturnData(a.Data)
	if len(data) < selectorSize {
		return a.text()
	}
	reason, ok := solidityReason(a.Data)
	switch {
	case !ok:
		return fmt.Sprintf("execution reverted with a custom error, selector %s, %d bytes",
			hexutil.Encode(data[:selectorSize]), len(data))
	case reason == "":
		return "execution reverted without a reason"
	}
	return "execution reverted: " + reason
}

// solidityReason decodes the two errors that every contract's language knows, Error(string) and Panic(uint256).
func solidityReason(data any) (reason string, ok bool) {
	reason, err := abi.UnpackRevert(ReturnData(data))
	return reason, err == nil
}
