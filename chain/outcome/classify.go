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

// Response is an error response of a node, a gateway or a provider.
type Response struct {
	Code       int    // JSON-RPC error code; 0 is none
	Message    string // JSON-RPC error message, or the text of an HTTP error
	Data       any    // JSON-RPC error data, as encoding/json decodes it
	HTTPStatus int    // 0 means 200, or not HTTP
}

// Classify maps a response to its outcome. The text decides first, then the code, then the HTTP
// status, because codes are ambiguous (-32000 stands for everything). A response that no rule
// matches is AMBIGUOUS. The detail is safe to store and to show.
func Classify(a Response) txn.Outcome {
	class, _ := Explain(a)
	o := txn.Outcome{Class: class, Detail: Clean(a.Message), RetryAfter: waitHint(a)}
	if class == txn.ExecutionReverted {
		o.Detail = Clean(revertReason(a))
	}
	addNumbers(&o, normalize(a.text()))
	return o
}

// Explain returns the class of a response and the reason for it.
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
	solidityWhy = "no rule matches this text, but the data is the return data of a revert"
	unknownWhy  = "no rule matches this text: the transaction may have been accepted"
)

var (
	// tag matches an HTML tag. Nodes also write "<" between two numbers.
	tag     = regexp.MustCompile(`</?[a-zA-Z!][^<>]*>`)
	escapes = strings.NewReplacer(`\u0027`, "'", `\u0022`, `"`, `\u003c`, "<", `\u003e`, ">",
		`\u0026`, "&", `\n`, " ", "&lt;", "<", "&gt;", ">", "&amp;", "&", "&quot;", `"`, "&#39;",
		"'")
)

const (
	maxDataDepth = 4
	maxDataTexts = 20
)

// text returns all words of the response as plain text. Substrate chains, Conflux and others put
// the meaning into the data and only a headline into the message.
func (a Response) text() string {
	said := append([]string{a.Message}, textsIn(a.Data, maxDataDepth)...)
	said = said[:min(len(said), maxDataTexts)]
	for i, part := range said {
		said[i] = tag.ReplaceAllString(escapes.Replace(part[:min(len(part), TextLimit)]), " ")
	}
	return strings.Join(said, " ")
}

// textKeys are the data fields that hold words, in reading order.
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

// textsIn returns the words in the data. Hex is left out: it comes from a contract.
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

// codeRule assigns a class to a set of numbers.
type codeRule struct {
	numbers []int
	verdict
}

// codes apply if no text rule matches. Codes that clients use for different things are left out:
// misreading one could give up bytes that sit in a pool.
var codes = []codeRule{
	{
		[]int{429, -32005, -32007, -32029, -32097},
		verdict{txn.RateLimited, "providers use this code for request limits"},
	},
	{
		[]int{401, 403, -32601, 4200, -40100},
		verdict{
			txn.Unauthorized,
			"this code means that the endpoint does not serve the method",
		},
	},
}

// statuses apply to HTTP bodies without known text. The general 5xx statuses are left out: the
// server behind the gateway may have accepted the bytes.
var statuses = []codeRule{
	{
		[]int{402, 429},
		verdict{
			txn.RateLimited,
			"HTTP status for too many requests, or for an exhausted plan",
		},
	},
	{
		[]int{521, 523, 525, 526},
		verdict{
			txn.Unavailable,
			"HTTP status of a gateway that could not connect to its server",
		},
	},
	{
		[]int{301, 302, 303, 307, 308},
		verdict{
			txn.Unavailable,
			"the endpoint redirects, and bytes are sent to configured addresses only",
		},
	},
	{
		[]int{401, 403, 404, 405, 407, 410, 451},
		verdict{txn.Unauthorized, "HTTP status of an endpoint that does not serve this client"},
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

// revertReason returns the message of a revert, with its decoded reason if the data has one.
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

// solidityReason decodes the two standard errors of Solidity, Error(string) and Panic(uint256).
func solidityReason(data any) (reason string, ok bool) {
	reason, err := abi.UnpackRevert(ReturnData(data))
	return reason, err == nil
}
