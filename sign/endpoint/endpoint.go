// Package endpoint describes how to reach a remote signer: its URL, and the credentials of both
// sides.
package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/fencepost/fencepost/internal/remedy"
)

// maxToken is the size of the longest token file.
const maxToken = 4 << 10

// Endpoint is the address of a remote signer. With https, its certificate is verified.
type Endpoint struct {
	URL       string // https://host:port, or http for plain text
	CAFile    string // CA certificates, as PEM; empty: those of the system
	CertFile  string // client certificate, as PEM; empty: none
	KeyFile   string // its key
	TokenFile string // bearer token; empty: none
}

// Secure reports whether the connection is encrypted.
func (e Endpoint) Secure() bool {
	u, err := url.Parse(e.URL)
	return err == nil && u.Scheme == "https"
}

// Host returns host and port.
func (e Endpoint) Host() (string, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return "", errors.New("the URL has no host") // does not quote the URL
	}
	if u.Port() != "" {
		return u.Host, nil
	}
	if e.Secure() {
		return u.Host + ":443", nil
	}
	return u.Host + ":80", nil
}

// TLS returns the client's configuration. It reads the files, and reads certificate and key again
// for each connection, so they can be renewed without a restart.
func (e Endpoint) TLS() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CAFile != "" {
		pem, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, remedy.Errorf("give a PEM file with CA certificates",
				"%s has no certificate", e.CAFile)
		}
	}
	if e.CertFile == "" {
		return c, nil
	}
	pair := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load client certificate %s: %w", e.CertFile, err)
		}
		return &pair, nil
	}
	if _, err := pair(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return pair()
	}
	return c, nil
}

// Token reads the token; empty if there is none. It is read for each call, so it can be replaced
// without a restart.
func (e Endpoint) Token() (string, error) {
	if e.TokenFile == "" {
		return "", nil
	}
	f, err := os.Open(e.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || len(content) > maxToken || strings.ContainsAny(token, "\r\n") {
		return "", remedy.Errorf("write one token on one line", "%s is not a token file",
			e.TokenFile)
	}
	return token, nil
}

// Check reads all files.
func (e Endpoint) Check() error {
	_, host := e.Host()
	_, certificates := e.TLS()
	_, token := e.Token()
	return errors.Join(host, certificates, token)
}
