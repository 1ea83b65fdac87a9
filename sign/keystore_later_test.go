package sign_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// A cancelled scan opens no further file, and does not count as a scan for other waiters.
func TestKeyStore_Rescan_Cancelled(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	k := f.open(t)
	f.add(t, testKey("a"))
	last := f.add(t, testKey("b"))
	ctx, cancel := context.WithCancel(t.Context())
	f.log.onWrite(cancel) // the first key that is added is logged
	if _, err := k.Sign(ctx, request(last.Address)); !errors.Is(err, txn.ErrUnavailable) ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("cut short: %v", err)
	}
	if n := strings.Count(f.log.String(), "key added"); n != 1 {
		t.Errorf("%d keys were added", n)
	}
	if _, err := k.Sign(t.Context(), request(last.Address)); err != nil {
		t.Errorf("next look: %v", err)
	}
}

func TestKeyStore_RescanFails_KeyNotMissing(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		k := f.open(t)
		if _, err := k.Sign(t.Context(), request(txn.Address{1})); !errors.Is(err,
			txn.ErrKeyMissing) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := k.Sign(t.Context(), request(txn.Address{1})); !errors.Is(err,
					txn.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

func TestKeyStore_KeyAddedLater_Found(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	k := f.open(t)
	key := testKey("late")
	if _, err := k.Sign(t.Context(), request(address(key))); !errors.Is(err, txn.ErrKeyMissing) ||
		!strings.Contains(err.Error(), "fencepost key import") {
		t.Fatalf("before: %v", err)
	}
	f.add(t, key)
	if _, err := k.Sign(t.Context(), request(address(key))); err != nil {
		t.Fatalf("after: %v", err)
	}
	if text := f.log.String(); !strings.Contains(text, "key added") {
		t.Errorf("logged %s", text)
	}
}

// A file that cannot be opened leaves the others alone, and makes "no such key" doubtful for the
// accounts that it may be for.
func TestKeyStore_BrokenFile_KeyNotMissing(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	known := f.add(t, testKey("known"))
	spare := newFolder(t)
	synctest.Test(t,
		// for its time: each look into the folder waits a second
		func(t *testing.T) { doubt(t, f, spare, known.Address) })
}

func doubt(t *testing.T, f, spare *folder, known txn.Address) {
	k := f.open(t)
	late, other := testKey("late"), testKey("other")
	whole, err := os.ReadFile(spare.add(t, late).Path)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(a txn.Address) error { _, err := k.Sign(t.Context(), request(a)); return err }

	f.write(t, "late", whole[:100])
	if err := ask(address(late)); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("half a file: %v", err)
	}
	var m object
	if err := json.Unmarshal(whole, &m); err != nil {
		t.Fatal(err)
	}
	delete(m.at("crypto").at("kdfparams"), "salt")
	f.write(t, "late", m.bytes(t))
	if err := ask(address(late)); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("damaged file: %v", err)
	}
	if err := ask(address(other)); !errors.Is(err, txn.ErrKeyMissing) {
		t.Errorf("account of no file: %v", err)
	}
	if err := ask(known); err != nil {
		t.Errorf("account of a good file: %v", err)
	}
	if n := strings.Count(f.log.String(), "key file unusable"); n != 2 {
		t.Errorf(
			"%d log lines about broken files, want one per change: %s", n,
			f.log.String())
	}
	f.write(t, "late", whole)
	if err := ask(address(late)); err != nil {
		t.Errorf("mended file: %v", err)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	if err := ask(address(other)); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("folder gone: %v", err)
	}
}

func TestKeyStore_RescansOncePerSecond(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		k := f.open(t)
		begin := time.Now()
		for second := range 3 {
			var all sync.WaitGroup
			for i := range 50 { // all of them ask before the look begins, so one look answers all
				all.Go(func() {
					if _, err := k.Sign(t.Context(), request(txn.Address{byte(i + 1)})); !errors.Is(
						err, txn.ErrKeyMissing) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if second > 0 && time.Since(begin) < time.Duration(second)*time.Second {
				t.Errorf("look %d came after %s", second+1, time.Since(begin))
			}
		}
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("150 questions took %s, so they did not share looks", took)
		}
	})
}

func TestKeyStore_ContextCancelled_Returns(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		k := f.open(t)
		if _, err := k.Sign(t.Context(), request(txn.Address{1})); !errors.Is(err,
			txn.ErrKeyMissing) {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 2 { // one waits for its next look, one for its turn
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				begin := time.Now()
				_, err := k.Sign(ctx, request(txn.Address{1}))
				if !errors.Is(err, txn.ErrUnavailable) ||
					!errors.Is(err, context.DeadlineExceeded) ||
					time.Since(begin) != 100*time.Millisecond {
					t.Errorf("after %s: %v", time.Since(begin), err)
				}
			})
		}
		all.Wait()
	})
}

func TestKeyStore_Concurrent(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	first := f.add(t, testKey("first"))
	k := f.open(t)
	late := testKey("late")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if _, err := k.Sign(t.Context(), request(first.Address)); err != nil {
					t.Error(err)
				}
			}
			for err := errors.New("not yet"); err != nil && t.Context().Err() == nil; {
				_, err = k.Sign(t.Context(), request(address(late)))
			}
		})
	}
	f.add(t, late)
	all.Wait()
}
