package sign_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
)

// folder is a key store folder with its password file beside it.
type folder struct {
	dir, password string
	log           *syncBuffer
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	base := t.TempDir()
	f := &folder{
		dir:      filepath.Join(base, "keys"),
		password: filepath.Join(base, "password"),
		log:      &syncBuffer{},
	}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.writePassword(t, password+"\n")
	return f
}

func (f *folder) options() sign.KeyStoreOptions {
	return sign.KeyStoreOptions{
		Dir:          f.dir,
		PasswordFile: f.password,
		Clock:        clock.Real{},
		Log:          slog.New(slog.NewTextHandler(f.log, nil)),
	}
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
	content, err := keystore.EncryptKey(&keystore.Key{Id: uuid.New(), Address: a, PrivateKey: key},
		password, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("UTC--%x", a[:])
	f.write(t, name, content)
	return sign.KeyFile{Path: filepath.Join(f.dir, name), Address: a}
}

// write puts a file into the folder atomically, as operators should add keys.
func (f *folder) write(t *testing.T, name string, content []byte) {
	t.Helper()
	temp := filepath.Join(f.dir, fmt.Sprintf(".%s.new", name))
	if err := errors.Join(os.WriteFile(temp, content, 0o600),
		os.Rename(temp, filepath.Join(f.dir, name))); err != nil {
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
