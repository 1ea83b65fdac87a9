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

// maxErrorText bounds what is read from stdin, in bytes: the rules look at less.
const maxErrorText = 64 << 10

// behindGateway is what is done about a send that a server refuses which failed, or which lost another: see chain.Client.Send.
const behindGateway = "takes it for AMBIGUOUS when it answers a transaction, because a server that failed may have taken the bytes before: gives the next endpoint the same " +
	"bytes, looks for the hash and at the account's nonce; hands the same bytes over again"

// explanation is what the outcome table makes of an answer. The names of its fields are part of the command's contract.
type explanation struct {
	Class     txn.Class        `json:"class"` // that counts for a transaction that was handed over
	Read      txn.Class        `json:"read"`  // that the rule read, where something else counts
	Why       string           `json:"why"`
	Says      string           `json:"says"`
	Does      string           `json:"does"`
	NonceKept bool             `json:"nonce_kept"`
	Detail    string           `json:"detail"`
	Numbers   explainedNumbers `json:"numbers"`
}

// explainedNumbers are what the words say in numbers; what they do not say is left out. Amounts are wei, as decimal digits.
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

// explainFlags are an answer but for its words.
type explainFlags struct {
	code, status int
	data         string
}

func (p *program) explainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Annotations: map[string]string{quoted: "fencepost explain-rpc-error \"nonce too low\""},
		Use:         "explain-rpc-error TEXT", Short: "Tell what a node's answer to a transaction means", Args: arguments("the text of the error (\"-\" reads it from stdin)"),
		Long: `Tell how an error that a node or a provider answers to eth_sendRawTransaction is read: its class, which rule read it, what its words say in numbers, and what
Fencepost does about it. Nothing is sent anywhere. The classes and the rules are in docs/outcomes.md.

The words decide first, then the code, then the HTTP status. What nothing is known of is AMBIGUOUS: the transaction may have been accepted. TEXT may be a whole
JSON-RPC answer, a batch of them, or its error; then code and data are taken from it.`,
		Example: "  fencepost explain-rpc-error --code -32000 'nonce too low: next nonce 12, tx nonce 11'\n" +
			"  fencepost explain-rpc-error --code 1010 --data '\"Transaction is outdated\"' 'Invalid Transaction'\n" +
			"  fencepost explain-rpc-error --http-status 502 --json - < answer.json",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error { return p.explain(cmd, f, args[0]) }
	c.Flags().IntVar(&f.code, "code", 0, "JSON-RPC error code; 0 is none")
	c.Flags().IntVar(&f.status, "http-status", 0, "HTTP status, where it was not 200")
	c.Flags().StringVar(&f.data, "data", "", "data of the JSON-RPC error, as JSON")
	return c
}

func (p *program) explain(cmd *cobra.Command, f explainFlags, text string) error {
	response := outcome.Response{Code: f.code, Message: text, HTTPStatus: f.status}
	if f.status != 0 && (f.status < 100 || f.status > 599) {
		return misused(cmd, "--http-status %d is no HTTP status", f.status)
	}
	if f.data != "" {
		if err := json.Unmarshal([]byte(f.data), &response.Data); err != nil {
			return misused(cmd,
				"--data is not JSON; text needs quotes of its own, as in --data '\"text\"'")
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
			"this is no error: it is a JSON-RPC answer with a result, so the node did what it was asked; give the answer that has an \"error\"")
	}
	e := explained(unwrapped(response))
	return p.print(e, fields(e.fields()))
}

// succeeded tells whether a text is a JSON-RPC answer that refuses nothing.
func succeeded(text string) bool {
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	return json.Unmarshal([]byte(text), &response) == nil && response.Result != nil &&
		(response.Error == nil || string(response.Error) == "null")
}

// unwrapped takes apart a text that is a JSON-RPC answer, a batch of them, or the error of one. What the flags say stands.
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
	if doubted { // what counts is how it is said, and what is done
		class = txn.Ambiguous
		meaning.Says, meaning.Does = outcome.MeaningOf(class).Says, behindGateway
	}
	return explanation{
		Class: class, Read: read, Why: why, Says: meaning.Says, Does: meaning.Does, NonceKept: true, Detail: o.Detail,
		Numbers: explainedNumbers{
			NonceExpected: o.NonceExpected, NonceGiven: o.NonceGiven, FeeNeeded: weiText(o.FeeNeeded), TipNeeded: weiText(o.TipNeeded),
			Have: weiText(
				o.Have), Want: weiText(o.Want), Short: weiText(o.Short), RetryAfterMs: o.RetryAfter.Milliseconds(),
		},
	}
}

func weiText(w *txn.Wei) string {
	if w == nil {
		return ""
	}
	return w.Dec()
}

// fields is the explanation for a person.
func (e explanation) fields() []field {
	n := e.Numbers
	class := string(e.Class)
	if e.Read != e.Class {
		class += ", as the answer to a transaction; by itself it reads as " + string(e.Read)
	}
	all := []field{
		{"class", class},
		{"says", e.Says},
		{"read by", e.Why},
		{"nonce", outcome.NonceKept},
		{"Fencepost", e.Does},
	}
	nonce := func(name string, value *txn.Nonce) {
		if value != nil {
			all = append(all, field{name, strconv.FormatUint(uint64(*value), 10)})
		}
	}
	nonce("nonce expected", n.NonceExpected)
	nonce("nonce given", n.NonceGiven)
	for _, f := range []field{{"fee needed", n.FeeNeeded}, {"tip needed", n.TipNeeded}, {"has", n.Have}, {"needs", n.Want}, {"short of", n.Short}} {
		if f.value != "" {
			all = append(all, field{f.name, f.value + " wei"})
		}
	}
	if n.RetryAfterMs > 0 {
		all = append(all,
			field{"come again in", (time.Duration(n.RetryAfterMs) * time.Millisecond).String()})
	}
	return append(all, field{"detail", e.Detail})
}
