package sign_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TestKeyStore_RemovedFile_NotUsed: the key of a removed file signs for at most a second more. It
// is unavailable at first, because the file may be on its way back, and then missing.
func TestKeyStore_RemovedFile_NotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFolder(t)
		key, other := testKey("key"), testKey("other")
		file := f.add(t, key)
		f.add(t, other)
		k := f.open(t)
		expect := func(class error) {
			t.Helper()
			time.Sleep(time.Second)
			if _, err := k.Sign(t.Context(), request(address(key))); !errors.Is(err, class) {
				t.Errorf("got %v, want %v", err, class)
			}
			if _, err := k.Sign(t.Context(), request(address(other))); err != nil {
				t.Errorf("the other key: %v", err)
			}
		}
		expect(nil)
		content := f.contentOf(t, file.Path)
		if err := os.Remove(file.Path); err != nil {
			t.Fatal(err)
		}
		expect(txn.ErrUnavailable)
		f.write(t, "back", content)
		expect(nil)
		if err := os.Remove(f.dir + "/back"); err != nil {
			t.Fatal(err)
		}
		expect(txn.ErrUnavailable)
		time.Sleep(5 * time.Second)
		expect(txn.ErrKeyMissing)
		if !strings.Contains(f.log.String(), "key removed") {
			t.Errorf("the log is %s", f.log)
		}
	})
}

// TestKeyStore_ReplacedFile_NewKeyOnly: a file that now has another key signs for that one only.
func TestKeyStore_ReplacedFile_NewKeyOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, g := newFolder(t), newFolder(t)
		old, next := testKey("key"), testKey("other")
		file := f.add(t, old)
		k := f.open(t)
		f.write(t, file.Path[strings.LastIndex(file.Path, "/")+1:],
			g.contentOf(t, g.add(t, next).Path))
		// The clock of a file system may stand still between two writes.
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(file.Path, later, later); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := k.Sign(t.Context(), request(address(old))); !errors.Is(err,
			txn.ErrUnavailable) {
			t.Errorf("the old key: %v", err)
		}
		if _, err := k.Sign(t.Context(), request(address(next))); err != nil {
			t.Errorf("the new key: %v", err)
		}
	})
}

// TestKeyStore_TwoFiles_OneRemoved: the other file of the account is used.
func TestKeyStore_TwoFiles_OneRemoved(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"first": true, "second": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFolder(t)
				key := testKey("key")
				path := f.add(t, key).Path
				f.write(t, "copy", f.contentOf(t, path))
				k := f.open(t)
				if !first {
					path = f.dir + "/copy"
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if _, err := k.Sign(t.Context(), request(address(key))); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestKeyStore_Close_NoKey: nothing is signed with wiped memory.
func TestKeyStore_Close_NoKey(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.add(t, testKey("key"))
	k := f.open(t)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := k.Addresses(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("after Close: %v, %v", all, err)
	}
}
