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

// TestAuditExport_Fails_NoFile: an export that ends before its signature leaves no file, and the
// next one may use the name.
func TestAuditExport_Fails_NoFile(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.create("r1")
	config := l.configured("http://127.0.0.1:1")
	key, public := l.signingKeys()
	folder := t.TempDir()
	file := filepath.Join(folder, "history.ndjson")
	export := func() int {
		_, _, code := l.start("audit", "export", "--config", config, "--key", key, "--out",
			file).end()
		return code
	}
	const moved = "ALTER TABLE audit_checkpoint RENAME COLUMN created_at TO moved"
	_, err := l.db.Pool.Exec(l.ctx, moved) // is read after the lines are written
	l.must(err)
	if code := export(); code != exitUnchecked {
		t.Errorf("the failed export gave %d", code)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	_, err = l.db.Pool.Exec(l.ctx, "ALTER TABLE audit_checkpoint RENAME COLUMN moved TO created_at")
	l.must(err)
	if code := export(); code != exitDone {
		t.Errorf("the next export gave %d", code)
	}
	if _, _, code := l.start("audit", "verify", file, "--public-key",
		public).end(); code != exitDone {
		t.Errorf("verify gave %d", code)
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
