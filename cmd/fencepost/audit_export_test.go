package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signingKeys writes a pair of keys, as openssl does.
func (l *ledger) signingKeys() (private, public string) {
	l.t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	l.must(err)
	folder := l.t.TempDir()
	private, public = filepath.Join(folder, "audit.key"), filepath.Join(folder, "audit.pub")
	der, err := x509.MarshalPKCS8PrivateKey(key)
	l.must(err)
	l.must(os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		0o600))
	der, err = x509.MarshalPKIXPublicKey(pub)
	l.must(err)
	l.must(os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		0o600))
	return private, public
}

// TestAuditExport exports a history, and verifies it until a line is changed.
func TestAuditExport(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.create("r1")
	config := l.configured("http://127.0.0.1:1")
	key, public := l.signingKeys()
	file := filepath.Join(t.TempDir(), "history.ndjson")
	out, errs, code := l.start("audit", "export", "--config", config, "--key", key, "--out",
		file).end()
	if code != exitDone {
		t.Fatalf("export gave %d: %s%s", code, out, errs)
	}
	if _, _, code := l.start("audit", "export", "--config", config, "--key", key, "--out",
		file).end(); code != exitUnchecked {
		t.Errorf("an existing file gave %d", code)
	}
	if out, errs, code := l.start("audit", "verify", file, "--public-key",
		public).end(); code != exitDone {
		t.Errorf("verify gave %d: %s%s", code, out, errs)
	}
	text, err := os.ReadFile(file)
	l.must(err)
	if n := strings.Count(string(text), `"type":"intent"`); n != 1 {
		t.Errorf("%d intents in\n%s", n, text)
	}
	l.must(os.WriteFile(file, []byte(strings.Replace(string(text), "r1", "r2", 1)), 0o600))
	if _, _, code := l.start("audit", "verify", file, "--public-key",
		public).end(); code != exitViolations {
		t.Errorf("a changed line gave %d", code)
	}
}

// TestAudit_Chain_ChangedByHand reports a changed intent, which a plain audit does not notice.
func TestAudit_Chain_ChangedByHand(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	id := l.create("r1")
	audit := func(code int) string {
		t.Helper()
		out, errs, got := l.start("audit", "--chain", "--config",
			l.configured("http://127.0.0.1:1")).end()
		if got != code {
			t.Errorf("it gave %d: %s%swant %d", got, out, errs, code)
		}
		return out
	}
	audit(exitUnchecked) // there is no chain to compare with
	for _, sql := range []string{"ALTER TABLE managed_tx DISABLE TRIGGER USER",
		"UPDATE managed_tx SET value = value + 1",
		"ALTER TABLE managed_tx ENABLE TRIGGER USER"} {
		_, err := l.db.Pool.Exec(l.ctx, sql)
		l.must(err)
	}
	l.rows(audit(exitViolations), `alice +A1 +`+id+` +.*`)
}
