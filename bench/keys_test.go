package main

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// A node opens the keys that were written, all of them and no others; nothing is left of them
// afterwards.
func TestKeyFiles(t *testing.T) {
	t.Parallel()
	const count = 20
	k, err := writeKeys(count, chaintest.Key)
	if err != nil {
		t.Fatal(err)
	}
	held, err := sign.OpenKeyStore(
		t.Context(),
		sign.KeyStoreOptions{
			Dir:          k.folder,
			PasswordFile: k.password,
			Clock:        clock.Real{},
			Log:          slog.New(slog.DiscardHandler),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]txn.Address, count)
	for i := range want {
		want[i] = chaintest.Address(i)
	}
	if !slices.Equal(k.accounts, want) {
		t.Errorf("accounts %v, want %v", k.accounts, want)
	}
	slices.SortFunc(want, txn.Address.Cmp)
	if got, err := held.Addresses(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("holds %v, %v, want %v", got, err, want)
	}
	if err := k.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(k.root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}
