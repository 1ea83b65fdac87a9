package sign_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/sign"
)

func TestNewKey_GethFormat(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	made, err := sign.NewKey(dir, password, sign.Light, at)
	if err != nil {
		t.Fatal(err)
	}
	want := "UTC--2026-03-04T04-06-07.000000008Z--" + strings.ToLower(made.Address.Hex()[2:])
	if filepath.Base(made.Path) != want {
		t.Errorf("file is %s, want %s", made.Path, want)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, made.Path: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	content, err := os.ReadFile(made.Path)
	if err != nil {
		t.Fatal(err)
	}
	var m object
	if err := json.Unmarshal(content, &m); err != nil ||
		m.at("crypto").at("kdfparams")["n"] != float64(keystore.LightScryptN) {
		t.Errorf("not of the strength that was asked for: %v, %v", m, err)
	}
	key, err := keystore.DecryptKey(content, password)
	if err != nil || key.Address != made.Address {
		t.Errorf("geth's decoder gives %v, %v", key, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

func TestImportKey_Rejected(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	key := testKey("once")
	made := f.add(t, key)
	if _, err := sign.ImportKey(f.dir, key, password, sign.Light, time.Now()); err == nil ||
		!strings.Contains(err.Error(), made.Path) {
		t.Errorf("a key that is there already: %v", err)
	}
	if _, err := sign.ImportKey(f.dir, testKey("other"), "", sign.Light, time.Now()); err == nil ||
		!strings.Contains(err.Error(), "must not be empty") {
		t.Errorf("no password: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sign.ImportKey(file, testKey("other"), password, sign.Light, time.Now())
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a folder that is a file: %v", err)
	}
}

func TestList_NoPassword(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	made := f.add(t, testKey("good"))
	f.write(t, "Zbroken", []byte("no key"))
	f.write(t, "Znameless", func() []byte {
		var m object
		if err := json.Unmarshal(f.contentOf(t, made.Path), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "address")
		return m.bytes(t)
	}())
	files, err := sign.List(f.dir)
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	if files[0].Address != made.Address || files[0].Broken != nil {
		t.Errorf("the good one is %v", files[0])
	}
	if files[1].Broken == nil {
		t.Errorf("the broken one is %v", files[1])
	}
	if files[2].Broken != nil || files[2].Address != (sign.KeyFile{}).Address {
		t.Errorf("the one without an address is %v", files[2])
	}
	addresses, err := func() (int, error) {
		if err := os.Remove(files[1].Path); err != nil {
			return 0, err
		}
		all, err := f.open(t).Addresses(t.Context())
		return len(all), err
	}()
	if err != nil || addresses != 1 {
		t.Errorf("opened, they hold %d accounts, %v", addresses, err)
	}
}

func TestParseHexKey(t *testing.T) {
	t.Parallel()
	key := testKey("some")
	digits := hex.EncodeToString(crypto.FromECDSA(key))
	for _, text := range []string{digits, "0x" + digits, " " + strings.ToUpper(digits) + "\r\n"} {
		if got, err := sign.ParseHexKey([]byte(text)); err != nil || !got.Equal(key) {
			t.Errorf("a good key was not read: %v", err)
		}
	}
	for text, want := range map[string]string{
		"":                         "64 hex digits",
		digits[1:]:                 "64 hex digits",
		digits + "00":              "64 hex digits",
		"zz" + digits[2:]:          "64 hex digits",
		strings.Repeat("0", 64):    "zero or too large",
		strings.Repeat("f", 64):    "zero or too large",
		`{"address":"", "version"`: "copy it into the key store folder",
	} {
		_, err := sign.ParseHexKey([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		} else if strings.Contains(err.Error(), digits[2:]) {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
}
