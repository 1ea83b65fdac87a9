package outcome

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
	"pgregory.net/rapid"
)

var digits = regexp.MustCompile(`[0-9]+`)

// numbersText returns the numbers of an outcome in one line.
func numbersText(o txn.Outcome) string {
	s := ""
	nonce := func(name string, n *txn.Nonce) {
		if n != nil {
			s += fmt.Sprintf(" %s=%d", name, *n)
		}
	}
	wei := func(name string, w *txn.Wei) {
		if w != nil {
			s += fmt.Sprintf(" %s=%s", name, w.Dec())
		}
	}
	nonce("expected", o.NonceExpected)
	nonce("given", o.NonceGiven)
	wei("fee", o.FeeNeeded)
	wei("tip", o.TipNeeded)
	wei("have", o.Have)
	wei("want", o.Want)
	wei("short", o.Short)
	if s == "" {
		return ""
	}
	return s[1:]
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		// Nonces.
		{"nonce too low: next nonce 12, tx nonce 11", "expected=12 given=11"},
		{"nonce too low: next nonce 5, tx nonce 5", ""},
		{"nonce too high: tx nonce 15, gapped nonce 12", "expected=12 given=15"},
		{
			"nonce too low: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 " +
				"state: 8090",
			"expected=8090 given=8089",
		},
		{
			"nonce too high: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 " +
				"state: 8090",
			"",
		},
		{"nonce too low. allowed nonce range: 427 - 447, actual: 426", "expected=427 given=426"},
		{"OldNonce, Current nonce: 22, nonce of rejected tx: 17", "expected=22 given=17"},
		{"NonceGap, Future nonce. Expected nonce: 10", "expected=10"},
		{
			"Transaction nonce too low. Expected nonce to be at least 5 but got 3.",
			"expected=5 given=3",
		},
		{"Nonce too high. Provided nonce: 16, current nonce: 15", "expected=15 given=16"},
		{
			"the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 3",
			"expected=5 given=3",
		},
		{"message nonce has too big a gap from expected nonce (Nonce: 20, nextNonce: 12): " +
			"unfulfilled nonce gap", "expected=12 given=20"},
		{
			"invalid nonce; got 18, expected 32: invalid sequence: invalid sequence",
			"expected=32 given=18",
		},
		{
			"account sequence mismatch, expected 12, got 14: incorrect account sequence",
			"expected=12 given=14",
		},
		{"call failed: nonce too low: address 0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c " +
			"current nonce (5833) > tx nonce (5511)", "expected=5833 given=5511"},
		{"Transaction nonce 5 is lower than the account nonce 7", "expected=7 given=5"},
		{"ERR_INCORRECT_NONCE: ac: 5, tx: 9", "expected=5 given=9"},
		{"nonce too low: state: 12, tx: 10", "expected=12 given=10"},
		{"nonce too low: next nonce 0x1f, tx nonce 0x1e", "expected=31 given=30"},
		{"nonce too low: next nonce 99999999999999999999999999, tx nonce 7", "given=7"},
		{"nonce too low: next nonce -5, tx nonce 7", "given=7"},
		{"nonce too low", ""},

		// Fees.
		{"transaction underpriced: gas tip cap 1, minimum needed 25000000000", "tip=25000000000"},
		{"transaction underpriced: tip needed 1000000000, tip permitted 1", "tip=1000000000"},
		{"transaction gas price below minimum: blob fee cap 0, minimum needed 1", ""},
		{"max fee per gas less than block base fee: address " +
			"0x8db97C7cEcE249c2b98bDC0226Cc4C2A57BF52FC, maxFeePerGas: 1, baseFee: 30000000000",
			"fee=30000000000"},
		{
			"max fee per gas less than block base fee (1 < 7): insufficient fee: insufficient fee",
			"fee=7",
		},
		{"Transaction maxFeePerGas (1) is too low for the next block, which has a baseFeePerGas " +
			"of 875000000", "fee=875000000"},
		{"FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 50, BaseFee: 100, " +
			"MaxPriorityFeePerGas:200, Block number: 5", "fee=100"},
		{"FeeTooLow, EffectivePriorityFeePerGas too low 10 < 20, BaseFee: 30", "fee=30 tip=20"},
		{"FeeTooLow, FeePerGas needs to be higher than 100 to be added to the TxPool. " +
			"Affordable FeePerGas of rejected tx: 50.", "fee=101"},
		{
			"Gas price '830000000000' is below configured minimum gas price '950000000000'",
			"fee=950000000000",
		},
		{"transaction priority fee below minimum required priority fee 1000000", "tip=1000000"},
		{"Transaction gas price is too low. It does not satisfy your node's minimal gas price " +
			"(minimal: 100, got: 50). Try increasing the gas price.", "fee=100"},
		{"Transaction max gas price is lower then the required base fee (gas_price: 1, " +
			"base_fee: 7). Try increasing the max gas price.", "fee=7"},
		{"GasFeeCap doesn't meet base fee lower bound for inclusion in the next 20 blocks " +
			"(GasFeeCap: 100, baseFeeLowerBound: 200)", "fee=200"},
		{"transaction underpriced: address 0x8db97C7cEcE249c2b98bDC0226Cc4C2A57BF52FC have gas " +
			"fee cap (1) < pool minimum fee cap (25000000000)", "fee=25000000000"},
		{
			"invalid: failed transaction: the minimum accepted gas price for transactions is: " +
				"100000000",
			"fee=100000000",
		},
		{"Tx does not pay the minimum gas price of 0.1 gwei", "fee=100000000"},
		{
			"Tx cannot pay basefee of 1000000000, have 5 (not within 50% range of current basefee)",
			"fee=1000000000",
		},
		{"replacement transaction underpriced: new tx gas fee cap 100 <= 100 queued", "fee=101"},
		{"replacement transaction underpriced: new tx gas tip cap 1 < 3 queued + 10% " +
			"replacement penalty", "tip=4"},
		{"replacement transaction underpriced: new tx blob gas fee cap 1 < 1 queued + 100% " +
			"replacement penalty", ""},
		{"Replacement transaction underpriced. A gasPrice/maxPriorityFeePerGas of at least " +
			"1100000000 is necessary to replace the existing transaction with nonce 5.",
			"tip=1100000000"},
		{"Transaction gas price 100wei is too low. There is another transaction with same nonce " +
			"in the queue with gas price: 150wei.", "fee=151"},
		{"increase GasPremium to 125 from 100 to trigger replace by fee: replace by fee has too " +
			"low GasPremium", "tip=125"},
		{"Tx with same nonce already inserted. To replace it, you need to specify a gas price > " +
			"20000000000", "fee=20000000001"},
		{"insufficient fees; got: 100aevmos required: 200aevmos: insufficient fee", ""},
		{"gas price is below the base fee of block 20", ""},
		// 110 % of it is 24 above 2^256.
		{"replacement transaction underpriced: new tx gas fee cap 1 < " +
			"1052655356702874503850645318260799162302454406051277854904159854617392087636 " +
			"queued + 10% replacement penalty", ""},
		{"transaction underpriced: gas price below minimum 99999999999999999999999999", ""},
		{
			"fee too low: 30365610000000, use at least tx.gasLimit = 5874374 and tx.gasPrice = " +
				"15000000",
			"",
		},

		// Amounts.
		{
			"insufficient funds for gas * price + value: have 100 want 21000",
			"have=100 want=21000 short=20900",
		},
		{"insufficient funds for gas * price + value: address " +
			"0x8db97C7cEcE249c2b98bDC0226Cc4C2A57BF52FC have (100) want (200)",
			"have=100 want=200 short=100"},
		{
			"insufficient funds for gas * price + value: balance 100, tx cost 210, overshot 110",
			"have=100 want=210 short=110",
		},
		{"insufficient funds for gas * price + value: balance 100, queued cost 50, tx cost 210, " +
			"overshot 160", "have=100 want=260 short=160"},
		{"Insufficient funds. The account you tried to send transaction from does not have " +
			"enough funds. Required 200 and got: 100.", "have=100 want=200 short=100"},
		{"Sender doesn't have enough funds to send tx. The max upfront cost is: 21000000000000 " +
			"and the sender's balance is: 0.", "have=0 want=21000000000000 short=21000000000000"},
		{"InsufficientFunds, Balance is 1092404690719251702 less than sending value + gas " +
			"7165512000464000000", "have=1092404690719251702 want=7165512000464000000 " +
			"short=6073107309744748298"},
		{
			"InsufficientFunds, Account balance: 47, cumulative cost: 220",
			"have=47 want=220 short=173",
		},
		{"not enough funds including pending messages (required: 2 FIL, balance: 1.5 FIL): " +
			"validation failure", "have=1500000000000000000 want=2000000000000000000 " +
			"short=500000000000000000"},
		{"sender balance < tx cost (100 < 200): insufficient funds", "have=100 want=200 short=100"},
		{"Insufficient balance for transaction. Balance=100.25, Cost=200.50", ""},
		{"lack of funds (100) for max fee (200)", "have=100 want=200 short=100"},
		{"insufficient funds: have 500 want 20", ""},
		{"insufficient funds for gas * price + value", ""},

		// Other classes have none.
		{"intrinsic gas too low: gas 20000, minimum needed 21000", ""},
		{"already known", ""},
		{"some words with have 1 want 2 and minimum needed 5 and next nonce 7", ""},
	} {
		text, want := c.text, c.want
		o := Classify(Response{Message: text})
		if got := numbersText(o); got != want {
			t.Errorf("%s %q:\n got %s\nwant %s", o.Class, text, got, want)
		}
	}
}

