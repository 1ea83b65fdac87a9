package sign

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
)

// Strength is the cost of guessing the password of a key file.
type Strength int

// The strengths, by geth's names. A node pays the cost once per key, at startup.
const (
	Standard Strength = iota // about a second of one core and 256 MiB
	Light                    // about a tenth of a second: for development only
)

func (s Strength) scrypt() (n, p int) {
	if s == Light {
		return keystore.LightScryptN, keystore.LightScryptP
	}
	return keystore.StandardScryptN, keystore.StandardScryptP
}

// NewKey creates a key and stores it encrypted in a file of the folder, which is created if needed.
// The time becomes part of the file name.
func NewKey(dir, password string, strength Strength, at time.Time) (KeyFile, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return KeyFile{}, fmt.Errorf("sign: create key: %w", err)
	}
	return ImportKey(dir, key, password, strength, at)
}

// ImportKey stores a key encrypted in a file of the folder, which is created if needed. The time
// becomes part of the file name. A key that the folder already has is rejected.
func ImportKey(dir string, key *ecdsa.PrivateKey, password string, strength Strength,
	at time.Time) (KeyFile, error) {
	k := &keystore.Key{
		Id:         uuid.New(),
		Address:    crypto.PubkeyToAddress(key.PublicKey),
		PrivateKey: key,
	}
	if password == "" {
		return KeyFile{}, errors.New("sign: the password must not be empty")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return KeyFile{}, fmt.Errorf("sign: create key store folder: %w", err)
	}
	files, err := List(dir)
	if err != nil {
		return KeyFile{}, err
	}
	for _, f := range files {
		if f.Address == k.Address {
			return KeyFile{}, fmt.Errorf("sign: the key of %s is already in this key store: %s",
				k.Address.Hex(), f.Path)
		}
	}
	n, p := strength.scrypt()
	content, err := keystore.EncryptKey(k, password, n, p)
	if err != nil {
		return KeyFile{}, fmt.Errorf("sign: encrypt key of %s: %w", k.Address.Hex(), err)
	}
	path := filepath.Join(dir,
		fmt.Sprintf("UTC--%s--%x", at.UTC().Format("2006-01-02T15-04-05.000000000Z"), k.Address[:]))
	if err := writeKeyFile(path, content, k, password); err != nil {
		return KeyFile{}, fmt.Errorf("sign: store key of %s: %w", k.Address.Hex(), err)
	}
	return KeyFile{Path: path, Address: k.Address}, nil
}

// writeKeyFile publishes a key file atomically, after it was read back from disk and decrypted: the
// next step may be to send money to this address.
func writeKeyFile(path string, content []byte, key *keystore.Key, password string) error {
	f, err := os.CreateTemp(filepath.Dir(path),
		".new-key-") // readable by this user only; hidden, so not a key file yet
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	content, _, err = readKeyFile(f.Name())
	if err != nil {
		return err
	}
	back, err := decrypt(content, key.Address, password)
	if err != nil || !back.PrivateKey.Equal(key.PrivateKey) {
		return errors.New("the written file does not contain the key; nothing was stored")
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names of a folder survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ParseHexKey parses a private key of 64 hex digits, with or without "0x", as exported by other
// tools. Errors do not quote it.
func ParseHexKey(text []byte) (*ecdsa.PrivateKey, error) {
	text = bytes.TrimSpace(text)
	if bytes.HasPrefix(text, []byte("{")) {
		return nil, errors.New(
			"sign: this is a key file; copy it into the key store folder instead")
	}
	text = bytes.TrimPrefix(text, []byte("0x"))
	raw := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(raw, text); err != nil || len(raw) != 32 {
		return nil, errors.New(
			"sign: a private key is 64 hex digits, optionally after \"0x\"")
	}
	key, err := crypto.ToECDSA(raw)
	if err != nil {
		return nil, errors.New(
			"sign: not a private key of secp256k1: zero or too large")
	}
	return key, nil
}
