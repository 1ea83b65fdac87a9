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

	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/txn"
)

const (
	maxKeyFileBytes = 64 << 10 // a V3 file has about 500 bytes
	maxPasswordFile = 4 << 10

	// Limits of a key file's key derivation. The file sets its own parameters, and excessive ones
	// would stop the process. Standard scrypt takes 256 MiB and 2^21 rounds.
	maxScryptMemory = 1 << 30
	maxScryptRounds = 1 << 26
	maxPBKDF2Rounds = 1 << 25
)

// KeyFile is the state of a key file as visible without its password.
type KeyFile struct {
	Path    string
	Address txn.Address // zero if the file does not contain it
	Broken  error       // why it is unusable; nil if it looks valid
	stamp   stamp
}

// stamp identifies the version of a file.
type stamp struct {
	size int64
	at   time.Time
}

// keyJSON is the part of a V3 file that is readable without the password.
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

// List returns the key files of a folder without decrypting them, in the order of their names,
// which in geth is the order of their age.
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

// list finds the key files of a folder. Hidden files and editor backups are not key files; a link
// to a file is, because mounted secrets are links.
func list(dir string) ([]KeyFile, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, remedy.Errorf(
			fmt.Sprintf("create a first key with \"fencepost key new --dir %s\"", dir),
			"key store folder %s does not exist", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read key store folder: %w", err)
	}
	var files []KeyFile
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read key file: %w", err)
		}
		if info.Mode().IsRegular() {
			files = append(files, KeyFile{Path: path, stamp: stamp{info.Size(), info.ModTime()}})
		}
	}
	return files, nil
}

// readKeyFile reads a file and checks it without its password. The address is zero if the file does
// not contain it.
func readKeyFile(path string) (content []byte, address txn.Address, err error) {
	content, err = readLimited(path, maxKeyFileBytes)
	if err != nil {
		return nil, txn.Address{}, err
	}
	var k keyJSON
	if err := json.Unmarshal(content, &k); err != nil {
		return nil, txn.Address{}, remedy.Errorf("restore it, or move it out of the folder",
			"not JSON, so truncated or not a key file")
	}
	if string(k.Version) != "3" {
		return nil, txn.Address{}, remedy.Errorf("convert it, or move it out of the folder",
			"not a version 3 key file (\"version\": 3), the format of geth")
	}
	if digits := strings.TrimPrefix(k.Address, "0x"); digits != "" {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != common.AddressLength {
			return nil, txn.Address{}, remedy.Errorf(restoreKey, "its address is not 40 hex digits")
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
		return remedy.Errorf(restoreKey, "its key derivation is neither scrypt nor pbkdf2")
	}
	if !ok {
		return remedy.Errorf("restore it from a backup, or re-encrypt it with usual parameters",
			"its key derivation needs more memory or time than any wallet's")
	}
	return nil
}

const restoreKey = "restore it from a backup"

var (
	// errPassword means that the password does not open a key file.
	errPassword = errors.New("wrong password")
	errDamaged  = remedy.Errorf(restoreKey, "its encryption parameters are damaged")
)

// decrypt decrypts the content of a key file.
func decrypt(content []byte, address txn.Address, password string) (key *keystore.Key, err error) {
	defer func() {
		// The decoder of go-ethereum panics on unexpected parameter types in a damaged file.
		if recover() != nil {
			key, err = nil, errDamaged
		}
	}()
	key, err = keystore.DecryptKey(content, password)
	switch {
	case errors.Is(err, keystore.ErrDecrypt):
		return nil, errPassword
	case err != nil:
		return nil, errDamaged
	case address != txn.Address{} && key.Address != address:
		return nil, remedy.Errorf("it was changed: restore it from a backup",
			"it names the key of %s, but contains the key of %s", address.Hex(), key.Address.Hex())
	}
	return key, nil
}

// ReadPassword reads the password from a file with a single line.
func ReadPassword(path string) (string, error) {
	content, err := readLimited(path, maxPasswordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", remedy.Errorf("write the keys' password into it, readable by this user only",
			"sign: password file %s does not exist", path)
	}
	if err != nil {
		return "", fmt.Errorf("sign: password file %s: %w", path, err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if strings.ContainsAny(password, "\r\n") {
		return "", remedy.Errorf(
			"all keys of a folder share one password, so keep keys with another password in a "+
				"separate folder",
			"sign: password file %s has more than one line", path)
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
		return nil, fmt.Errorf("it exceeds %d bytes, so it is probably the wrong file", limit)
	}
	return content, nil
}
