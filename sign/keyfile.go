package sign

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"

	"github.com/fencepost/fencepost/txn"
)

const (
	maxKeyFileBytes = 64 << 10 // a V3 file has about 500 bytes
	maxPasswordFile = 4 << 10

	// What a key file may ask for to derive its key. The file says so itself, and one that says too much would stop the process. Standard scrypt takes
	// 256 MiB and 2^21 rounds.
	maxScryptMemory = 1 << 30
	maxScryptRounds = 1 << 26
	maxPBKDF2Rounds = 1 << 25
)

// KeyFile is a key file as it shows without its password.
type KeyFile struct {
	Path    string
	Address txn.Address // zero when the file does not tell
	Broken  error       // why it cannot be used; nil when it looks right
	stamp   stamp
}

// stamp tells whether a file is the one that was looked at before.
type stamp struct {
	size int64
	at   time.Time
}

// keyJSON is the part of a V3 file that can be judged without the password.
type keyJSON struct {
	Version json.RawMessage `json:"version"`
	Address string          `json:"address"`
	Crypto  struct {
		KDF    string `json:"kdf"`
		Params struct {
			N float64 `json:"n"`
			R float64 `json:"r"`
			P float64 `json:"p"`
			C float64 `json:"c"`
		} `json:"kdfparams"`
	} `json:"crypto"`
}

// List looks at the key files of a folder without decrypting them, in the order of their names, which geth makes the order of their age.
func List(dir string) ([]KeyFile, error) {
	files, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	for i := range files {
		_, files[i].Address, files[i].Broken = readKeyFile(files[i].Path)
	}
	return files, nil
}

// list finds the key files of a folder. Hidden files and backups of editors are not key files; a link to a file is, for mounted secrets are made of links.
func list(dir string) ([]KeyFile, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"key store folder %s does not exist; make a first key with \"fencepost key new --dir %s\"",
			dir, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("key store folder cannot be read: %w", err)
	}
	var files []KeyFile
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // taken away meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("key file cannot be read: %w", err)
		}
		if info.Mode().IsRegular() {
			files = append(files, KeyFile{Path: path, stamp: stamp{info.Size(), info.ModTime()}})
		}
	}
	return files, nil
}

// readKeyFile reads a file and checks what can be checked without its password. The address is zero when the file does not tell it.
func readKeyFile(path string) (content []byte, address txn.Address, err error) {
	content, err = readLimited(path, maxKeyFileBytes)
	if err != nil {
		return nil, txn.Address{}, err
	}
	var k keyJSON
	if err := json.Unmarshal(content, &k); err != nil {
		return nil, txn.Address{}, errors.New(
			"it is not JSON, so it is cut short or no key file; restore it, or move it out of the folder")
	}
	if string(k.Version) != "3" {
		return nil, txn.Address{}, errors.New(
			"it is not a key file of version 3 (\"version\": 3), the form that geth writes; convert it, or move it out of the folder")
	}
	if digits := strings.TrimPrefix(k.Address, "0x"); digits != "" {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != common.AddressLength {
			return nil, txn.Address{}, errors.New(
				"its address is not 40 hex digits; restore it from a backup")
		}
		address = txn.Address(b)
	}
	return content, address, affordable(k)
}

func affordable(k keyJSON) error {
	p := k.Crypto.Params
	ok := false
	switch k.Crypto.KDF {
	case "scrypt":
		ok = 128*p.N*p.R <= maxScryptMemory && p.N*p.R*p.P <= maxScryptRounds
	case "pbkdf2":
		ok = p.C <= maxPBKDF2Rounds
	default:
		return errors.New(
			"its key derivation is neither scrypt nor pbkdf2; restore it from a backup")
	}
	if !ok {
		return errors.New(
			"its key derivation asks for more memory or time than any wallet does; restore it from a backup, or write it anew with usual parameters")
	}
	return nil
}

// errPassword says that a key file does not open with this password.
var errPassword = errors.New("the password does not fit")

// decrypt opens the content of a key file.
func decrypt(content []byte, address txn.Address, password string) (key *keystore.Key, err error) {
	defer func() {
		// The decoder of go-ethereum takes the shape of the parameters for granted and panics where a damaged file has another.
		if recover() != nil {
			key, err = nil, errors.New(
				"its encryption parameters are damaged; restore it from a backup")
		}
	}()
	key, err = keystore.DecryptKey(content, password)
	switch {
	case errors.Is(err, keystore.ErrDecrypt):
		return nil, errPassword
	case err != nil:
		return nil, errors.New("its encryption parameters are damaged; restore it from a backup")
	case address != txn.Address{} && key.Address != address:
		return nil, fmt.Errorf(
			"it says that it holds the key of %s, but holds that of %s; somebody changed it: restore it from a backup",
			address.Hex(), key.Address.Hex())
	}
	return key, nil
}

// ReadPassword reads the password that a file holds in its only line.
func ReadPassword(path string) (string, error) {
	content, err := readLimited(path, maxPasswordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf(
			"sign: password file %s does not exist; write the password of the keys into it, readable by this user only",
			path)
	}
	if err != nil {
		return "", fmt.Errorf("sign: password file %s: %w", path, err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf(
			"sign: password file %s has more than one line; one password opens all keys of a folder, so keep keys with another one in a folder of their own",
			path)
	}
	return password, nil
}

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes, so it is something else", limit)
	}
	return content, nil
}
