package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

func trustGasLimits(o *Options) { o.TrustGasLimits = true }

// ownGas is a draft that needs no simulation if gas limits are trusted.
func ownGas(from txn.Address) txn.Draft {
	to := common.HexToAddress("0xb0b")
	return txn.Draft{From: from, Payload: txn.Payload{To: &to, GasLimit: 21_000}}
}

// A draft with its own gas limit costs no call: prices are queried once per head, a balance
// occasionally, and nothing is simulated.
func TestQuoteCache_Hit_NoCall(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
	})
	r := dial(t, trustGasLimits, n.url())
	r.mustHead(t)
	quoteAll := func() (first txn.Quote) {
		t.Helper()
		var wg sync.WaitGroup
		quotes := make([]txn.Quote, 50)
		for i := range quotes {
			wg.Go(func() {
				var o txn.Outcome
				if quotes[i], o = r.Quote(
					t.Context(),
					ownGas(common.BigToAddress(big.NewInt(int64(i%5+1)))),
				); o.Class != txn.Accepted {
					t.Errorf("%+v", o)
				}
			})
		}
		wg.Wait()
		return quotes[0]
	}
	asked := func(what string, histories, least, most int) {
		t.Helper()
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.calls["eth_feeHistory"] != histories || n.calls["eth_getBalance"] < least ||
			n.calls["eth_getBalance"] > most ||
			n.calls["eth_estimateGas"] != 0 {
			t.Errorf("%s: calls %v", what, n.calls)
		}
		clear(n.calls)
	}
	before := quoteAll()
	asked("first", 1, 5, 50)
	quoteAll()
	asked("again", 0, 0, 0)
	n.set(func(n *fakeNode) { n.head, n.baseFee = n.head+1, (*hexutil.Big)(big.NewInt(5000)) })
	r.mustHead(t)
	if after := quoteAll(); !after.Fees.Cap.Gt(&before.Fees.Cap) {
		t.Errorf("fees %s under a base fee of 5000, %s under one of 1000", after.Fees.Cap.Dec(),
			before.Fees.Cap.Dec())
	}
	asked("under the next head", 1, 0, 0)
	r.clock.Advance(maxBalanceAge + 1)
	r.mustHead(t)
	quoteAll()
	asked("later", 0, 5, 50)
}

// With default options a draft with its own gas limit costs its simulation and nothing else: fees
// are queried once per head for all accounts, a balance once.
func TestQuoteCache_Simulated_OneCall(t *testing.T) {
	t.Parallel()
	const accounts, heads = 50, 20
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
		n.gasPrice, n.send = (*hexutil.Big)(big.NewInt(1000)), takeAll
	})
	r := dial(t, nil, n.url())
	for range heads {
		n.set(func(n *fakeNode) { n.head++ })
		r.mustHead(t)
		var wg sync.WaitGroup
		for i := range accounts {
			wg.Go(func() {
				draft := ownGas(common.BigToAddress(big.NewInt(int64(i + 1))))
				if _, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted {
					t.Errorf("%+v", o)
				}
			})
		}
		wg.Wait()
		for i, o := range sendAll(t.Context(), r.Client, manySigned(accounts)) {
			if o.Class != txn.Accepted {
				t.Errorf("send %d: %+v", i, o)
			}
		}
		r.clock.Advance(12 * time.Second)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	calls := 0
	for _, count := range n.calls {
		calls += count
	}
	const drafts = accounts * heads
	if n.calls["eth_estimateGas"] != drafts || n.calls["eth_getBalance"] != accounts {
		t.Errorf("calls %v", n.calls)
	}
	// The first draft of each account has queried everything, and each connection is verified.
	calls -= 4*accounts + 3*n.calls["eth_chainId"]
	if perDraft := float64(calls) / drafts; perDraft > 2.1 {
		t.Errorf("%.2f calls per draft, want at most 2.1: %v", perDraft, n.calls)
	}
}

