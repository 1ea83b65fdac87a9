package conformance_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// twins are go-ethereum and the in-memory chain, which receive the same bytes.
type twins struct {
	t     *testing.T
	node  *devchain.Chain
	real  *chain.Client
	twin  *chaintest.Chain
	dice  *rand.Rand
	sent  []txn.Signed
	steps []string // for the report
}

// TestTwin_RandomCalls_SameAsGoEthereum sends random bytes to both and compares the responses and
// effects.
func TestTwin_RandomCalls_SameAsGoEthereum(t *testing.T) {
	t.Parallel()
	const seeds, steps = 4, 100
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, seed)
			for range steps {
				switch n := w.dice.IntN(20); {
				case n == 0:
					w.mine()
				case n == 1 && len(w.sent) > 0:
					w.send(w.sent[w.dice.IntN(len(w.sent))])
				case n == 2:
					w.reorg()
				default:
					w.send(w.draw())
				}
			}
			w.mine()
		})
	}
}

const (
	twinAccounts = 2
	finney       = params.Ether / 1000
)

// means is the balance of an account: enough for a few expensive transactions, so that overdrafts
// occur.
var means = new(big.Int).Mul(big.NewInt(40), big.NewInt(finney))

func newTwins(t *testing.T, seed uint64) *twins {
	t.Helper()
	node, err := devchain.Start(devchain.Options{Accounts: twinAccounts, Balance: means})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	c, err := chain.Dial(
		t.Context(),
		chain.Options{
			Name:      "dev",
			ChainID:   txn.ChainID(node.ID()),
			Endpoints: []string{node.URL()},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	twin := chaintest.New(chaintest.Options{ChainID: c.ID()})
	for i := range twinAccounts {
		twin.Fund(devchain.Address(i), *uint256.MustFromBig(means))
	}
	head, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	twin.MineEmpty(int(head.Number)) // the node may have made blocks automatically
	return &twins{t: t, node: node, real: c, twin: twin, dice: rand.New(rand.NewPCG(seed, 1))}
}

// draw creates a transfer that may be valid or invalid in any way.
func (w *twins) draw() txn.Signed {
	pick := func(choices ...int64) int64 { return choices[w.dice.IntN(len(choices))] }
	gwei := func(n int64) *big.Int {
		return new(big.Int).Mul(big.NewInt(n), big.NewInt(params.GWei))
	}
	to := txn.Address{0xfe}
	signer := types.LatestSignerForChainID(
		new(big.Int).SetUint64(uint64(w.real.ID()) + uint64(pick(0, 0, 0, 0, 0, 0, 0, 0, 0, 1))))
	nonce := uint64(pick(0, 0, 1, 2, 3, 4, 5, 6))
	gas := uint64(
		pick(21_000, 21_000, 21_000, 21_000, 21_000, 21_000, 21_000, 21_000, 90_000, 300_000,
			20_999, 17_000_000, 100_000_000),
	)
	value := big.NewInt(pick(0, 1, 5*finney, 20*finney, 50*finney))
	var data types.TxData = &types.LegacyTx{
		Nonce:    nonce,
		To:       &to,
		Value:    value,
		Gas:      gas,
		GasPrice: gwei(pick(20, 22, 23, 40)),
	}
	if w.dice.IntN(4) > 0 {
		data = &types.DynamicFeeTx{
			ChainID:   signer.ChainID(),
			Nonce:     nonce,
			To:        &to,
			Value:     value,
			Gas:       gas,
			GasFeeCap: gwei(pick(20, 21, 22, 25, 30)),
			GasTipCap: gwei(pick(1, 2, 3, 10, 28)),
		}
	}
	tx, err := types.SignNewTx(devchain.Key(w.dice.IntN(twinAccounts)), signer, data)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		w.t.Fatal(err)
	}
	w.steps = append(
		w.steps,
		fmt.Sprintf("nonce %d gas %d value %d cap %d tip %d type %d", nonce, gas, value,
			tx.GasFeeCap(), tx.GasTipCap(), tx.Type()),
	)
	return txn.Signed{Hash: tx.Hash(), Raw: raw}
}

func (w *twins) send(signed txn.Signed) {
	w.t.Helper()
	w.sent = append(w.sent, signed)
	real, twin := w.real.Send(w.t.Context(), signed), w.twin.Send(w.t.Context(), signed)
	if real.Class != twin.Class {
		w.t.Fatalf("go-ethereum: %+v\nits twin:    %+v\nafter %q", real, twin,
			w.steps[max(0, len(w.steps)-8):])
	}
	w.compare("pool",
		func(a txn.Account) string {
			return fmt.Sprintf("next %d, pending %d", a.Latest, a.Pending)
		})
}

func (w *twins) mine() {
	w.t.Helper()
	w.steps = append(w.steps, "mine")
	if _, err := w.node.Mine(1); err != nil {
		w.t.Fatal(err)
	}
	head, err := w.real.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.twin.SetBaseFee(*head.BaseFee) // the twin's base fee does not change on its own
	w.twin.Mine(1)
	w.compareChains()
}

func (w *twins) reorg() {
	w.t.Helper()
	head, err := w.real.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if head.Number == 0 {
		return
	}
	depth := 1 + w.dice.IntN(int(min(head.Number, 3)))
	dispositions := []devchain.Disposition{devchain.Keep, devchain.Return, devchain.Drop}
	disposition := dispositions[w.dice.IntN(len(dispositions))]
	w.steps = append(w.steps, fmt.Sprintf("reorg %d %s", depth, disposition))
	if err := w.node.Reorg(depth, disposition); err != nil {
		w.t.Fatal(err)
	}
	if err := w.twin.Reorg(depth, chaintest.Disposition(disposition)); err != nil {
		w.t.Fatal(err)
	}
	w.compareChains()
}

// compareChains compares the accounts, and the receipts of all transactions ever sent.
func (w *twins) compareChains() {
	w.t.Helper()
	w.compare("state", func(a txn.Account) string {
		return fmt.Sprintf("head %d, next %d, pending %d, balance %s", a.Head, a.Latest, a.Pending,
			a.BalanceAt.Dec())
	})
	hashes := make([]txn.Hash, len(w.sent))
	for i := range w.sent {
		hashes[i] = w.sent[i].Hash
	}
	real, twin := w.real.Receipts(w.t.Context(), hashes), w.twin.Receipts(w.t.Context(), hashes)
	for i := range hashes {
		if real[i].Err != nil || (real[i].Receipt == nil) != (twin[i].Receipt == nil) {
			w.t.Fatalf("%s: go-ethereum %+v, its twin %+v", hashes[i], real[i], twin[i])
		}
	}
}

// compare waits until both report the same for every account: go-ethereum reorders its pool after a
// response.
func (w *twins) compare(what string, show func(txn.Account) string) {
	w.t.Helper()
	giveUp := time.NewTimer(10 * time.Second)
	defer giveUp.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		real, twin := w.show(w.real, show), w.show(w.twin, show)
		if real == twin {
			return
		}
		select {
		case <-look.C:
		case <-giveUp.C:
			w.t.Fatalf("%s: go-ethereum %s\nits twin %s\nafter %q", what, real, twin,
				w.steps[max(0, len(w.steps)-8):])
		}
	}
}

func (w *twins) show(c interface {
	Account(context.Context, txn.Address, uint64) (txn.Account, error)
}, show func(txn.Account) string) string {
	w.t.Helper()
	text := ""
	for i := range twinAccounts {
		a, err := c.Account(w.t.Context(), devchain.Address(i), 0)
		if err != nil {
			w.t.Fatal(err)
		}
		text += show(a) + "; "
	}
	return text
}
