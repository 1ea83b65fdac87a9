package sign_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// slowHolder signs with a key in memory, each nonce after a time of its own.
type slowHolder struct {
	*sign.Memory
	delay func(txn.Nonce) time.Duration
	fail  map[txn.Nonce]error

	mu              sync.Mutex
	started, ended  []txn.Nonce
	pending, atMost int
}

func (h *slowHolder) Sign(ctx context.Context, u txn.Unsigned) ([]byte, error) {
	h.mu.Lock()
	h.started = append(h.started, u.Nonce)
	h.pending++
	h.atMost = max(h.atMost, h.pending)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pending--
	}()
	select {
	case <-time.After(h.delay(u.Nonce)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	h.ended = append(h.ended, u.Nonce)
	h.mu.Unlock()
	if err := h.fail[u.Nonce]; err != nil {
		return nil, err
	}
	return h.Memory.Sign(ctx, u)
}

// signRange requests the nonces from 0 on of a signer, and returns its results and their duration.
func signRange(t *testing.T, ctx context.Context, e sign.Entry,
	count int) ([]txn.SignResult, time.Duration) {
	t.Helper()
	e.Name = "slow"
	book, err := sign.NewBook(e)
	if err != nil {
		t.Fatal(err)
	}
	begin, all := time.Now(), make([]txn.Unsigned, count)
	for i := range all {
		all[i] = request(address(testKey("key")))
		all[i].Nonce = txn.Nonce(i)
	}
	results := book.SignInOrder(ctx, "slow", all)
	return results, time.Since(begin)
}

// checkSigned compares results with the signatures that single requests have.
func checkSigned(t *testing.T, results []txn.SignResult) {
	t.Helper()
	book, err := sign.NewBook(
		sign.Entry{Name: "fast", Holder: sign.NewMemory(testKey("key"))})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		u := request(address(testKey("key")))
		u.Nonce = txn.Nonce(i)
		want, err := book.Sign(t.Context(), "fast", u)
		if err != nil {
			t.Fatal(err)
		}
		if r.Err != nil || r.Signed.Hash != want.Hash || !slices.Equal(r.Signed.Raw, want.Raw) {
			t.Errorf("result %d: %v %v, want %v", i, r.Signed.Hash, r.Err, want.Hash)
		}
	}
}

func newSlowHolder(delay func(txn.Nonce) time.Duration) *slowHolder {
	return &slowHolder{Memory: sign.NewMemory(testKey("key")), delay: delay}
}

func always(d time.Duration) func(txn.Nonce) time.Duration {
	return func(txn.Nonce) time.Duration { return d }
}

func TestBook_SignInOrder_Limits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry  sign.Entry
		took   time.Duration
		atMost int
	}{
		"all at once": {sign.Entry{MaxInFlight: 32}, time.Second, 32},
		"by default":  {sign.Entry{}, time.Second, 32},
		"few at once": {sign.Entry{MaxInFlight: 4}, 8 * time.Second, 4},
		"one at once": {sign.Entry{MaxInFlight: 1, Timeout: 2 * time.Second}, 32 * time.Second, 1},
		// eight at once, and one each 125 ms
		"per second": {sign.Entry{PerSecond: 8, Timeout: 2 * time.Second}, 4 * time.Second, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newSlowHolder(always(time.Second))
				c.entry.Holder = h
				results, took := signRange(t, t.Context(), c.entry, 32)
				if len(results) != 32 || took != c.took || h.atMost > c.atMost {
					t.Errorf("%d results after %s, %d at once", len(results), took, h.atMost)
				}
				if c.entry.MaxInFlight == 1 && !slices.IsSorted(h.started) {
					t.Errorf("signed in the order %d", h.started)
				}
				checkSigned(t, results)
			})
		})
	}
}

// TestBook_SignInOrder_Failure_Ends: signatures behind a failure are neither awaited nor returned.
// All before it are, in order.
func TestBook_SignInOrder_Failure_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHolder(func(n txn.Nonce) time.Duration {
			switch {
			case n < 5:
				return time.Duration(10-n) * time.Second // the first one is the last
			case n == 5:
				return 3 * time.Second
			}
			return time.Hour
		})
		h.fail = map[txn.Nonce]error{5: errors.New("busy"), 7: errors.New("also")}
		results, took := signRange(t, t.Context(),
			sign.Entry{Holder: h, Timeout: time.Minute}, 32)
		if len(results) != 6 || took != 10*time.Second {
			t.Fatalf("%d results after %s", len(results), took)
		}
		if err := results[5].Err; !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("the failed one: %v", err)
		}
		checkSigned(t, results[:5])
	})
}

func TestBook_SignInOrder_FailsAtOnce_NoMoreRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHolder(always(time.Second))
		h.fail = map[txn.Nonce]error{0: txn.ErrKeyMissing}
		results, _ := signRange(t, t.Context(), sign.Entry{Holder: h, MaxInFlight: 2}, 32)
		if len(results) != 1 || !errors.Is(results[0].Err, txn.ErrKeyMissing) {
			t.Errorf("results: %v", results)
		}
		if n := len(h.started); n > 4 { // two more may start as the first ones end
			t.Errorf("%d requests were made", n)
		}
	})
}

// TestBook_SignInOrder_SlowOne_TimesOut: a signature that hangs costs its timeout, and those before
// it are not lost.
func TestBook_SignInOrder_SlowOne_TimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHolder(func(n txn.Nonce) time.Duration {
			if n == 9 {
				return time.Hour
			}
			return time.Second
		})
		results, took := signRange(t, t.Context(),
			sign.Entry{Holder: h, Timeout: 5 * time.Second}, 32)
		if len(results) != 10 || took != 5*time.Second ||
			!errors.Is(results[9].Err, txn.ErrUnavailable) {
			t.Fatalf("%d results after %s: %v", len(results), took, results[len(results)-1].Err)
		}
		checkSigned(t, results[:9])
	})
}

func TestBook_SignInOrder_Cancelled_AllEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHolder(always(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		results, took := signRange(t, ctx,
			sign.Entry{Holder: h, MaxInFlight: 4, Timeout: time.Minute}, 32)
		if took != 3*time.Second || len(results) != 1 ||
			!errors.Is(results[0].Err, txn.ErrUnavailable) {
			t.Errorf("%d results after %s", len(results), took)
		}
		if h.pending != 0 || len(h.ended) != 0 {
			t.Errorf("%d still pending, %d ended", h.pending, len(h.ended))
		}
	})
}