// With default options, a draft that is rejected later is rejected for its reason, and a balance
// that became too low in between is seen by the nodes.
func TestQuoteCache_SimulationRejected_ReasonKept(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	draft := ownGas(txn.Address{7})
	quote := func(want txn.Class) txn.Outcome {
		t.Helper()
		_, o := r.Quote(t.Context(), draft)
		if o.Class != want {
			t.Errorf("%+v, want %s", o, want)
		}
		return o
	}
	quote(txn.Accepted)
	for want, words := range map[txn.Class]error{
		txn.ExecutionReverted: coded{code: 3, msg: "execution reverted: nope"},
		txn.Invalid:           coded{code: -32000, msg: "max initcode size exceeded"},
		txn.InsufficientFunds: coded{code: -32000, msg: "insufficient funds for transfer"},
		txn.RateLimited:       coded{code: -32005, msg: "rate limited, try again in 3s"},
	} {
		n.set(func(n *fakeNode) {
			n.estimate = func(map[string]any) (hexutil.Uint64, error) { return 0, words }
		})
		if o := quote(want); want == txn.RateLimited && o.RetryAfter != 3*time.Second {
			t.Errorf("%+v, want the hint of the provider", o)
		}
		r.clock.Advance(3 * time.Second)
	}
	n.set(func(n *fakeNode) { n.estimate = nil })
	quote(txn.Accepted)
}

// The cache only confirms. A low balance is queried each time, and so is one that a node calls
// insufficient.
func TestQuoteCache_Balance_TracksSpending(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	from := crypto.PubkeyToAddress(key.PublicKey)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, errors.New("insufficient funds for gas * price + value")
		}
	})
	r := dial(t, trustGasLimits, n.url())
	r.mustHead(t)
	quote := func(want txn.Class) txn.Quote {
		t.Helper()
		q, o := r.Quote(t.Context(), ownGas(from))
		if o.Class != want {
			t.Fatalf("%+v, want %s", o, want)
		}
		return q
	}
	q := quote(txn.Accepted)
	n.set(func(n *fakeNode) { n.balance = (*hexutil.Big)(big.NewInt(1)) })
	quote(txn.Accepted) // it was sufficient a moment ago
	tx, err := types.SignNewTx(
		key,
		types.LatestSignerForChainID(big.NewInt(int64(testChain))),
		&types.DynamicFeeTx{
			ChainID: big.NewInt(
				int64(testChain)),
			To:        &from,
			Gas:       21_000,
			GasFeeCap: q.Fees.Cap.ToBig(),
			GasTipCap: q.Fees.Tip.ToBig(),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Send(
		t.Context(),
		txn.Signed{Hash: tx.Hash(), Raw: raw},
	); o.Class != txn.InsufficientFunds {
		t.Fatalf("%+v", o)
	}
	quote(txn.InsufficientFunds)
	need, _ := cost(q.GasLimit, q.Fees, txn.Wei{})
	need.Mul(&need, uint256.NewInt(2))
	n.set(func(n *fakeNode) { n.balance = (*hexutil.Big)(need.ToBig()) })
	quote(txn.Accepted)
	n.set(func(n *fakeNode) { n.balance = (*hexutil.Big)(big.NewInt(1)) })
	quote(txn.InsufficientFunds)
}

// A gas limit below the intrinsic gas is rejected without a nonce and without a call.
func TestQuote_OwnGasLimitTooLow_Invalid(t *testing.T) {
	t.Parallel()
	r := dial(t, trustGasLimits, "http://127.0.0.1:1")
	to := common.HexToAddress("0xb0b")
	for name, p := range map[string]txn.Payload{
		"a transfer": {To: &to, GasLimit: 20_999},
		"with data":  {To: &to, Data: []byte{0, 1}, GasLimit: 21_019},
		"a creation": {Data: []byte{1}, GasLimit: 53_015},
	} {
		if _, o := r.Quote(t.Context(), txn.Draft{Payload: p}); o.Class != txn.Invalid {
			t.Errorf("%s: %+v", name, o)
		}
		p.GasLimit++
		if _, o := r.Quote(t.Context(), txn.Draft{Payload: p}); o.Class == txn.Invalid {
			t.Errorf("%s with one unit more: %+v", name, o)
		}
	}
}

// A draft with its own gas limit skips the simulation only if gas limits are trusted. A limit that
// is too low is detected in both cases.
func TestQuote_Simulation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trust     bool
		gas       uint64
		simulated bool
		want      txn.Class
	}{
		"no limit":                      {false, 0, true, txn.ExecutionReverted},
		"its own limit":                 {false, 50_000, true, txn.ExecutionReverted},
		"no limit where trusted":        {true, 0, true, txn.ExecutionReverted},
		"its own limit where trusted":   {true, 50_000, false, txn.Accepted},
		"too low a limit where trusted": {true, 20_999, false, txn.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(
					big.NewInt(1e18))
				n.estimate = func(map[string]any) (hexutil.Uint64, error) {
					return 0, errors.New("execution reverted: nope")
				}
			})
			r := dial(t, func(o *Options) { o.TrustGasLimits = c.trust }, n.url())
			draft := ownGas(common.HexToAddress("0xa1"))
			draft.Payload.GasLimit = c.gas
			for range 2 { // the cached values change nothing
				r.mustHead(t)
				if _, o := r.Quote(t.Context(), draft); o.Class != c.want {
					t.Errorf("%+v, want %s", o, c.want)
				}
			}
			if n.mu.Lock(); (n.calls["eth_estimateGas"] == 2) != c.simulated {
				t.Errorf("calls %v", n.calls)
			}
			n.mu.Unlock()
		})
	}
}

