package node

import (
	"crypto/ecdsa"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/conformance"
	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/txn"
)

// quirk is a chain with the quirk of a profile, and a transaction that meets it.
type quirk struct {
	profile string
	chain   chaintest.Options
	payload txn.Payload
	balance string // of the account; empty: enough
	blocks  int    // that the chain makes after the transaction; more never come
	reorg   bool   // all of them are replaced, and the transaction is sent again
	without string // the outcome with the profile custom
}

func gwei(n uint64) txn.Wei { return *uint256.NewInt(n * 1e9) }

// quirks has every profile but custom, which is the comparison.
func quirks() map[string]quirk {
	plain := txn.Payload{To: &txn.Address{1}}
	large := txn.Payload{To: &txn.Address{1}, GasLimit: 20_000_000}
	return map[string]quirk{
		// twenty blocks deep, and not in a finalized one
		"a reorg above the finalized block": {profile: "ethereum", payload: plain, blocks: 20,
			reorg: true, without: reorged},
		"a fee for data": {profile: "op-stack", payload: plain,
			chain: chaintest.Options{L1Fee: gwei(1e6)}, balance: "1000000000000000",
			blocks: 70, without: refused},
		"gas above EIP-7825, Nitro": {profile: "arbitrum", payload: large, blocks: 70,
			chain: chaintest.Options{GasLimit: 1 << 50, MaxTxGas: 32_000_000}, without: denied},
		"minimum tip of Bor": {profile: "polygon", payload: plain, blocks: 70,
			chain: chaintest.Options{MinTip: gwei(25), TerseFloor: true}, without: refused},
		"minimum price of the validators": {profile: "bsc", payload: plain, blocks: 70,
			chain: chaintest.Options{BaseFee: *uint256.NewInt(1),
				MinTip: *uint256.NewInt(50_000_000), TerseFloor: true}, without: refused},
		"blocks only for transactions": {profile: "avalanche", payload: plain, blocks: 1,
			chain: chaintest.Options{NoTags: true}, without: waits},
		"gas above EIP-7825, Linea": {profile: "linea", payload: large, blocks: 20,
			chain:   chaintest.Options{GasLimit: 2_000_000_000, MaxTxGas: 30_000_000},
			without: denied},
		"gas above EIP-7825, ZK Stack": {profile: "zksync", payload: large, blocks: 20,
			chain:   chaintest.Options{GasLimit: 1 << 32, MaxTxGas: 80_000_000},
			without: denied},
		"gas above EIP-7825, Monad": {profile: "monad", payload: large, blocks: 70,
			chain: chaintest.Options{GasLimit: 150_000_000, MaxTxGas: 30_000_000,
				BaseFee: gwei(100), StrictFeeCap: true}, without: denied},
		"blocks on request": {profile: "dev", payload: plain, blocks: 1, without: waits},
	}
}

// The outcomes of a transaction.
const (
	denied  = "denied before it takes a nonce"
	refused = "refused by the pool"
	waits   = "included, and not final"
	reorged = "final, and in no block"
	final   = "final"
)

// TestProfiles_Quirks sends a transaction to a chain with the quirk of each profile. With the
// profile it becomes final; with custom it fails or waits for ever.
func TestProfiles_Quirks(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{"custom": true}
	for name, q := range quirks() {
		tested[q.profile] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := q.outcome(t, q.profile); got != final {
				t.Errorf("with the profile %s: %s", q.profile, got)
			}
			if got := q.outcome(t, "custom"); got != q.without {
				t.Errorf("without the profile: %s, want %s", got, q.without)
			}
		})
	}
	for _, name := range config.ProfileNames() {
		if !tested[name] {
			t.Errorf("the profile %s has no quirk here", name)
		}
	}
}

