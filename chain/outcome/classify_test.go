package outcome

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// sample is one line of testdata/rpc_errors.jsonl.
type sample struct {
	Client     string `json:"client"`
	Code       int    `json:"code"`
	Message    string `json:"message"`
	Data       any    `json:"data"`
	HTTPStatus int    `json:"http_status"`
	Class      string `json:"class"`
	Ambiguous  bool   `json:"ambiguous"`
}

func (s sample) response() Response {
	return Response{Code: s.Code, Message: s.Message, Data: s.Data, HTTPStatus: s.HTTPStatus}
}

// classesOf maps the classes of the file to those of txn. Some are distinguished in the file only.
var classesOf = map[string][]txn.Class{
	"known_transaction":       {txn.AlreadyKnown},
	"nonce_too_low":           {txn.NonceTooLow},
	"nonce_too_high":          {txn.NonceGap},
	"replacement_underpriced": {txn.ReplacementUnderpriced},
	"underpriced":             {txn.Underpriced},
	"fee_cap_below_base_fee":  {txn.FeeCapBelowBaseFee},
	"insufficient_funds":      {txn.InsufficientFunds},
	"txpool_full":             {txn.PoolFull},
	"rate_limited":            {txn.RateLimited},
	"unauthorized":            {txn.Unauthorized},
	"node_unavailable":        {txn.Unavailable},
	"chain_id_mismatch":       {txn.WrongChain},
	"execution_reverted":      {txn.ExecutionReverted},
	"intrinsic_gas":           {txn.Invalid},
	"gas_limit_exceeded":      {txn.Invalid},
	"oversized":               {txn.Invalid},
	"tx_type_not_supported":   {txn.TypeNotSupported},
	"invalid_sender":          {txn.Invalid},
	"fatal_other":             {txn.Invalid, txn.Ambiguous},
}

func readSamples(t *testing.T) []sample {
	t.Helper()
	raw, err := os.ReadFile("testdata/rpc_errors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, s)
	}
	return all
}

// givenUp are the classes that give bytes up.
var givenUp = []txn.Class{txn.Invalid, txn.ExecutionReverted}

// unsafe reports whether this reading could lose a transaction, or count a rejected one as sent.
func unsafe(fileClass string, got txn.Class) bool {
	switch fileClass {
	case "known_transaction":
		return slices.Contains(givenUp, got)
	case "nonce_too_low",
		"replacement_underpriced",
		"node_unavailable",
		"rate_limited",
		"txpool_full":
		return slices.Contains(givenUp, got) || got == txn.AlreadyKnown || got == txn.Accepted
	}
	return got == txn.AlreadyKnown || got == txn.Accepted
}

func TestClassifyCorpus(t *testing.T) {
	t.Parallel()
	const wantAccuracy = 0.97
	decidedRule, wrong := 0, 0
	for _, s := range readSamples(t) {
		got, why := Explain(s.response())
		if unsafe(s.Class, got) {
			t.Errorf("unsafe: %s of %s is read as %s because %s: %q", s.Class, s.Client, got, why,
				s.Message)
		}
		if s.Ambiguous {
			continue
		}
		decidedRule++
		if !slices.Contains(classesOf[s.Class], got) {
			wrong++
			t.Logf("%s of %s is read as %s because %s: %q", s.Class, s.Client, got, why, s.Message)
		}
	}
	if accuracy := 1 - float64(wrong)/float64(decidedRule); accuracy < wantAccuracy {
		t.Errorf(
			"%d of %d wrong: accuracy %.3f, want %.2f",
			wrong,
			decidedRule,
			accuracy,
			wantAccuracy,
		)
	}
}