// Callers that waited for prices use them even if there is a newer head meanwhile; otherwise they
// would query one after the other.
func TestQuoteCache_Waiters_ShareFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Client{cache: newQuoteCache()}
		old := &market{
			from: &endpoint{o: &Options{Clock: clock.NewFake(time.Now())}},
		} // its endpoint has not reported a head recently
		_, done := c.cachedPrices(t.Context(), "")
		const waiting = 3
		got := make(chan *market, waiting)
		for range waiting {
			go func() {
				prices, asks := c.cachedPrices(t.Context(), "")
				if asks != nil {
					t.Error("one that has waited asks as well")
					asks(nil)
				}
				got <- prices
			}()
		}
		synctest.Wait()
		done(old)
		synctest.Wait()
		for range waiting {
			if prices := <-got; prices != old {
				t.Errorf("one that has waited has %v", prices)
			}
		}
		if _, asks := c.cachedPrices(t.Context(), ""); asks == nil {
			t.Error("nobody asks under the new head")
		} else {
			asks(nil)
		}
	})
}

// noNumber responds to a query for prices with a head without a number.
func noNumber(w http.ResponseWriter, r *http.Request) bool {
	body := readBody(r)
	if !strings.Contains(body, "eth_feeHistory") {
		return false
	}
	var asked []struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(body), &asked) != nil {
		return false
	}
	var out []string
	for _, a := range asked {
		result := `"0x1"`
		switch a.Method {
		case "eth_getBlockByNumber":
			result = `{"timestamp":"0x1","gasLimit":"0x1c9c380","baseFeePerGas":"0x3e8"}`
		case "eth_feeHistory":
			result = `null`
		case "eth_getBalance":
			result = `"0xde0b6b3a7640000"`
		}
		out = append(out, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, a.ID, result))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "[%s]", strings.Join(out, ","))
	return true
}

// Prices of a head without a number are not cached.
func TestQuoteCache_NoHead_NotCached(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
	})
	r := dial(t, trustGasLimits, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.intercept = noNumber })
	from := common.HexToAddress("0xa1")
	for range 2 {
		if _, o := r.Quote(t.Context(), ownGas(from)); o.Class != txn.Unavailable {
			t.Errorf("%+v", o)
		}
	}
	n.set(func(n *fakeNode) { n.intercept = nil })
	if _, o := r.Quote(t.Context(), ownGas(from)); o.Class != txn.Accepted {
		t.Errorf("once it is well: %+v", o)
	}
}
