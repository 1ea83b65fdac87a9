package peers

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
)

const keyPassword = "a password for tests"

// KeyFolder is a folder of key files.
type KeyFolder struct{ Dir, PasswordFile string }

// Keys writes key files into a folder, and their password beside it.
func Keys(dir string, keys ...*ecdsa.PrivateKey) (KeyFolder, error) {
	f := KeyFolder{dir, dir + ".password"}
	if err := errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(f.PasswordFile, []byte(keyPassword+"\n"), 0o600)); err != nil {
		return f, err
	}
	for _, key := range keys {
		address := crypto.PubkeyToAddress(key.PublicKey)
		content, err := keystore.EncryptKey(&keystore.Key{Id: uuid.New(), Address: address,
			PrivateKey: key}, keyPassword, 2, 1)
		if err != nil {
			return f, err
		}
		file := filepath.Join(dir, fmt.Sprintf("UTC--%x", address[:]))
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Clef starts clef with keys, for one chain. It approves every request: this process is its user
// interface.
func Clef(ctx context.Context, dir string, chainID uint64,
	keys ...*ecdsa.PrivateKey) (*Peer, error) {
	program, err := find("clef")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, err
	}
	folder, err := Keys(filepath.Join(dir, "keys"), keys...)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, "--suppress-bootwarn", "--advanced", "--keystore", folder.Dir,
		"--configdir", config, "--chainid", strconv.FormatUint(chainID, 10), "--nousb",
		"--lightkdf", "--auditlog", "", "--ipcdisable", "--http", "--http.port", port,
		"--stdio-ui")
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	go approve(output, input)
	return Run(ctx, command, port)
}

// approve answers the questions of clef until it ends.
func approve(questions io.Reader, answers io.Writer) {
	lines := bufio.NewScanner(questions)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var q struct {
			ID     json.RawMessage   `json:"id"`
			Method string            `json:"method"`
			Params []json.RawMessage `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &q) != nil || len(q.ID) == 0 || len(q.Params) == 0 {
			continue // a notification, or a log line
		}
		var result any = map[string]any{"approved": true}
		switch q.Method {
		case "ui_onInputRequired":
			result = map[string]any{"text": keyPassword}
		case "ui_approveTx":
			var request struct {
				Transaction json.RawMessage `json:"transaction"`
			}
			if json.Unmarshal(q.Params[0], &request) != nil {
				continue
			}
			result = map[string]any{"approved": true, "transaction": request.Transaction}
		}
		reply, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID,
			"result": result})
		if err != nil {
			return
		}
		if _, err := answers.Write(append(reply, '\n')); err != nil {
			return
		}
	}
}
