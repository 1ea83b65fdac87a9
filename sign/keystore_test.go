package sign_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

const password = "correct horse"

func TestKeyStoreOpensWhatGethWrites(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	var want []txn.Address
	for range 3 {
		account, err := keystore.StoreKey(f.dir, password, keystore.LightScryptN, keystore.LightScryptP)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, account.Address)
	}
	slices.SortFunc(want, txn.Address.Cmp)
	k := f.open(t)
	got, err := k.Addresses(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("holds %v, %v; want %v", got, err, want)
	}
	book, err := sign.NewBook(sign.Entry{Name: "local", Holder: k})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range want {
		if _, err := book.Sign(t.Context(), "local", request(a)); err != nil {
			t.Error(err)
		}
	}
	if text := f.log.String(); strings.Contains(text, "WARN") {
		t.Errorf("warned of nothing: %s", text)
	}
}

func TestKeyStoreFollowsLinksAndSkipsWhatIsNoKey(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.password = filepath.Join(f.dir, "password")
	f.write(t, "password", []byte(password+"\r\n"))
	f.write(t, ".hidden", []byte("no key"))
	f.write(t, "edited~", []byte("no key"))
	if err := os.Mkdir(filepath.Join(f.dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := newFolder(t)
	made := elsewhere.add(t, testKey("linked"))
	if err := os.Symlink(made.Path, filepath.Join(f.dir, "linked")); err != nil {
		t.Fatal(err)
	}
	got, err := f.open(t).Addresses(t.Context())
	if err != nil || !slices.Equal(got, []txn.Address{made.Address}) {
		t.Errorf("holds %v, %v", got, err)
	}
}

func TestKeyStoreSaysWhatKeepsItShut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f *folder)
		want  []string
	}{
		"wrong password": {
			func(t *testing.T, f *folder) { f.writePassword(t, "wrong") },
			[]string{"key file", "UTC--", "the password does not fit", "password_file"},
		},
		"no password file": {
			func(t *testing.T, f *folder) { f.password = filepath.Join(f.dir, "..", "nowhere") },
			[]string{"nowhere does not exist", "write the password"},
		},
		"many passwords": {
			func(t *testing.T, f *folder) { f.writePassword(t, "one\ntwo\n") },
			[]string{"more than one line", "folder of their own"},
		},
		"huge password": {
			func(t *testing.T, f *folder) { f.writePassword(t, strings.Repeat("x", 5000)) },
			[]string{"more than 4096 bytes"},
		},
		"no folder": {
			func(t *testing.T, f *folder) { f.dir = filepath.Join(f.dir, "nowhere") },
			[]string{"nowhere does not exist", "fencepost key new"},
		},
		"cut short": {
			func(t *testing.T, f *folder) { f.write(t, "cut", f.content(t)[:200]) },
			[]string{"cut: it is not JSON", "restore"},
		},
		"something else": {
			func(t *testing.T, f *folder) { f.write(t, "README", []byte("{}")) },
			[]string{"README: it is not a key file of version 3", "move it"},
		},
		"huge": {
			func(t *testing.T, f *folder) { f.write(t, "huge", bytes.Repeat([]byte(" "), 1<<17)) },
			[]string{"huge: it has more than 65536 bytes"},
		},
		"old form": {
			func(t *testing.T, f *folder) { f.edit(t, func(m object) { m["version"] = "1" }) },
			[]string{"edited: it is not a key file of version 3"},
		},
		"address of another": {
			func(t *testing.T, f *folder) { f.edit(t, func(m object) { m["address"] = strings.Repeat("ab", 20) }) },
			[]string{"edited: it says that it holds the key of 0xABaB", "somebody changed it"},
		},
		"address damaged": {
			func(t *testing.T, f *folder) { f.edit(t, func(m object) { m["address"] = "0xabc" }) },
			[]string{"edited: its address is not 40 hex digits"},
		},
		"parameters damaged": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) { delete(m.at("crypto").at("kdfparams"), "salt") })
			},
			[]string{"edited: its encryption parameters are damaged"},
		},
		"vector damaged": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) { m.at("crypto").at("cipherparams")["iv"] = "00" })
			},
			[]string{"edited: its encryption parameters are damaged"},
		},
		"scrypt with too much memory": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) { m.at("crypto").at("kdfparams")["n"] = 1 << 24 })
			},
			[]string{"edited: its key derivation asks for more"},
		},
		"scrypt with too many rounds": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) { m.at("crypto").at("kdfparams")["p"] = 1 << 23 })
			},
			[]string{"edited: its key derivation asks for more"},
		},
		"pbkdf2 with too many rounds": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) { m.at("crypto")["kdf"] = "pbkdf2"; m.at("crypto").at("kdfparams")["c"] = 1 << 40 })
			},
			[]string{"edited: its key derivation asks for more"},
		},
		"another derivation": {
			func(t *testing.T, f *folder) { f.edit(t, func(m object) { m.at("crypto")["kdf"] = "argon2" }) },
			[]string{"edited: its key derivation is neither"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			f.add(t, testKey("good"))
			c.spoil(t, f)
			_, err := sign.OpenKeyStore(t.Context(), f.options())
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("got %v, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestKeyStoreStopsOpeningWhenToldTo(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.add(t, testKey("good"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sign.OpenKeyStore(ctx, f.options()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestKeyStoreWarnsOfReaders(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	made := f.add(t, testKey("good"))
	if err := os.Chmod(made.Path, 0o640); err != nil {
		t.Fatal(err)
	}
	k := f.open(t)
	warned := func(of sign.KeyFile) bool {
		text := f.log.String()
		return strings.Contains(text, "read by other users") && strings.Contains(text, "file="+of.Path+" files=1")
	}
	if !warned(made) {
		t.Errorf("logged %s", f.log.String())
	}
	late := f.add(t, testKey("late"))
	if err := os.Chmod(late.Path, 0o604); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sign(t.Context(), request(late.Address)); err != nil || !warned(late) {
		t.Errorf("%v; logged %s", err, f.log.String())
	}
}

// A look that was cut short opens no further file, and is no evidence for whoever waited for it.
func TestKeyStoreLookIsCutShort(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	k := f.open(t)
	f.add(t, testKey("a"))
	last := f.add(t, testKey("b"))
	ctx, cancel := context.WithCancel(t.Context())
	f.log.onWrite(cancel) // the first key that is added is logged
	if _, err := k.Sign(ctx, request(last.Address)); !errors.Is(err, txn.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("cut short: %v", err)
	}
	if n := strings.Count(f.log.String(), "key added"); n != 1 {
		t.Errorf("%d keys were added", n)
	}
	if _, err := k.Sign(t.Context(), request(last.Address)); err != nil {
		t.Errorf("next look: %v", err)
	}
}

func TestKeyStoreLookThatFailsIsNoEvidence(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		k := f.open(t)
		if _, err := k.Sign(t.Context(), request(txn.Address{1})); !errors.Is(err, txn.ErrKeyMissing) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := k.Sign(t.Context(), request(txn.Address{1})); !errors.Is(err, txn.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

func TestKeyStoreFindsKeysThatAreAddedLater(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	k := f.open(t)
	key := testKey("late")
	if _, err := k.Sign(t.Context(), request(address(key))); !errors.Is(err, txn.ErrKeyMissing) || !strings.Contains(err.Error(), "fencepost key import") {
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

// A file that cannot be opened leaves the others alone, and makes "no such key" doubtful for the accounts that it may be for.
func TestKeyStoreDoubtsWhileAFileIsBroken(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	known := f.add(t, testKey("known"))
	spare := newFolder(t)
	synctest.Test(t, func(t *testing.T) { doubt(t, f, spare, known.Address) }) // for its time: each look into the folder waits a second
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
	if n := strings.Count(f.log.String(), "a key file cannot be used"); n != 2 {
		t.Errorf("the log tells of %d broken files, want one line for each time that it changed: %s", n, f.log.String())
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

func TestKeyStoreLooksIntoTheFolderOnceASecond(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		k := f.open(t)
		begin := time.Now()
		for second := range 3 {
			var all sync.WaitGroup
			for i := range 50 { // all of them ask before the look begins, so one look answers all
				all.Go(func() {
					if _, err := k.Sign(t.Context(), request(txn.Address{byte(i + 1)})); !errors.Is(err, txn.ErrKeyMissing) {
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

func TestKeyStoreReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) {
		k := f.open(t)
		if _, err := k.Sign(t.Context(), request(txn.Address{1})); !errors.Is(err, txn.ErrKeyMissing) {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 2 { // one waits for its next look, one for its turn
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				begin := time.Now()
				_, err := k.Sign(ctx, request(txn.Address{1}))
				if !errors.Is(err, txn.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 100*time.Millisecond {
					t.Errorf("after %s: %v", time.Since(begin), err)
				}
			})
		}
		all.Wait()
	})
}

func TestKeyStoreServesManyAtOnce(t *testing.T) {
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

// folder is a key store folder with its password file beside it.
type folder struct {
	dir, password string
	log           *syncBuffer
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	base := t.TempDir()
	f := &folder{dir: filepath.Join(base, "keys"), password: filepath.Join(base, "password"), log: &syncBuffer{}}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.writePassword(t, password+"\n")
	return f
}

func (f *folder) options() sign.KeyStoreOptions {
	return sign.KeyStoreOptions{Dir: f.dir, PasswordFile: f.password, Clock: clock.Real{}, Log: slog.New(slog.NewTextHandler(f.log, nil))}
}

func (f *folder) open(t *testing.T) *sign.KeyStore {
	t.Helper()
	k, err := sign.OpenKeyStore(t.Context(), f.options())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// add puts a key into the folder, with an encryption that costs nothing.
func (f *folder) add(t *testing.T, key *ecdsa.PrivateKey) sign.KeyFile {
	t.Helper()
	a := address(key)
	content, err := keystore.EncryptKey(&keystore.Key{Id: uuid.New(), Address: a, PrivateKey: key}, password, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("UTC--%x", a[:])
	f.write(t, name, content)
	return sign.KeyFile{Path: filepath.Join(f.dir, name), Address: a}
}

// write puts a file into the folder in one step, as whoever adds keys should.
func (f *folder) write(t *testing.T, name string, content []byte) {
	t.Helper()
	temp := filepath.Join(f.dir, fmt.Sprintf(".%s.new", name))
	if err := errors.Join(os.WriteFile(temp, content, 0o600), os.Rename(temp, filepath.Join(f.dir, name))); err != nil {
		t.Fatal(err)
	}
}

func (f *folder) writePassword(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(f.password, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// content is that of the only key file.
func (f *folder) content(t *testing.T) []byte {
	t.Helper()
	files, err := sign.List(f.dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// edit replaces the only key file by one in which something was changed.
func (f *folder) edit(t *testing.T, change func(object)) {
	t.Helper()
	var m object
	if err := json.Unmarshal(f.content(t), &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	files, err := sign.List(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[0].Path); err != nil {
		t.Fatal(err)
	}
	f.write(t, "edited", m.bytes(t))
}

type object map[string]any

func (o object) at(name string) object { return o[name].(map[string]any) }

func (o object) bytes(t *testing.T) []byte {
	t.Helper()
	content, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

type syncBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	hook func()
}

func (s *syncBuffer) onWrite(hook func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook != nil {
		s.hook()
	}
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (f *folder) contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
