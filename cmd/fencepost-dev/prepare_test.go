package main

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/devchain"
)

func TestWriteConfig_NonceAPI_Enabled(t *testing.T) {
	t.Parallel()
	signer := &keySigner{section: `keystore: {dir: keys, password_file: password}`}
	for i := range accounts {
		signer.holders = append(signer.holders, devchain.Address(i))
	}
	o := options{grpc: "127.0.0.1:9090", ops: "127.0.0.1:9091", period: time.Second}
	cfg, err := writeConfig(o, t.TempDir(), "postgres://db/postgres", "http://127.0.0.1:8545",
		signer)
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.NonceAPI.Enabled || len(cfg.Submitters) != len(accounts) {
		t.Errorf("nonce_api %+v, %d submitters", cfg.NonceAPI, len(cfg.Submitters))
	}
}
