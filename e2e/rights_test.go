package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCallersHaveRights starts a node with two callers, of which one has a token and one account,
// and the other, an operator of all, a certificate. Then their files change under the running node.
func TestCallersHaveRights(t *testing.T) {
	t.Parallel()
	c := embedded(t, time.Second, 2)
	certs := t.TempDir()
	writeCertificates(t, certs)
	file := func(name string) string { return filepath.Join(certs, name) }
	writeFile(t, file("shop"), token+"\n")
	n := prepareNode(
		t,
		c,
		nodeOptions{
			confirmations: 1,
			poll:          time.Second,
			secure:        secure{certs: certs, clientCerts: true},
		},
		freshDatabase(t),
	)
	n.edit(t, "grpc: {", "grpc: {reload_interval: 1s, ")
	n.edit(t, "\nops:", fmt.Sprintf(`
callers:
  - {name: shop, tokens_file: %q, submitters: [s00]}
  - {name: fay, certificates: ["cn:caller"], submitters: ["*"], role: operator}
ops:`, file("shop")))
	n.migrate(t)
	n.start(t)
	known := []string{
		"--tls-ca",
		file("ca.pem"),
		"--tls-name",
		"node.test",
		"--tls-cert",
		file("client.pem"),
		"--tls-key",
		file("client-key.pem"),
	}
	curl := []string{
		"--cacert",
		file("ca.pem"),
		"--cert",
		file("client.pem"),
		"--key",
		file("client-key.pem"),
	}
	with := func(token string) []string {
		return append(
			curl, "--header", "Authorization: Bearer "+token,
		)
	}

	if out, good := n.program(t, known...); !good || !strings.Contains(out, "s00") ||
		!strings.Contains(out, "s01") {
		t.Errorf("an operator of all lists %s", out)
	}
	writeFile(t, file("token"), token)
	if out, good := n.program(t, append(known, "--token-file", file("token"))...); !good ||
		!strings.Contains(out, "s00") ||
		strings.Contains(out, "s01") {
		t.Errorf("the shop lists %s", out)
	}
	for path, want := range map[string]string{
		"/api/v1/submitters/s00": "200", "/api/v1/submitters/s01": "403",
		"/api/v1/submitters/nobody": "403", "/api/v1/submitters/s01/events": "403",
	} {
		if code, body := n.secureCurl(true, path, with(token)...); code != want ||
			want == "403" && !strings.Contains(body, `"PERMISSION_DENIED"`) {
			t.Errorf("the shop gets %s of %s: %s", code, path, body)
		}
	}
	pause := []string{
		"--request",
		"POST",
		"--header",
		"Content-Type: application/json",
		"--data",
		`{"reason": "a test"}`,
	}
	if code, body := n.secureCurl(
		true, "/api/v1/submitters/s00/pause", append(with(token), pause...)...,
	); code != "403" {
		t.Errorf("the shop pauses: %s %s", code, body)
	}
	if code, body := n.secureCurl(
		true, "/api/v1/submitters/s00/pause", append(curl, pause...)...,
	); code != "200" {
		t.Errorf("an operator pauses: %s %s", code, body)
	}
	n.changesFiles(t, certs, with)
}

// changesFiles replaces the token, then breaks its file, then replaces all certificates.
func (n *node) changesFiles(t *testing.T, certs string, with func(token string) []string) {
	t.Helper()
	const another = "another-token-9876543210"
	answers := func(token, want string) error {
		if code, body := n.secureCurl(
			true, "/api/v1/submitters/s00", with(token)...,
		); code != want {
			return fmt.Errorf("answered %s, not %s: %s", code, want, body)
		}
		return nil
	}
	hangUp := func(says string) {
		t.Helper()
		if err := n.proc.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, "the log has "+says, func() error {
			if log, err := os.ReadFile(filepath.Join(n.dir, "node.log")); err != nil ||
				!strings.Contains(string(log), says) {
				return fmt.Errorf("it does not: %v", err)
			}
			return nil
		})
	}
	writeFile(t, filepath.Join(certs, "shop"), another)
	hangUp("credentials reloaded")
	for token, want := range map[string]string{another: "200", token: "401"} {
		if err := answers(token, want); err != nil {
			t.Error(err)
		}
	}
	writeFile(t, filepath.Join(certs, "shop"), "short")
	hangUp("credential reload failed")
	if err := answers(another, "200"); err != nil {
		t.Error(err)
	}
	writeFile(t, filepath.Join(certs, "shop"), another)
	writeCertificates(t, certs) // of another authority
	eventually(t, time.Minute, "the new certificates are in force",
		func() error { return answers(another, "200") })
}
