package node

import (
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
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/txn"
)

// TestProfiles_Quirks sends a transaction to a chain with the quirk of a profile. With the profile
// it is included; with custom it is refused, before its nonce or by the pool.
func TestProfiles_Quirks(t *testing.T) {
	t.Parallel()
	gwei := func(n uint64) txn.Wei { return *uint256.NewInt(n * 1e9) }
	large := txn.Payload{To: &txn.Address{1}, GasLimit: 20_000_000}
	for name, c := range map[string]struct {
		profile string
		chain   chaintest.Options
		payload txn.Payload
	}{
		"minimum tip of Bor": {"polygon", chaintest.Options{MinTip: gwei(25), TerseFloor: true},
			txn.Payload{To: &txn.Address{1}}},
		"minimum price of the validators": {"bsc", chaintest.Options{
			BaseFee: *uint256.NewInt(1), MinTip: *uint256.NewInt(50_000_000), TerseFloor: true},
			txn.Payload{To: &txn.Address{1}}},
		"gas above EIP-7825, Nitro": {"arbitrum", chaintest.Options{GasLimit: 1 << 50,
			MaxTxGas: 32_000_000}, large},
		"gas above EIP-7825, Linea": {"linea", chaintest.Options{GasLimit: 2_000_000_000,
			MaxTxGas: 30_000_000}, large},
		"gas above EIP-7825, ZK Stack": {"zksync", chaintest.Options{GasLimit: 1 << 32,
			MaxTxGas: 80_000_000}, large},
		"gas above EIP-7825, Monad": {"monad", chaintest.Options{GasLimit: 150_000_000,
			MaxTxGas: 30_000_000, BaseFee: gwei(100), StrictFeeCap: true}, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !includes(t, c.profile, c.chain, c.payload) {
				t.Errorf("a transaction is not included with the profile %s", c.profile)
			}
			if includes(t, "custom", c.chain, c.payload) {
				t.Error("a transaction is included without the profile: the test shows nothing")
			}
		})
	}
}

// includes reports whether the first attempt of a payload is included.
func includes(t *testing.T, profile string, o chaintest.Options, payload txn.Payload) bool {
	t.Helper()
	of := profileConfig(t, profile)
	o.Fees, o.GasMargin = feeOptions(of), of.Gas.Margin
	chain := chaintest.New(o)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	from := txn.Address(crypto.PubkeyToAddress(key.PublicKey))
	chain.Fund(from, *uint256.MustFromDecimal("1000000000000000000000"))
	quote, out := chain.Quote(t.Context(), txn.Draft{From: from, Payload: payload})
	if out.Class != txn.Accepted {
		return false
	}
	id := new(big.Int).SetUint64(uint64(chain.ID()))
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
	hash := txn.Hash(tx.Hash())
	if chain.Send(t.Context(), txn.Signed{Hash: hash, Raw: raw}).Class != txn.Accepted {
		return false
	}
	chain.Mine(1)
	receipt := chain.Receipts(t.Context(), []txn.Hash{hash})[0]
	return receipt.Err == nil && receipt.Receipt != nil
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
