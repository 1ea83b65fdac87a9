package main

import (
	"crypto/ecdsa"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/txn"
)

const (
	// signer is the name of the signer.
	signer = "keys"
	// weakN and weakP make scrypt quick: a strong file takes a second of a core, there are
	// thousands, and their keys are no secret.
	weakN, weakP = 2, 1
)

// keyFiles are the keys of a service as a node reads them, in folders of their own.
type keyFiles struct {
	root, folder string
	password     string // file
	accounts     []txn.Address
}

// writeKeys writes the first of a row of keys.
func writeKeys(count int, key func(int) *ecdsa.PrivateKey) (k *keyFiles, err error) {
	k = &keyFiles{accounts: make([]txn.Address, count)}
	if k.root, err = os.MkdirTemp("", "fencepost-bench-"); err != nil {
		return nil, err
	}
	k.folder, k.password = filepath.Join(k.root, "keys"), filepath.Join(k.root, "password")
	if err = os.Mkdir(k.folder, 0o700); err == nil {
		err = os.WriteFile(k.password, []byte(signer+"\n"), 0o600)
	}
	for i := 0; i < count && err == nil; i++ {
		one := key(i)
		k.accounts[i] = crypto.PubkeyToAddress(one.PublicKey)
		err = writeKey(filepath.Join(k.folder, fmt.Sprintf("%05d", i)), k.accounts[i], one)
	}
	if err != nil {
		_ = k.remove()
		return nil, fmt.Errorf("write keys: %w", err)
	}
	return k, nil
}

func writeKey(path string, account txn.Address, key *ecdsa.PrivateKey) error {
	content, err := keystore.EncryptKey(
		&keystore.Key{Id: uuid.New(), Address: account, PrivateKey: key}, signer, weakN, weakP)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

func (k *keyFiles) remove() error { return os.RemoveAll(k.root) }
