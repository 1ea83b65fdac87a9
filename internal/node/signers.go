package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/ethrpc"
	"github.com/fencepost/fencepost/sign/service"
	"github.com/fencepost/fencepost/txn"
)

func openSigners(ctx context.Context, cfg *config.Config, log *slog.Logger,
	more ...sign.Entry) (*sign.Book, error) {
	entries := make([]sign.Entry, 0, len(cfg.Signers))
	for _, s := range cfg.Signers {
		holder, err := openHolder(ctx, s, log)
		if err != nil {
			return nil, fmt.Errorf("signer %q: %w", s.Name, err)
		}
		entries = append(entries, entry(s, holder))
	}
	return sign.NewBook(append(entries, more...)...)
}

func entry(s config.Signer, h sign.Holder) sign.Entry {
	return sign.Entry{
		Name:        s.Name,
		Holder:      h,
		Timeout:     s.Timeout,
		MaxInFlight: s.MaxInFlight,
		PerSecond:   s.PerSecond,
	}
}

// openHolder opens the holder of a signer. A remote one need not be available.
func openHolder(ctx context.Context, s config.Signer, log *slog.Logger) (sign.Holder, error) {
	if s.KeyStore != nil {
		return openKeys(ctx, s, log)
	}
	keys, err := sign.OpenKeyList(sign.KeyListOptions{
		File:  s.KeysFile,
		IDs:   s.Service == nil && s.Web3Signer == nil && s.Clef == nil,
		Clock: clock.Real{},
		Log:   log.With("signer", s.Name),
	})
	if err != nil {
		return nil, err
	}
	switch {
	case s.Service != nil:
		return service.Open(endpointOf(s.Service), keys)
	case s.Web3Signer != nil:
		return ethrpc.Open(endpointOf(s.Web3Signer), ethrpc.Web3Signer, keys)
	case s.Clef != nil:
		return ethrpc.Open(endpointOf(s.Clef), ethrpc.Clef, keys)
	}
	return openDigests(ctx, s, keys)
}

func endpointOf(r *config.RemoteSigner) endpoint.Endpoint {
	return endpoint.Endpoint{
		URL:       r.URL,
		CAFile:    r.CAFile,
		CertFile:  r.CertFile,
		KeyFile:   r.KeyFile,
		TokenFile: r.TokenFile,
	}
}

func openKeys(ctx context.Context, s config.Signer, log *slog.Logger) (*sign.KeyStore, error) {
	return sign.OpenKeyStore(ctx, sign.KeyStoreOptions{
		Dir:          s.KeyStore.Dir,
		PasswordFile: s.KeyStore.PasswordFile,
		Clock:        clock.Real{},
		Log:          log,
	})
}

// startCheck bounds the check of signers at the start: a slow one must not delay other accounts.
const startCheck = 30 * time.Second

// checkSigners rejects keys that are missing or have another address. An unavailable or faulty
// signer is logged only: its keys are checked before their first signature.
func checkSigners(ctx context.Context, book *sign.Book, log *slog.Logger) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startCheck,
		fmt.Errorf("its keys could not be checked within %s", startCheck))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range book.Names() {
		group.Go(func() error {
			err := book.Check(ctx, name)
			if errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrSignerFault) {
				log.Warn("signer unavailable; its accounts wait", "signer", name, "error", err)
				return nil
			}
			return err
		})
	}
	return group.Wait()
}