// Gateways wrap and capitalize messages; the class stays the same.
func TestClassify_Wrapped(t *testing.T) {
	t.Parallel()
	wrappers := []struct {
		name string
		wrap func(string) string
	}{
		{"call failed", func(m string) string { return "call failed: " + m }},
		{"grpc", func(m string) string { return "rpc error: code = Unknown desc = " + m }},
		{
			"forwarded",
			func(m string) string {
				return "failed to forward tx to sequencer. Error message: '" +
					m + "'"
			},
		},
		{"json in text", func(m string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32000,"message":%q}}`, m)
		}},
		{"spaces", func(m string) string { return "  " + strings.ReplaceAll(m, " ", "  ") + "\n" }},
	}
	const wantSame = 0.95
	for w, c := range wrappers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			decidedRule, same := 0, 0
			for i, s := range readSamples(t) {
				if i%2 != w%2 {
					// half of the texts each, because the race detector slows regular expressions
					// down
					continue
				}
				bare := s.response()
				wrapped := bare
				wrapped.Message = c.wrap(s.Message)
				want, _ := Explain(bare)
				got, why := Explain(wrapped)
				if unsafe(s.Class, got) {
					t.Errorf("unsafe: %s is read as %s because %s: %q", s.Class, got, why,
						wrapped.Message)
				}
				decidedRule++
				if got == want {
					same++
				}
			}
			if share := float64(same) / float64(decidedRule); share < wantSame {
				t.Errorf("%.3f of the texts keep their class, want %.2f", share, wantSame)
			}
		})
	}
}

// A contract's own words never decide.
func TestClassifyRevertText(t *testing.T) {
	t.Parallel()
	for _, s := range readSamples(t) {
		if strings.Contains(s.Message, "failed to pay") ||
			strings.Contains(strings.ToLower(s.Message), "validation revert") ||
			strings.Contains(s.Message, "Failed to pay") {
			continue // zkSync's checks of fee and sender use the word revert themselves
		}
		if got, _ := Explain(Response{Message: "execution reverted: " +
			s.Message}); got != txn.ExecutionReverted {
			t.Errorf("the revert text %q is read as %s", s.Message, got)
		}
	}
}

func TestRevertReason(t *testing.T) {
	t.Parallel()
	const (
		panic = "0x4e487b710000000000000000000000000000000000000000000000000000000000000011"
		other = "0xdeadbeef0000000000000000000000000000000000000000000000000000000000000001"
	)
	zeros := strings.Repeat("0", 62)
	nope := "0x08c379a0" + zeros + "20" + zeros + "04" + "6e6f7065" + zeros[:56]
	for name, c := range map[string]struct {
		data any
		want string
	}{
		"error string": {nope, "execution reverted: nope"},
		"panic":        {panic, "execution reverted: arithmetic underflow or overflow"},
		"custom": {
			other,
			"execution reverted with a custom error, selector 0xdeadbeef, 36 bytes",
		},
		"words around it":  {"Reverted " + nope, "execution reverted: nope"},
		"object around it": {map[string]any{"data": nope}, "execution reverted: nope"},
		"deep in objects": {
			map[string]any{"originalError": map[string]any{"data": nope}},
			"execution reverted: nope",
		},
		"as a result": {map[string]any{"result": "0x", "return": nope}, "execution reverted: nope"},
		"no data":     {nil, "execution reverted"},
		"empty data":  {"0x", "execution reverted"},
		"broken hex":  {"0x08c379a", "execution reverted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Classify(Response{Code: 3, Message: "execution reverted", Data: c.data})
			if o.Class != txn.ExecutionReverted || o.Detail != c.want {
				t.Errorf("got %+v, want REVERTED with %q", o, c.want)
			}
		})
	}
}

func TestRetryHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   Response
		want time.Duration
	}{
		{Response{Message: "rate limited, try again in 3s"}, 3 * time.Second},
		{Response{Message: "Too many requests, retry in 10 seconds"}, 10 * time.Second},
		{
			Response{Message: "Public RPC Rate Limit Hit, limit will reset in 60 seconds"},
			time.Minute,
		},
		{Response{Message: "retry after 2 minutes"}, 2 * time.Minute},
		{
			Response{Message: "slow down", Data: map[string]any{"try_again_in": "312.5ms"}},
			312500 * time.Microsecond,
		},
		{
			Response{
				Message: "limit",
				Data:    map[string]any{"rate": map[string]any{"backoff_seconds": 30.0}},
			},
			30 * time.Second,
		},
		{
			Response{
				Message: "limit",
				Data:    map[string]any{"rate": map[string]any{"backoff_seconds": 0.0}},
			},
			0,
		},
		{Response{Message: "monthly quota is used up, try again in 40000 minutes"}, maxRetryHint},
		{Response{Message: "wait for at least 5 seconds"}, 5 * time.Second},
		{Response{Message: "too many requests, retry in 1m30s."}, 90 * time.Second},
		{Response{Message: "retry after 5 h"}, maxRetryHint},
		{Response{Message: "retry after 3. Minutes count"}, 3 * time.Second},
		{Response{Message: "wait 30 more requests"}, 30 * time.Second},
		{
			Response{Message: "limit", Data: map[string]any{"retry_after": "5 seconds"}},
			5 * time.Second,
		},
		{
			Response{Message: "limit", Data: map[string]any{"info": "try again in 2 minutes"}},
			2 * time.Minute,
		},
		{
			Response{Message: "limit", Data: []any{map[string]any{"retryAfterMs": 90.0}}},
			90 * time.Millisecond,
		},
		{Response{Message: "limit", Data: map[string]any{"x-retry-after": 4.0}}, 4 * time.Second},
		{Response{Message: "rate limited"}, 0},
		{Response{Message: "nonce too low: next nonce 12, tx nonce 11"}, 0},
		{Response{Message: "try again in 99999999999999999999999999999999999s"}, maxRetryHint},
	} {
		if got := Classify(c.in).RetryAfter; got != c.want {
			t.Errorf("%q %v: hint %v, want %v", c.in.Message, c.in.Data, got, c.want)
		}
	}
}
