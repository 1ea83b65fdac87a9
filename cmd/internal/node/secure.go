package node

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"regexp"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server"
)

// access is what the files say of who the node is to its callers, and who may call.
type access struct {
	tls     *tls.Config // nil: plain text
	tokens  []string
	callers []server.Caller
}

// fileError is what is wrong with the file of a key.
type fileError struct {
	key string
	err error
}

func (f *fileError) Error() string { return f.key + ": " + f.err.Error() }
func (f *fileError) Unwrap() error { return f.err }

func inFile(key string, err error) error {
	if err == nil {
		return nil
	}
	return &fileError{key, err}
}

// readAccess reads all of the files. It never quotes a token.
func readAccess(cfg *config.Config) (a access, err error) {
	if a.tls, err = readTLS(cfg.GRPC.TLS); err != nil {
		return a, err
	}
	if a.tokens, err = readTokens(cfg.GRPC.TokensFile); err != nil {
		return a, inFile("grpc.tokens_file", err)
	}
	of := map[string]string{} // token to caller
	for _, c := range cfg.Callers {
		key := "callers." + c.Name + ".tokens_file"
		tokens, err := readTokens(c.TokensFile)
		if err != nil {
			return a, inFile(key, err)
		}
		for _, token := range tokens {
			if other, twice := of[token]; twice && other != c.Name {
				return a, inFile(key, fmt.Errorf("%s holds a token of caller %q; give each caller tokens of its own", c.TokensFile, other))
			}
			of[token] = c.Name
		}
		a.callers = append(a.callers, server.Caller{Name: c.Name, Tokens: tokens, Certificates: c.Certificates, Submitters: c.Submitters, Operator: c.Operator()})
	}
	if len(of) > maxTokens {
		return a, inFile("callers", fmt.Errorf("they have %d tokens, and each call is compared with all of them; leave at most %d", len(of), maxTokens))
	}
	return a, nil
}

// accessFiles are those that readAccess reads.
func accessFiles(cfg *config.Config) (files []string) {
	all := []string{cfg.GRPC.TLS.CertFile, cfg.GRPC.TLS.KeyFile, cfg.GRPC.TLS.ClientCAFile, cfg.GRPC.TokensFile}
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

func readTLS(t config.TLS) (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, inFile("grpc.tls.cert_file", fmt.Errorf("read %s and %s: %w; give the PEM files of a certificate and its key", t.CertFile, t.KeyFile, err))
	}
	// Clients of HTTP/1.1 share the port.
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCAFile != "" {
		pem, err := os.ReadFile(t.ClientCAFile)
		if err != nil {
			return nil, inFile("grpc.tls.client_ca_file", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, inFile("grpc.tls.client_ca_file", fmt.Errorf("%s holds no certificate; give the PEM file of the authorities that callers' certificates are of", t.ClientCAFile))
		}
	}
	return c, nil
}

// tokenForm is what can stand in a header, and cannot be guessed.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,512}$`)

// maxTokens bounds them: each call is compared with all of them.
const maxTokens = 1000

// readTokens reads a file of tokens, and never quotes one.
func readTokens(file string) (tokens []string, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0 || line[0] == '#':
		case !tokenForm.Match(line):
			return nil, fmt.Errorf("line %d of %s is no token: it has 16 to 512 letters, digits and . _ ~ + / = -; make one with \"openssl rand -hex 32\"", n, file)
		default:
			tokens = append(tokens, string(line))
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("%s has a line that is too long for a token", file)
	case len(tokens) == 0:
		return nil, fmt.Errorf("%s holds no token, so nobody could call; add one, or leave tokens_file out", file)
	case len(tokens) > maxTokens:
		return nil, fmt.Errorf("%s holds %d tokens, and each call is compared with all of them; leave at most %d", file, len(tokens), maxTokens)
	}
	return tokens, nil
}
