package chain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// Answer is what a node, a gateway or a provider said when it did not say yes.
type Answer struct {
	Code       int    // JSON-RPC error code; 0 is none
	Message    string // JSON-RPC error message, or the text of an HTTP error
	Data       any    // JSON-RPC error data, as encoding/json decodes it
	HTTPStatus int    // 0: 200, or not HTTP at all
}

// Classify reads an answer: text first, then code, then HTTP status, for one code means many things (-32000 means all of them). Whatever no rule knows is
// AMBIGUOUS. The detail is safe to store and to show.
func Classify(a Answer) txn.Outcome {
	class, _ := Explain(a)
	o := txn.Outcome{Class: class, Detail: cleanText(a.Message), RetryAfter: retryHint(a)}
	if class == txn.ExecutionReverted {
		o.Detail = cleanText(revertReason(a))
	}
	return o
}

// Explain is the class of an answer and why it is that one.
func Explain(a Answer) (class txn.Class, why string) {
	text := normalise(a.text())
	for i := range rules {
		if class, ok := rules[i].read(text); ok {
			return class, rules[i].why
		}
	}
	if byCode, ok := classByCode(a.Code); ok {
		return byCode.class, byCode.why
	}
	if byStatus, ok := classByStatus(a.HTTPStatus); ok {
		return byStatus.class, byStatus.why
	}
	return txn.Ambiguous, "no rule knows this text: the transaction may have been accepted"
}

// text is all that was said in words. Substrate chains, Conflux and others put the meaning into the data and a headline into the message.
func (a Answer) text() string {
	switch d := a.Data.(type) {
	case string:
		if !strings.HasPrefix(d, "0x") {
			return a.Message + " " + d
		}
	case map[string]any:
		if inner, ok := d["message"].(string); ok {
			return a.Message + " " + inner
		}
	}
	return a.Message
}

// dataText is the data in its JSON form, for hints that stand anywhere in it.
func (a Answer) dataText() string {
	if a.Data == nil {
		return ""
	}
	b, err := json.Marshal(a.Data)
	if err != nil {
		return ""
	}
	return string(b)
}

type verdict struct {
	class txn.Class
	why   string
}

// classByCode judges codes that mean one thing wherever the text is silent. The codes that several clients use for different things are left out: reading
// one of them wrongly could give up bytes that sit in a pool.
func classByCode(code int) (verdict, bool) {
	switch code {
	case 429, -32005, -32007, -32029, -32097:
		return verdict{txn.RateLimited, "the code is one that providers use for their request limits"}, true
	case 401, 403, -32601, -40100:
		return verdict{txn.Unauthorized, "the code says that this endpoint does not serve the method to us"}, true
	}
	return verdict{}, false
}

// classByStatus judges an HTTP status whose body said nothing that is known. A 5xx is not here: the server behind the gateway may have taken the bytes.
func classByStatus(status int) (verdict, bool) {
	switch status {
	case 402, 429:
		return verdict{txn.RateLimited, "HTTP status for too many requests, or for a plan that is used up"}, true
	case 301, 302, 303, 307, 308:
		return verdict{txn.Unavailable, "the endpoint has moved, and bytes are sent only to configured addresses"}, true
	case 401, 403, 404, 405, 407, 451:
		return verdict{txn.Unauthorized, "HTTP status for an endpoint that does not serve us"}, true
	}
	return verdict{}, false
}

// revertReason is the message of a revert with its reason in words, where the data has one that can be decoded.
func revertReason(a Answer) string {
	data := revertData(a.Data)
	if len(data) < 4 {
		return a.text()
	}
	reason, err := abi.UnpackRevert(data)
	switch {
	case err != nil:
		return fmt.Sprintf("execution reverted with a custom error, selector %s, %d bytes", hexutil.Encode(data[:4]), len(data))
	case reason == "":
		return "execution reverted without a reason"
	}
	return "execution reverted: " + reason
}

// revertData finds the return data of a revert: most clients give a hex string, some wrap it in words or in an object.
func revertData(data any) []byte {
	switch d := data.(type) {
	case string:
		_, digits, found := strings.Cut(d, "0x")
		if !found {
			return nil
		}
		b, err := hexutil.Decode("0x" + digits)
		if err != nil {
			return nil
		}
		return b
	case map[string]any:
		return revertData(d["data"])
	}
	return nil
}
