package node

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"regexp"

	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/config"
)

// callerCredentials are those that callers meet; nil is plain text.
func callerCredentials(t config.TLS) (credentials.TransportCredentials, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("grpc.tls: read %s and %s: %w; give the PEM files of a certificate and its key", t.CertFile, t.KeyFile, err)
	}
	// Clients of HTTP/1.1 share the port.
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCAFile != "" {
		pem, err := os.ReadFile(t.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("grpc.tls.client_ca_file: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("grpc.tls.client_ca_file: %s holds no certificate; give the PEM file of the authorities that callers' certificates are of", t.ClientCAFile)
		}
	}
	return credentials.NewTLS(c), nil
}

// tokenForm is what can stand in a header, and cannot be guessed.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,512}$`)

// maxTokens bounds the file: each call is compared with all of them.
const maxTokens = 1000

// readTokens reads a file of tokens, and never quotes one.
func readTokens(file string) (tokens []string, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("grpc.tokens_file: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0 || line[0] == '#':
		case !tokenForm.Match(line):
			return nil, fmt.Errorf("grpc.tokens_file: line %d of %s is no token: it has 16 to 512 letters, digits and . _ ~ + / = -; make one with \"openssl rand -hex 32\"", n, file)
		default:
			tokens = append(tokens, string(line))
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("grpc.tokens_file: %s has a line that is too long for a token", file)
	case len(tokens) == 0:
		return nil, fmt.Errorf("grpc.tokens_file: %s holds no token, so nobody could call; add one, or leave tokens_file out", file)
	case len(tokens) > maxTokens:
		return nil, fmt.Errorf("grpc.tokens_file: %s holds %d tokens, and each call is compared with all of them; leave at most %d", file, len(tokens), maxTokens)
	}
	return tokens, nil
}
