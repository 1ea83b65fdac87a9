package node

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/server/auth"
)

// access is the content of the credential files: the server certificate and the callers.
type access struct {
	tls     *tls.Config // nil: plain text
	tokens  []string
	callers []auth.Caller
}

// count is how many tokens there are.
func (a access) count() int {
	n := len(a.tokens)
	for _, c := range a.callers {
		n += len(c.Tokens)
	}
	return n
}

// faults are the faults of credential files, by configuration key.
type faults []fault

type fault struct {
	key string
	err error
}

func (f *faults) add(key string, err error) {
	if err != nil {
		*f = append(*f, fault{key, err})
	}
}

// Error is one line: it goes into a log.
func (f faults) Error() string {
	texts := make([]string, len(f))
	for i, one := range f {
		texts[i] = one.key + ": " + one.err.Error()
	}
	return strings.Join(texts, "; ")
}

// readAccess reads all credential files and reports all faults. It never quotes a token.
func readAccess(cfg *config.Config) (access, faults) {
	var a access
	var wrong faults
	a.tls = readTLS(cfg.GRPC.TLS, &wrong)
	var err error
	a.tokens, err = readTokens(cfg.GRPC.TokensFile)
	wrong.add("grpc.tokens_file", err)
	of := map[string]string{} // token to caller
	for i, c := range cfg.Callers {
		key := cfg.Path("callers", i) + ".tokens_file"
		tokens, err := readTokens(c.TokensFile)
		wrong.add(key, err)
		for _, token := range tokens {
			if other, twice := of[token]; twice && other != c.Name {
				wrong.add(
					key,
					remedy.Errorf("give each caller its own tokens", "%s has a token of caller %q",
						c.TokensFile, other),
				)
				break
			}
			of[token] = c.Name
		}
		a.callers = append(
			a.callers,
			auth.Caller{
				Name:         c.Name,
				Tokens:       tokens,
				Certificates: c.Certificates,
				Claims:       claims(c.JWT),
				Submitters:   c.Submitters,
				Pools:        c.Pools,
				Operator:     c.Operator(),
				Nonces:       c.Nonces,
				Approve:      c.Approve,
				Weight:       c.Weight,
				Rate:         c.Rate,
				Policy:       callerPolicy(c.Policy),
			},
		)
	}
	if len(of) > maxTokens {
		wrong.add(
			"callers",
			remedy.Errorf(fmt.Sprintf("the maximum is %d", maxTokens), "%d tokens", len(of)),
		)
	}
	return a, wrong
}

// accessFiles are the files that readAccess reads.
func accessFiles(cfg *config.Config) (files []string) {
	all := []string{
		cfg.GRPC.TLS.CertFile,
		cfg.GRPC.TLS.KeyFile,
		cfg.GRPC.TLS.ClientCAFile,
		cfg.GRPC.TokensFile,
	}
	for _, c := range cfg.Callers {
		all = append(all, c.TokensFile)
	}
	for _, file := range all {
		if file != "" {
			files = append(files, file)
		}
	}
	return files
}

func readTLS(t config.TLS, wrong *faults) *tls.Config {
	// Clients of HTTP/1.1 share the port.
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCAFile != "" {
		pem, err := readFile(t.ClientCAFile,
			"give a PEM file with the CA certificates of the callers")
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if err == nil && !c.ClientCAs.AppendCertsFromPEM(pem) {
			err = remedy.Errorf("give a PEM file with the CA certificates of the callers",
				"%s has no certificate", t.ClientCAFile)
		}
		wrong.add("grpc.tls.client_ca_file", err)
	}
	const advice = "give the PEM files of a certificate and its key"
	var cert, key []byte
	var noCert, noKey error
	if t.CertFile != "" {
		cert, noCert = readFile(t.CertFile, advice)
		wrong.add("grpc.tls.cert_file", noCert)
	}
	if t.KeyFile != "" {
		key, noKey = readFile(t.KeyFile, advice)
		wrong.add("grpc.tls.key_file", noKey)
	}
	if t.CertFile == "" || t.KeyFile == "" || noCert != nil || noKey != nil {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		wrong.add(
			"grpc.tls.cert_file",
			remedy.Errorf(advice, "%s and %s are not a certificate and its key (%s)", t.CertFile,
				t.KeyFile, strings.TrimPrefix(err.Error(), "tls: ")),
		)
		return nil
	}
	c.Certificates = []tls.Certificate{pair}
	return c
}

// readFile reads a file; an error has the advice as its remedy.
func readFile(file, advice string) ([]byte, error) {
	text, err := os.ReadFile(file)
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, remedy.Errorf(advice, "file %s does not exist", file)
	case errors.As(err, &path):
		return nil, remedy.Errorf(remedy.OfFile(err),
			"cannot read file %s (%w)", file, path.Err)
	}
	return text, err
}

// tokenForm is valid in a header, and too long to guess.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,512}$`)

// maxTokens limits the tokens, because each call is compared with all of them.
const maxTokens = 1000

// readTokens reads a file of tokens, and never quotes one.
func readTokens(file string) (tokens []string, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := readFile(file,
		"write one token per line, readable by this user only; generate one with \"openssl rand "+
			"-hex 32\"")
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0 || line[0] == '#':
		case !tokenForm.Match(line):
			return nil, remedy.Errorf("generate one with \"openssl rand -hex 32\"",
				"line %d of %s is not a token (16 to 512 letters, digits and ._~+/=-)", n, file)
		default:
			tokens = append(tokens, string(line))
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("%s has a line too long for a token", file)
	case len(tokens) == 0:
		return nil, remedy.Errorf("add one, or omit tokens_file", "%s has no token", file)
	case len(tokens) > maxTokens:
		return nil, remedy.Errorf(fmt.Sprintf("the maximum is %d", maxTokens), "%s has %d tokens",
			file, len(tokens))
	}
	return tokens, nil
}
