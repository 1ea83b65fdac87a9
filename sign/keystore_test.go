package sign_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

const password = "correct horse"

func TestKeyStore_GethFiles(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	var want []txn.Address
	for range 3 {
		account, err := keystore.StoreKey(f.dir, password, keystore.LightScryptN,
			keystore.LightScryptP)
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

func TestKeyStore_LinksAndOtherFiles(t *testing.T) {
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

func TestKeyStore_OpenErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f *folder)
		want  []string
	}{
		"wrong password": {
			func(t *testing.T, f *folder) { f.writePassword(t, "wrong") },
			[]string{"key file", "UTC--", "wrong password", "password_file"},
		},
		"no password file": {
			func(t *testing.T, f *folder) { f.password = filepath.Join(f.dir, "..", "nowhere") },
			[]string{"nowhere does not exist", "readable by this user only"},
		},
		"many passwords": {
			func(t *testing.T, f *folder) { f.writePassword(t, "one\ntwo\n") },
			[]string{"more than one line", "separate folder"},
		},
		"huge password": {
			func(t *testing.T, f *folder) { f.writePassword(t, strings.Repeat("x", 5000)) },
			[]string{"4096 bytes"},
		},
		"no folder": {
			func(t *testing.T, f *folder) { f.dir = filepath.Join(f.dir, "nowhere") },
			[]string{"nowhere does not exist", "fencepost key new"},
		},
		"cut short": {
			func(t *testing.T, f *folder) { f.write(t, "cut", f.content(t)[:200]) },
			[]string{"cut: not JSON", "restore"},
		},
		"something else": {
			func(t *testing.T, f *folder) { f.write(t, "README", []byte("{}")) },
			[]string{"README: not a version 3 key file", "move it"},
		},
		"huge": {
			func(t *testing.T, f *folder) { f.write(t, "huge", bytes.Repeat([]byte(" "), 1<<17)) },
			[]string{"huge:", "65536 bytes"},
		},
		"old form": {
			func(t *testing.T, f *folder) { f.edit(t, func(m object) { m["version"] = "1" }) },
			[]string{"edited: not a version 3 key file"},
		},
		"address of another": {
			func(t *testing.T,
				f *folder) {
				f.edit(t,
					func(m object) { m["address"] = strings.Repeat("ab", 20) })
			},
			[]string{"edited: it names the key of 0xABaB", "changed"},
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
			[]string{"edited: its key derivation needs more"},
		},
		"scrypt with too many rounds": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) { m.at("crypto").at("kdfparams")["p"] = 1 << 23 })
			},
			[]string{"edited: its key derivation needs more"},
		},
		"pbkdf2 with too many rounds": {
			func(t *testing.T, f *folder) {
				f.edit(t, func(m object) {
					m.at("crypto")["kdf"] = "pbkdf2"
					m.at("crypto").at("kdfparams")["c"] = 1 << 40
				})
			},
			[]string{"edited: its key derivation needs more"},
		},
		"another derivation": {
			func(t *testing.T,
				f *folder) {
				f.edit(t, func(m object) { m.at("crypto")["kdf"] = "argon2" })
			},
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
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

func TestKeyStore_Open_ContextCancelled(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.add(t, testKey("good"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sign.OpenKeyStore(ctx, f.options()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestKeyStore_ReadableFile_Warns(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	made := f.add(t, testKey("good"))
	if err := os.Chmod(made.Path, 0o640); err != nil {
		t.Fatal(err)
	}
	k := f.open(t)
	warned := func(of sign.KeyFile) bool {
		text := f.log.String()
		return strings.Contains(text, "readable by other users") &&
			strings.Contains(text, "file="+of.Path+" files=1")
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
