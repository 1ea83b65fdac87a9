package peers

import (
	"crypto/ecdsa"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Token is a token of SoftHSM.
type Token struct{ Module, Label, PINFile string }

// KeyLabel returns the identifier of the i-th key in a token.
func KeyLabel(i int) string { return fmt.Sprintf("label:key-%d", i) }

// modules are the places of SoftHSM's library in Debian and Fedora.
var modules = []string{
	"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so",
	"/usr/local/lib/softhsm/libsofthsm2.so",
}

// SoftHSM makes a token with keys, which have the identifiers KeyLabel(0), KeyLabel(1), ... It sets
// SOFTHSM2_CONF of this process.
func SoftHSM(dir string, keys ...*ecdsa.PrivateKey) (*Token, error) {
	program, err := find("softhsm2-util")
	if err != nil {
		return nil, err
	}
	t := &Token{Label: "fencepost", PINFile: filepath.Join(dir, "pin")}
	for _, module := range modules {
		if _, err := os.Stat(module); err == nil {
			t.Module = module
		}
	}
	if t.Module == "" {
		return nil, errors.New("libsofthsm2.so is missing; install softhsm2")
	}
	tokens, config := filepath.Join(dir, "tokens"), filepath.Join(dir, "softhsm2.conf")
	if err := errors.Join(os.RemoveAll(tokens), os.MkdirAll(tokens, 0o700),
		os.WriteFile(config, []byte("directories.tokendir = "+tokens+"\nlog.level = ERROR\n"),
			0o600),
		os.WriteFile(t.PINFile, []byte("1234\n"), 0o600),
		os.Setenv("SOFTHSM2_CONF", config)); err != nil {
		return nil, err
	}
	util := func(arguments ...string) error {
		output, err := exec.Command(program, arguments...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("softhsm2-util %s: %w: %s", arguments[0], err, output)
		}
		return nil
	}
	if err := util("--init-token", "--free", "--label", t.Label, "--so-pin", "5678", "--pin",
		"1234"); err != nil {
		return nil, err
	}
	for i, key := range keys {
		der, err := pkcs8(key)
		if err != nil {
			return nil, err
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		file := filepath.Join(dir, "key.pem")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		err = util("--import", file, "--token", t.Label, "--label", KeyLabel(i)[len("label:"):],
			"--id", fmt.Sprintf("%04x", i+1), "--pin", "1234")
		if err := errors.Join(err, os.Remove(file)); err != nil {
			return nil, err
		}
	}
	return t, nil
}
