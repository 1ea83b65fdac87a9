package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const token = "only-for-tests-0123456789"

// writeToken writes a file of tokens, and another one of the second alone, for callers.
func writeToken(t *testing.T, dir string) (tokens string) {
	t.Helper()
	tokens = filepath.Join(dir, "tokens")
	writeFile(t, tokens, "# of the tests\nanother-token-0123456789\n"+token+"\n")
	writeFile(t, filepath.Join(dir, "token"), token+"\n")
	return tokens
}

// TestCallers_Authenticated starts nodes that know their callers in each of the ways there are, and
// calls them with curl and with the program, with all that is asked for and with one thing missing.
func TestCallers_Authenticated(t *testing.T) {
	t.Parallel()
	c := embedded(t, time.Second, 1)
	certs := t.TempDir()
	writeCertificates(t, certs)
	tokens := writeToken(t, certs)
	file := func(name string) string { return filepath.Join(certs, name) }
	ca := []string{
		"--tls-ca",
		file("ca.pem"),
		"--tls-name",
		"node.test",
	}
	certificate := []string{
		"--tls-cert",
		file("client.pem"),
		"--tls-key",
		file("client-key.pem"),
	}
	shown := []string{
		"--token-file",
		file("token"),
	}
	curlCA := []string{
		"--cacert",
		file("ca.pem"),
	}
	curlCertificate := []string{
		"--cert",
		file("client.pem"),
		"--key",
		file("client-key.pem"),
	}
	curlToken := []string{
		"--header",
		"Authorization: Bearer " + token,
	}
	join := func(all ...[]string) (line []string) {
		for _, part := range all {
			line = append(line, part...)
		}
		return line
	}
	const noToken, noConnection = "UNAUTHENTICATED", "cannot connect"
	for name, test := range map[string]struct {
		secure     secure
		program    []string
		curl       []string
		less       []string // other flags if something is missing
		refusal    string
		lessOfCurl []string
		code       string // of curl then; empty: no answer
	}{
		"tls": {secure{certs: certs}, ca, curlCA, nil, noConnection, []string{}, ""},
		"certificate": {
			secure{certs: certs, clientCerts: true}, join(ca, certificate),
			join(curlCA, curlCertificate), ca, noConnection, curlCA, "",
		},
		"token": {
			secure{certs: certs, tokens: tokens}, join(ca, shown), join(curlCA, curlToken), ca,
			noToken, curlCA, "401",
		},
		"both": {
			secure{certs, true, tokens}, join(ca, certificate, shown),
			join(curlCA, curlCertificate, curlToken), join(ca, certificate), noToken,
			join(curlCA, curlCertificate), "401",
		},
		"token on loopback": {secure{tokens: tokens}, shown, curlToken, nil, noToken, nil, "401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, c,
				nodeOptions{confirmations: 1, poll: time.Second, secure: test.secure})
			if out, good := n.program(t, test.program...); !good || !strings.Contains(out, "s00") {
				t.Errorf("the program printed: %s", out)
			}
			if out, good := n.program(t, test.less...); good ||
				!strings.Contains(out, test.refusal) {
				t.Errorf("with less the program printed: %s", out)
			}
			for _, path := range []string{
				"/api/v1/submitters", "/api/v1/tx/01a21fca-9bb7-8000-8000-058ead4b4abd/events",
			} {
				want := map[bool]string{
					true: "200", false: "404",
				}[strings.HasSuffix(path, "submitters")]
				if code, body := n.secureCurl(
					test.secure.certs != "", path, test.curl...,
				); code != want {
					t.Errorf("curl %s: %s %s", path, code, body)
				}
				if code, body := n.secureCurl(
					test.secure.certs != "", path, test.lessOfCurl...,
				); code != test.code {
					t.Errorf("with less, curl %s: %s %s", path, code, body)
				}
			}
		})
	}
}

func (n *node) program(t *testing.T, arguments ...string) (out string, good bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := exec.CommandContext(
		ctx,
		program,
		append(
			[]string{"submitter", "list", "--server", n.addr, "--timeout", "10s"},
			arguments...)...).CombinedOutput()
	return string(text), err == nil
}

// secureCurl calls the node by its name; the code is empty if there was no answer.
func (n *node) secureCurl(tls bool, path string, arguments ...string) (code, body string) {
	_, port, _ := strings.Cut(n.addr, ":")
	url := "http://localhost:" + port + path
	if tls {
		url = "https://node.test:" + port + path
	}
	arguments = append(
		[]string{
			"--silent",
			"--show-error",
			"--max-time",
			"30",
			"--resolve",
			"node.test:" + port + ":127.0.0.1",
			"--ipv4",
			"--write-out",
			"\n%{http_code}",
			url,
		},
		arguments...)
	out, err := exec.Command("curl", arguments...).CombinedOutput()
	if err != nil {
		return "", string(out)
	}
	at := strings.LastIndexByte(string(out), '\n')
	return string(out[at+1:]), string(out[:at])
}
