package devchain

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// walletAPI adds methods of a wallet with the funded Keys to the eth namespace.
type walletAPI struct{ chain *Chain }

// Accounts is eth_accounts.
func (a *walletAPI) Accounts() (all []common.Address) {
	for i := range a.chain.opts.Accounts {
		all = append(all, Address(i))
	}
	return all
}

// SendTransaction is eth_sendTransaction(transaction): it fills in missing fields, signs the
// transaction with the key of its sender, and adds it to the pool.
func (a *walletAPI) SendTransaction(ctx context.Context, fields json.RawMessage) (common.Hash,
	error) {
	var sender struct{ From common.Address }
	if err := json.Unmarshal(fields, &sender); err != nil {
		return common.Hash{}, err
	}
	key, err := a.key(sender.From)
	if err != nil {
		return common.Hash{}, err
	}
	client := a.chain.Client()
	defer client.Close()
	var filled struct{ Raw hexutil.Bytes }
	if err := client.Client().CallContext(ctx, &filled, "eth_fillTransaction", fields); err != nil {
		return common.Hash{}, err
	}
	var tx types.Transaction
	if err := tx.UnmarshalBinary(filled.Raw); err != nil {
		return common.Hash{}, err
	}
	id := new(big.Int).SetUint64(a.chain.ID())
	signed, err := types.SignTx(&tx, types.LatestSignerForChainID(id), key)
	if err != nil {
		return common.Hash{}, err
	}
	return signed.Hash(), client.SendTransaction(ctx, signed)
}

func (a *walletAPI) key(of common.Address) (*ecdsa.PrivateKey, error) {
	for i, account := range a.Accounts() {
		if account == of {
			return Key(i), nil
		}
	}
	return nil, fmt.Errorf("no development key for %s", of.Hex())
}
