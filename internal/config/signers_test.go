package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSigners_Problems(t *testing.T) {
	t.Parallel()
	const keys = ", keys_file: ./k"
	for name, c := range map[string]struct{ signer, key string }{
		"key store":           {"keystore: {dir: ./keys, password_file: ./p}", ""},
		"service":             {"service: {url: 'https://signer:7443'}" + keys, ""},
		"plain text loopback": {"web3signer: {url: 'http://127.0.0.1:9000'}" + keys, ""},
		"all of AWS":          {"aws_kms: {region: eu-central-1}" + keys, ""},
		"Google":              {"gcp_kms: {credentials_file: ./c.json}" + keys, ""},
		"none":                {"timeout: 3s", "signers.it"},
		"two": {"service: {url: 'https://a'}, clef: {url: 'https://b'}" + keys,
			"signers.it"},
		"no list": {"clef: {url: 'https://b'}", "signers.it.keys_file"},
		"list of a key store": {"keystore: {dir: ./keys, password_file: ./p}" + keys,
			"signers.it.keys_file"},
		"plain text": {"web3signer: {url: 'http://signer:9000'}" + keys,
			"signers.it.web3signer.url"},
		"password in the URL": {"web3signer: {url: 'https://a:b@signer:9000'}" + keys,
			"signers.it.web3signer.url"},
		"half a pair": {"service: {url: 'https://a', cert_file: ./c}" + keys,
			"signers.it.service.cert_file"},
		"no region": {"aws_kms: {}" + keys, "signers.it.aws_kms.region"},
		"no PIN":    {"pkcs11: {module: /m.so, token: t}" + keys, "signers.it.pkcs11.pin_file"},
		"no slots": {"service: {url: 'https://a'}, max_in_flight: 0" + keys,
			"signers.it.max_in_flight"},
		"negative rate": {"service: {url: 'https://a'}, per_second: -1" + keys,
			"signers.it.per_second"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			text := `node: {name: a}
database: {url: "postgres://localhost/x"}
chains: [{name: dev, chain_id: 1, rpc: ["http://localhost:1"]}]
signers: [{name: it, ` + c.signer + "}]\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(Source{File: file})
			var problems Problems
			_ = errors.As(err, &problems)
			var found []string
			for _, p := range problems {
				found = append(found, p.Key)
			}
			var want []string
			if c.key != "" {
				want = []string{c.key}
			}
			if !slices.Equal(found, want) {
				t.Errorf("problems at %q, want %q: %v", found, want, err)
			}
		})
	}
}
