package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/store"
)

// openAgreeing opens a chain and a ledger that match. A ledger with final blocks that the chain
// lacks (its folder was removed, or its last blocks were lost) would wait for them forever: then
// both are reset, with a message.
func openAgreeing(ctx context.Context, o options, dir string, postgres *pgembed.Server,
	log *slog.Logger) (*devchain.Chain, error) {
	url := postgres.URL(database)
	if _, err := store.Migrate(ctx, url, schema); err != nil {
		return nil, err
	}
	chain, err := openChain(o, dir, log)
	if err != nil {
		return nil, err
	}
	missing, err := missingBlock(ctx, url, chain)
	if err != nil {
		return nil, errors.Join(err, chain.Close())
	}
	if missing == 0 {
		return chain, nil
	}
	fmt.Printf(
		"Block %d is final in the ledger but missing from the chain: resetting chain and ledger.\n",
		missing)
	if err := chain.Close(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(dir, "chain")); err != nil {
		return nil, err
	}
	if err := emptyLedger(ctx, url); err != nil {
		return nil, err
	}
	return openChain(o, dir, log)
}

// openChain starts the chain. The log of go-ethereum is for --verbose: it warns of intended
// settings.
func openChain(o options, dir string, log *slog.Logger) (*devchain.Chain, error) {
	if !o.verbose {
		log = slog.New(slog.DiscardHandler)
	}
	return devchain.Start(devchain.Options{
		Period: o.period, Port: o.rpcPort, Accounts: len(accounts),
		DataDir: filepath.Join(dir, "chain"), DevRPC: true, Log: log.With("part", "chain"),
	})
}

func emptyLedger(ctx context.Context, url string) error {
	err := onDatabase(ctx, url, func(db *pgx.Conn) error {
		_, err := db.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
		return err
	})
	if err != nil {
		return err
	}
	_, err = store.Migrate(ctx, url, schema)
	return err
}

// missingBlock is the newest final block of the ledger if the chain lacks it, else 0. Lost blocks
// that were not final are a reorg, which the engine handles.
func missingBlock(ctx context.Context, url string, chain *devchain.Chain) (int64, error) {
	var number int64
	var hash []byte
	err := onDatabase(ctx, url, func(db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT receipt_block, receipt_block_hash FROM "+schema+
			".managed_tx WHERE terminal_at IS NOT NULL AND receipt_block IS NOT NULL"+
			" ORDER BY receipt_block DESC LIMIT 1").Scan(&number, &hash)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	client := chain.Client()
	defer client.Close()
	header, err := client.HeaderByNumber(ctx, big.NewInt(number))
	switch {
	case errors.Is(err, ethereum.NotFound):
		return number, nil
	case err != nil:
		return 0, fmt.Errorf("compare chain and ledger: %w", err)
	case header.Hash() != common.BytesToHash(hash):
		return number, nil
	}
	return 0, nil
}

func onDatabase(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	return errors.Join(fn(db), db.Close(context.WithoutCancel(ctx)))
}