// The numbers show the direction where the words do not.
func TestNonceDirection(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]txn.Class{
		"invalid nonce; got 42, expected 41":                   txn.NonceGap,
		"invalid nonce; got 18, expected 32":                   txn.NonceTooLow,
		"invalid nonce: have 5, want 7":                        txn.NonceTooLow,
		"invalid nonce: have 9, want 7":                        txn.NonceGap,
		"nonce must be 7, 9 was given":                         txn.NonceGap,
		"account nonce (7) is greater than tx nonce (5)":       txn.NonceTooLow,
		"account nonce is higher than the transaction's nonce": txn.NonceTooLow,
		"the account nonce is lower than the transaction's":    txn.NonceGap,
		"tx nonce (9) is higher than account nonce (7)":        txn.NonceGap,
		"tx nonce is lower than account nonce":                 txn.NonceTooLow,
		"expected nonce 7":                                     txn.NonceTooLow,
		"nonces must be sequential":                            txn.NonceGap,
		"invalid nonce":                                        txn.NonceTooLow,
	} {
		if got, why := Explain(Response{Message: text}); got != want {
			t.Errorf("%q is %s because %s; want %s", text, got, why, want)
		}
	}
}

func TestWaitHint(t *testing.T) {
	t.Parallel()
	data := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		in   Response
		want time.Duration
	}{
		"milliseconds": {
			Response{Message: "rate limited, retry after 1500ms"},
			1500 * time.Millisecond,
		},
		"duration": {
			Response{Message: "Too many requests. Please wait 1m30s before the next one"},
			90 * time.Second,
		},
		"hours": {Response{Message: "quota exceeded, resets in 5 hours"}, maxRetryHint},
		"camel case": {
			Response{Message: "slow down", Data: data("retryAfter", 7.0)},
			7 * time.Second,
		},
		"unit in key": {
			Response{Message: "slow down", Data: data("retryAfterMs", 250.0)},
			250 * time.Millisecond,
		},
		"snake case": {
			Response{Message: "slow down", Data: data("rate", data("backoff_seconds", 30.0))},
			30 * time.Second,
		},
		"text with unit": {
			Response{Message: "slow down", Data: data("try_again_in", "312.5ms")},
			312500 * time.Microsecond,
		},
		"bare text": {
			Response{Message: "slow down", Data: data("Retry-After", "12")},
			12 * time.Second,
		},
		"longest": {
			Response{Message: "slow down", Data: data("retry_after", 2.0, "reset_in", 9.0)},
			9 * time.Second,
		},
		"huge": {
			Response{Message: "slow down", Data: data("retry_after", 1e300)},
			maxRetryHint,
		},
		"negative":   {Response{Message: "slow down", Data: data("retry_after", -5.0)}, 0},
		"no number":  {Response{Message: "slow down", Data: data("retry_after", "soon")}, 0},
		"time":       {Response{Message: "slow down", Data: data("reset", 1700000000.0)}, 0},
		"time in ms": {Response{Message: "slow down", Data: data("reset", "1700000000000")}, 0},
		"time as a wait": {
			Response{Message: "slow down", Data: data("retry_after", 1700000000.0)},
			0,
		},
		"time and wait": {
			Response{Message: "slow down", Data: data("reset", 1700000000.0, "retry_after", 3.0)},
			3 * time.Second,
		},
		"long, in ms": {Response{Message: "slow down", Data: data("reset_ms", 2e9)}, maxRetryHint},
		"other field": {Response{Message: "slow down", Data: data("current_rps", 40.0)}, 0},
		"none":        {Response{Message: "slow down"}, 0},
	} {
		if got := Classify(c.in).RetryAfter; got != c.want {
			t.Errorf("%s: hint %v, want %v", name, got, c.want)
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	t.Parallel()
	const now = "Wed, 15 Nov 2023 22:13:20 GMT" // 1700086400
	for value, want := range map[string]time.Duration{
		"7":                    7 * time.Second,
		"3.5":                  3500 * time.Millisecond,
		" 9 ":                  9 * time.Second,
		"0":                    0,
		"86400":                maxRetryHint,
		"999999999":            maxRetryHint,
		"99999999999999999999": maxRetryHint, "1" + strings.Repeat("0", 400): maxRetryHint,
		"-5": 0, "NaN": 0, "Inf": 0, "1e3": 0, "garbage": 0, "7, 8": 0, "": 0, "3.": 0,
		"1700086405":                    5 * time.Second,
		"1700086000":                    0,
		"4294967295":                    maxRetryHint,
		"4294967296":                    maxRetryHint,
		"1700086405000":                 0,
		"Wed, 15 Nov 2023 22:13:29 GMT": 9 * time.Second,
		"Mon, 01 Jan 1990 00:00:00 GMT": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": maxRetryHint,
	} {
		if got := RetryAfter(value, now); got != want {
			t.Errorf("%.30q is %v, want %v", value, got, want)
		}
	}
	for _, value := range []string{"1700086405", "Wed, 15 Nov 2023 22:13:29 GMT"} {
		if got := RetryAfter(value, ""); got != 0 {
			t.Errorf("%q is %v by no clock", value, got)
		}
	}
}

// With any other numbers in a known response, its class stays as safe, and numbers stay within
// their limits.
func TestNumbers_Random_Safe(t *testing.T) {
	t.Parallel()
	known, more := readSamples(t), append(
		further(t, "further_rpc_errors.jsonl"),
		further(t, "later_rpc_errors.jsonl")...)
	rapid.Check(t, func(t *rapid.T) {
		var s sample
		var want txn.Class
		if rapid.Bool().Draw(t, "further") {
			s = rapid.SampledFrom(more).Draw(t, "sample")
			want = txn.Class(s.Class)
		} else {
			s = rapid.SampledFrom(known).Draw(t, "sample")
			want = classesOf[s.Class][0]
		}
		numbers := rapid.OneOf(rapid.StringMatching(`[0-9]{1,3}`),
			rapid.StringMatching(`[0-9]{1,100}`),
			rapid.StringMatching(`[0-9]{1,20}[.,_][0-9]{1,20}`), rapid.Just("-1"),
			rapid.Just("0x7"))
		s.Message = digits.ReplaceAllStringFunc(s.Message,
			func(string) string { return numbers.Draw(t, "number") })
		o := Classify(s.response())
		if unsafeClass(want, o.Class) {
			t.Fatalf("%s of %s is read as %s: %q", want, s.Client, o.Class, s.Message)
		}
		checkNumbers(t, o)
	})
}

func FuzzClassify(f *testing.F) {
	for _, c := range unseen {
		f.Add(c.in.Code, c.in.Message, c.in.HTTPStatus)
	}
	f.Fuzz(func(t *testing.T, code int, message string, status int) {
		a := Response{Code: code, Message: message, HTTPStatus: status}
		o := Classify(a)
		if class, _ := Explain(a); class != o.Class {
			t.Fatalf("%q is %s, with its numbers %s", message, class, o.Class)
		}
		checkNumbers(t, o)
	})
}

func checkNumbers(t interface{ Fatalf(string, ...any) }, o txn.Outcome) {
	for _, n := range []*txn.Nonce{o.NonceExpected, o.NonceGiven} {
		if n != nil && *n >= maxNonce {
			t.Fatalf("nonce %d", *n)
		}
	}
	for _, fee := range []*txn.Wei{o.FeeNeeded, o.TipNeeded} {
		if fee != nil && (fee.IsZero() || fee.Gt(maxFee)) {
			t.Fatalf("fee %s", fee.Dec())
		}
	}
	if o.Have != nil && o.Want != nil && !o.Want.Gt(o.Have) {
		t.Fatalf("have %s, want %s", o.Have.Dec(), o.Want.Dec())
	}
	if o.RetryAfter < 0 || o.RetryAfter > maxRetryHint {
		t.Fatalf("hint %v", o.RetryAfter)
	}
}
