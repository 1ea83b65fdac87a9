package sign_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// slowChecker has many keys, each of which takes a while to check. One of them may be wrong.
type slowChecker struct {
	holder
	keys  int
	takes time.Duration
	wrong int // place of the wrong key; 0: none
}

func (c slowChecker) Addresses(context.Context) ([]txn.Address, error) {
	all := make([]txn.Address, c.keys)
	for i := range all {
		all[i] = txn.Address{byte(i / 256), byte(i % 256)}
	}
	return all, nil
}

func (c slowChecker) Check(ctx context.Context, a txn.Address) error {
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if place := int(a[0])*256 + int(a[1]); c.wrong > 0 && place == c.wrong {
		return sign.ErrWrongKey
	}
	return nil
}

// The timeout is one of a signature, however many keys the signer has.
func TestBook_Check_ManyKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		checker slowChecker
		want    error
	}{
		"all right": {slowChecker{keys: 500, takes: 300 * time.Millisecond}, nil},
		"last one wrong": {slowChecker{keys: 500, takes: 300 * time.Millisecond, wrong: 499},
			sign.ErrWrongKey},
		"each too slow": {slowChecker{keys: 500, takes: 3 * time.Second}, txn.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				book, err := sign.NewBook(sign.Entry{Name: "it", Holder: c.checker,
					Timeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if err := book.Check(t.Context(), "it"); !errors.Is(err, c.want) {
					t.Errorf("check: %v, want %v", err, c.want)
				}
			})
		})
	}
}
