package sign_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// TestKeyList_Changes_InForceOnceSettled: a changed list counts after a second read that is equal.
// Until then nothing is signed with a key that changes, and nothing is final.
func TestKeyList_Changes_InForceOnceSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "keys")
		one, two := address(testKey("one")), address(testKey("two"))
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("# keys\n" + one.Hex() + " first\n")
		list, err := sign.OpenKeyList(sign.KeyListOptions{File: file, IDs: true,
			Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(a txn.Address, id string, class error) {
			t.Helper()
			time.Sleep(time.Second)
			got, err := list.Find(t.Context(), a)
			if got != id || !errors.Is(err, class) {
				t.Errorf("%q, %v; want %q, %v", got, err, id, class)
			}
		}
		expect(one, "first", nil)
		expect(two, "", txn.ErrKeyMissing)
		write(one.Hex() + " second\n" + two.Hex() + " third\n") // rotated, added
		expect(one, "", txn.ErrUnavailable)
		expect(one, "second", nil)
		expect(two, "third", nil)
		write(two.Hex() + " third\n") // removed
		expect(one, "", txn.ErrUnavailable)
		expect(one, "", txn.ErrKeyMissing)
		for _, text := range []string{"", two.Hex(), "0x1234 third", one.Hex() + " a\n" +
			one.Hex() + " b"} { // unusable: the last one stays in force, and nothing is final
			write(text)
			expect(two, "third", nil)
			expect(one, "", txn.ErrUnavailable)
		}
	})
}