// outcome sends the transaction as a node with this profile would.
func (q quirk) outcome(t *testing.T, profile string) string {
	t.Helper()
	of := profileConfig(t, profile)
	o := q.chain
	o.Fees, o.GasMargin = feeOptions(of), of.Gas.Margin
	chain := chaintest.New(o)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	from := txn.Address(crypto.PubkeyToAddress(key.PublicKey))
	balance := "1000000000000000000000"
	if q.balance != "" {
		balance = q.balance
	}
	chain.Fund(from, *uint256.MustFromDecimal(balance))
	quote, out := chain.Quote(t.Context(), txn.Draft{From: from, Payload: q.payload})
	if out.Class == txn.InsufficientFunds && out.Short != nil { // UNFUNDED, until it is funded
		chain.Fund(from, *out.Short)
		quote, out = chain.Quote(t.Context(), txn.Draft{From: from, Payload: q.payload})
	}
	if out.Class != txn.Accepted {
		return denied
	}
	signed := signedQuote(t, key, chain.ID(), q.payload, quote)
	tracker := track.New(track.Options{Chain: chain, Policy: policy(of),
		FinalTag: of.Finality.Block(), Clock: clock.Real{}, Logger: slog.New(slog.DiscardHandler)})
	tracker.FollowNew(signed.Hash, func() {})
	seen := func() txn.Inclusion {
		if err := tracker.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		return tracker.View([]txn.Tx{{Attempts: []txn.Attempt{{Hash: signed.Hash}}}}).
			Inclusion(signed.Hash)
	}
	seen()
	if chain.Send(t.Context(), signed).Class != txn.Accepted {
		return refused
	}
	for range 1 + q.blocks {
		chain.Mine(1)
		seen()
	}
	if q.reorg {
		was := seen().Final
		if err := chain.Reorg(1+q.blocks, chaintest.Drop); err != nil {
			t.Fatal(err)
		}
		if was {
			return reorged
		}
		seen()
		chain.Send(t.Context(), signed) // a known one is sent again
		for range 70 {
			chain.Mine(1)
			seen()
		}
	}
	switch i := seen(); {
	case i.Final:
		return final
	case i.Receipt != nil:
		return waits
	}
	return "not included"
}

// signedQuote signs a payload with the fees of a quote.
func signedQuote(t *testing.T, key *ecdsa.PrivateKey, chainID txn.ChainID, payload txn.Payload,
	quote txn.Quote) txn.Signed {
	t.Helper()
	id := new(big.Int).SetUint64(uint64(chainID))
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, To: (*common.Address)(payload.To), Gas: quote.GasLimit,
		GasFeeCap: quote.Fees.Cap.ToBig(), GasTipCap: quote.Fees.Tip.ToBig(),
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return txn.Signed{Hash: txn.Hash(tx.Hash()), Raw: raw}
}

// TestProfiles_Conformance runs the suite of chains on a chain with the quirk of each profile, with
// the gas, margin and fee sources of the profile. The suite sends at its own prices, so minimum
// prices are left out: see TestProfiles_Quirks.
func TestProfiles_Conformance(t *testing.T) {
	t.Parallel()
	for name, q := range quirks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := profileConfig(t, q.profile)
			o := q.chain
			o.Fees, o.GasMargin = feeOptions(of), of.Gas.Margin
			o.Fees.MinTip, o.Fees.MinPrice = txn.Wei{}, txn.Wei{}
			o.MinTip, o.BaseFee = txn.Wei{}, txn.Wei{}
			o.L1Fee = txn.Wei{}
			conformance.Run(t, func(t *testing.T) *conformance.Harness {
				c := chaintest.New(o)
				c.Fund(chaintest.Address(0), *new(uint256.Int).Lsh(uint256.NewInt(1), 80))
				reverter := txn.Address{0x4e, 0x0e}
				c.Register(reverter, chaintest.Reverter("nope"))
				return &conformance.Harness{
					Chain: c, ChainID: c.ID(), Key: chaintest.Key(0), Manual: true,
					Reverter: &reverter, Quirks: conformance.Quirks{NoTags: o.NoTags},
					Mine: func() { c.Mine(1) },
					Reorg: func(depth int, keep bool) {
						disposition := chaintest.Drop
						if keep {
							disposition = chaintest.Keep
						}
						if err := c.Reorg(depth, disposition); err != nil {
							t.Fatal(err)
						}
					},
				}
			})
		})
	}
}

func profileConfig(t *testing.T, profile string) config.Chain {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fencepost.yaml")
	text := strings.Join([]string{
		"node: {name: a}",
		"database: {url: postgres://fencepost@127.0.0.1:5432/fencepost}",
		"chains: [{name: dev, chain_id: 31337, rpc: [http://127.0.0.1:8545], profile: " +
			profile + "}]",
	}, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Chains[0]
}
