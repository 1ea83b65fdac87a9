package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/server/auth"
)

// newIssuers returns the configured issuers of tokens.
func newIssuers(cfg *config.Config, log *slog.Logger) (all []*auth.Issuer, err error) {
	for i, c := range cfg.Issuers {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		if c.CAFile != "" {
			key := cfg.Path("issuers", i) + ".ca_file"
			text, err := readFile(c.CAFile, "write certificates in PEM")
			if err != nil {
				return nil, problemsOf(cfg, key, err)
			}
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(text) {
				return nil, problemsOf(cfg, key, errors.New("it holds no certificate in PEM"))
			}
			transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		}
		all = append(all, auth.NewIssuer(auth.IssuerOptions{
			Name: c.Name, URL: c.URL, Audience: c.Audience, Skew: c.ClockSkew,
			Refresh: c.Refresh, Client: &http.Client{Transport: transport}, Logger: log,
		}))
	}
	return all, nil
}

// readIssuers are the services that read the keys of issuers.
func (n *Node) readIssuers() (all []run.Service) {
	for i, one := range n.issuers {
		all = append(all, run.Service{
			Name: "keys of issuer " + n.cfg.Issuers[i].Name,
			Run:  func(ctx context.Context) error { return one.Run(ctx) },
		})
	}
	return all
}

// claims returns the claims that identify a caller.
func claims(jwt []string) (all []auth.Claim) {
	for _, text := range jwt {
		issuer, name, value := config.Claim(text)
		all = append(all, auth.Claim{Issuer: issuer, Name: name, Value: value})
	}
	return all
}
