package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/sign/signtest/peers"
)

// keySigner holds the keys of the accounts.
type keySigner struct {
	section string           // of the configuration
	holders []common.Address // of the accounts
	stop    func()
}

// kmsRegion is the region that local-kms has by default.
const kmsRegion = "eu-west-2"

// startSigner starts a signer with the keys of the accounts. Key files hold the public development
// keys, as do clef and SoftHSM; local-kms creates keys of its own.
func startSigner(ctx context.Context, name, dir string) (*keySigner, error) {
	s := &keySigner{stop: func() {}}
	var keys []*ecdsa.PrivateKey
	for i := range accounts {
		keys = append(keys, devchain.Key(i))
		s.holders = append(s.holders, devchain.Address(i))
	}
	folder := filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	var ids []string
	switch name {
	case "keystore":
		s.section = fmt.Sprintf("keystore: {dir: %q, password_file: %q}",
			filepath.Join(dir, "keys"), filepath.Join(dir, "password"))
		return s, writeKeys(dir)
	case "clef":
		p, err := peers.Clef(ctx, folder, chainID, keys...)
		if err != nil {
			return nil, err
		}
		s.stop = p.Stop
		s.section = fmt.Sprintf("clef: {url: %q}", p.URL)
	case "softhsm":
		token, err := peers.SoftHSM(folder, keys...)
		if err != nil {
			return nil, err
		}
		s.section = fmt.Sprintf("pkcs11: {module: %q, token: %q, pin_file: %q}", token.Module,
			token.Label, token.PINFile)
		for i := range keys {
			ids = append(ids, peers.KeyLabel(i))
		}
	case "local-kms":
		p, made, err := peers.LocalKMS(ctx, folder, len(accounts))
		if err != nil {
			return nil, err
		}
		s.stop = p.Stop
		s.section = fmt.Sprintf("aws_kms: {region: %s, endpoint: %q}", kmsRegion, p.URL)
		for i, key := range made {
			ids = append(ids, key.ID)
			s.holders[i] = key.Address
		}
		if err := testCredentials(); err != nil {
			return nil, errors.Join(err, stopped(s))
		}
	default:
		return nil, fmt.Errorf("unknown signer %q", name)
	}
	list := filepath.Join(dir, "keys.list")
	s.section += fmt.Sprintf(", keys_file: %q", list)
	return s, writeList(list, s.holders, ids)
}

func stopped(s *keySigner) error {
	s.stop()
	return nil
}

// testCredentials sets credentials, which local-kms does not check.
func testCredentials() error {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if err := os.Setenv(name, "test"); err != nil {
			return err
		}
	}
	return nil
}

func writeList(file string, holders []common.Address, ids []string) error {
	var lines strings.Builder
	for i, a := range holders {
		lines.WriteString(a.Hex())
		if len(ids) > 0 {
			lines.WriteString(" " + ids[i])
		}
		lines.WriteString("\n")
	}
	return os.WriteFile(file, []byte(lines.String()), 0o600)
}

// fund sends ether to accounts that have none, from those that the chain funds.
func fund(ctx context.Context, chain *devchain.Chain, holders []common.Address) error {
	client := chain.Client()
	defer client.Close()
	for i, a := range holders {
		if a == devchain.Address(i) {
			continue
		}
		if err := fundOne(ctx, client, i, a); err != nil {
			return fmt.Errorf("fund %s: %w", accounts[i], err)
		}
	}
	return nil
}

func fundOne(ctx context.Context, client *ethclient.Client, i int, a common.Address) error {
	balance, err := client.BalanceAt(ctx, a, nil)
	if err != nil || balance.Sign() > 0 {
		return err
	}
	nonce, err := client.NonceAt(ctx, devchain.Address(i), nil)
	if err != nil {
		return err
	}
	const gwei, ether = 1_000_000_000, 1_000_000_000_000_000_000
	id := new(big.Int).SetUint64(chainID)
	tx, err := types.SignNewTx(devchain.Key(i), types.LatestSignerForChainID(id),
		&types.DynamicFeeTx{
			ChainID: id, Nonce: nonce, GasTipCap: big.NewInt(gwei),
			GasFeeCap: big.NewInt(100 * gwei), Gas: 21_000, To: &a,
			Value: new(big.Int).Mul(big.NewInt(9_000), big.NewInt(ether)),
		})
	if err != nil {
		return err
	}
	if err := client.SendTransaction(ctx, tx); err != nil {
		return err
	}
	for {
		if balance, err := client.BalanceAt(ctx, a, nil); err != nil || balance.Sign() > 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// signerDir is the data folder of a signer that has accounts of its own in the ledger.
func signerDir(dir, signer string, given bool) string {
	if given || signer == "keystore" {
		return dir
	}
	return dir + "-" + signer
}
