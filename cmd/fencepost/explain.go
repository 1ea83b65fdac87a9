package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// maxErrorText limits the text read from stdin, in bytes; the rules read less.
const maxErrorText = 64 << 10

// behindGateway is the reaction to a response of a server that may have passed the bytes on before
// it failed: see chain.Client.Send.
const behindGateway = "treats it as AMBIGUOUS for a broadcast, because a failed server may have " +
	"passed the bytes on; sends the same bytes to the next endpoint, looks for the hash and at " +
	"the nonce of the account, and rebroadcasts the same bytes"

// explanation is the classification of an RPC response. The JSON field names are stable.
type explanation struct {
	Class     txn.Class        `json:"class"` // effective class of a broadcast
	Read      txn.Class        `json:"read"`  // class by the rule alone
	Why       string           `json:"why"`
	Says      string           `json:"says"`
	Does      string           `json:"does"`
	NonceKept bool             `json:"nonce_kept"`
	Detail    string           `json:"detail"`
	Numbers   explainedNumbers `json:"numbers"`
}

// explainedNumbers are the numbers in the text; missing ones are omitted. Amounts are wei, decimal.
type explainedNumbers struct {
	NonceExpected *txn.Nonce `json:"nonce_expected,omitempty"`
	NonceGiven    *txn.Nonce `json:"nonce_given,omitempty"`
	FeeNeeded     string     `json:"fee_needed_wei,omitempty"`
	TipNeeded     string     `json:"tip_needed_wei,omitempty"`
	Have          string     `json:"have_wei,omitempty"`
	Want          string     `json:"want_wei,omitempty"`
	Short         string     `json:"short_wei,omitempty"`
	RetryAfterMs  int64      `json:"retry_after_ms,omitempty"`
}

// explainFlags are the parts of a response apart from its text.
type explainFlags struct {
	code, status int
	data         string
}

func (p *program) explainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Annotations: map[string]string{quoted: "fencepost explain-rpc-error \"nonce too low\""},
		Use:         "explain-rpc-error TEXT",
		Short:       "Explain how an RPC error of a broadcast is classified",
		Args:        arguments("the text of the error (\"-\" reads it from stdin)"),
		Long: `Explain how an RPC error of eth_sendRawTransaction is classified: its outcome
class, the rule that matched, the numbers in its text, and the reaction of Fencepost. Nothing is
sent. For classes and rules, see docs/outcomes.md.

The text is decisive, then the code, then the HTTP status. An unknown error is AMBIGUOUS: the
transaction may have been accepted. TEXT may be a JSON-RPC response, a batch, or its error object;
code and data are then read from it.`,
		Example: "  fencepost explain-rpc-error --code -32000 'nonce too low: next nonce 12, tx " +
			"nonce 11'\n" +
			"  fencepost explain-rpc-error --code 1010 --data '\"Transaction is outdated\"'" +
			" 'Invalid Transaction'\n" +
			"  fencepost explain-rpc-error --http-status 502 --json - < answer.json",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error { return p.explain(cmd, f, args[0]) }
	c.Flags().IntVar(&f.code, "code", 0, "JSON-RPC error code; 0: none")
	c.Flags().IntVar(&f.status, "http-status", 0, "HTTP status, if not 200")
	c.Flags().StringVar(&f.data, "data", "", "data of the JSON-RPC error, as JSON")
	return c
}

func (p *program) explain(cmd *cobra.Command, f explainFlags, text string) error {
	response := outcome.Response{Code: f.code, Message: text, HTTPStatus: f.status}
	if f.status != 0 && (f.status < 100 || f.status > 599) {
		return misused(cmd, "--http-status %d: must be 100 to 599", f.status)
	}
	if f.data != "" {
		if err := json.Unmarshal([]byte(f.data), &response.Data); err != nil {
			return misused(cmd,
				"--data is not JSON; quote a string, as in --data '\"text\"'")
		}
	}
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(p.in, maxErrorText))
		if err != nil {
			return fmt.Errorf("read the text from stdin: %w", err)
		}
		response.Message = string(read)
	}
	if succeeded(response.Message) {
		return errors.New(
			"not an error: the JSON-RPC response has a result; give a response with an \"error\"")
	}
	e := explained(unwrapped(response))
	return p.print(e, fields(e.fields()))
}

// succeeded reports whether the text is a JSON-RPC response with a result and no error.
func succeeded(text string) bool {
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	return json.Unmarshal([]byte(text), &response) == nil && response.Result != nil &&
		(response.Error == nil || string(response.Error) == "null")
}

// unwrapped reads a JSON-RPC response, a batch, or an error object from the text. Flags take
// precedence.
func unwrapped(a outcome.Response) outcome.Response {
	inner, ok := outcome.ReadResponse([]byte(a.Message))
	if !ok {
		alone := struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Data    any    `json:"data"`
		}{}
		if json.Unmarshal([]byte(a.Message), &alone) != nil || alone.Message == "" {
			return a
		}
		inner = outcome.Response{Code: alone.Code, Message: alone.Message, Data: alone.Data}
	}
	a.Message = inner.Message
	if a.Code == 0 {
		a.Code = inner.Code
	}
	if a.Data == nil {
		a.Data = inner.Data
	}
	return a
}

func explained(a outcome.Response) explanation {
	class, why, doubted := outcome.ExplainSend(a)
	o := outcome.Classify(a)
	meaning := outcome.MeaningOf(class)
	read := class
	if doubted { // the effective class
		class = txn.Ambiguous
		meaning.Says, meaning.Does = outcome.MeaningOf(class).Says, behindGateway
	}
	return explanation{
		Class: class, Read: read, Why: why, Says: meaning.Says, Does: meaning.Does,
		NonceKept: true, Detail: o.Detail,
		Numbers: explainedNumbers{
			NonceExpected: o.NonceExpected, NonceGiven: o.NonceGiven,
			FeeNeeded: weiText(o.FeeNeeded), TipNeeded: weiText(o.TipNeeded),
			Have: weiText(o.Have), Want: weiText(o.Want), Short: weiText(o.Short),
			RetryAfterMs: o.RetryAfter.Milliseconds(),
		},
	}
}

func weiText(w *txn.Wei) string {
	if w == nil {
		return ""
	}
	return w.Dec()
}

// fields are the explanation for people.
func (e explanation) fields() []field {
	n := e.Numbers
	class := string(e.Class)
	if e.Read != e.Class {
		class += " for a broadcast; by the rule alone " + string(e.Read)
	}
	all := []field{
		{"class", class},
		{"meaning", e.Says},
		{"rule", e.Why},
		{"nonce", outcome.NonceKept},
		{"reaction", e.Does},
	}
	nonce := func(name string, value *txn.Nonce) {
		if value != nil {
			all = append(all, field{name, strconv.FormatUint(uint64(*value), 10)})
		}
	}
	nonce("nonce expected", n.NonceExpected)
	nonce("nonce given", n.NonceGiven)
	for _, f := range []field{
		{"fee needed", n.FeeNeeded}, {"tip needed", n.TipNeeded},
		{"balance", n.Have}, {"cost", n.Want}, {"short of", n.Short},
	} {
		if f.value != "" {
			all = append(all, field{f.name, f.value + " wei"})
		}
	}
	if n.RetryAfterMs > 0 {
		all = append(all,
			field{"retry after", (time.Duration(n.RetryAfterMs) * time.Millisecond).String()})
	}
	return append(all, field{"detail", e.Detail})
}
