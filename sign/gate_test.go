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

// TestBook_SlowSigner_OthersProceed: a signer that hangs takes its own slots only, and those who
// wait for one return in time.
func TestBook_SlowSigner_OthersProceed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := testKey("key")
		hangs := holder{sign: func(ctx context.Context, _ txn.Unsigned) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		book, err := sign.NewBook(
			sign.Entry{Name: "slow", Holder: hangs, Timeout: time.Second, MaxInFlight: 2},
			sign.Entry{Name: "fast", Holder: sign.NewMemory(key)},
		)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		failed := make(chan error)
		for range 5 {
			go func() {
				_, err := book.Sign(t.Context(), "slow", request(address(key)))
				failed <- err
			}()
		}
		synctest.Wait()
		if _, err := book.Sign(t.Context(), "fast", request(address(key))); err != nil ||
			time.Since(begin) > 0 {
			t.Errorf("the other signer: %v after %s", err, time.Since(begin))
		}
		for range 5 {
			if err := <-failed; !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("the slow signer: %v", err)
			}
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the slow signer took %s, above its timeout", took)
		}
	})
}

func TestBook_PerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := testKey("key")
		book, err := sign.NewBook(sign.Entry{Name: "paid", Holder: sign.NewMemory(key),
			PerSecond: 2, Timeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 6 { // two at once, then one each half second
			if _, err := book.Sign(t.Context(), "paid", request(address(key))); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("6 signatures took %s", took)
		}
	})
}
