package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

// TestCredentials: the signer demands a client certificate and a token, and the client verifies the
// signer. A replaced token applies to the next call.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, pair := certificates(t, dir)
	token := filepath.Join(dir, "token")
	write(t, token, []byte("right\n"))
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	address := serve(t, &server{script: signtest.NewScript(t)},
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
		})),
		grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer right" {
				return nil, status.Error(codes.Unauthenticated, "wrong token")
			}
			return next(ctx, r)
		}))
	whole := endpoint.Endpoint{
		URL:       "https://" + address,
		CAFile:    filepath.Join(dir, "ca.pem"),
		CertFile:  filepath.Join(dir, "cert.pem"),
		KeyFile:   filepath.Join(dir, "key.pem"),
		TokenFile: token,
	}
	account := signtest.Address(signtest.Key("account"))
	check := func(e endpoint.Endpoint) error { return open(t, e).Check(t.Context(), account) }
	if err := check(whole); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*endpoint.Endpoint){
		"no client certificate": func(e *endpoint.Endpoint) { e.CertFile, e.KeyFile = "", "" },
		"unverified signer":     func(e *endpoint.Endpoint) { e.CAFile = "" },
		"no token":              func(e *endpoint.Endpoint) { e.TokenFile = "" },
	} {
		e := whole
		change(&e)
		if err := check(e); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := open(t, whole)
	for text, class := range map[string]error{"wrong": txn.ErrUnavailable, "right": nil} {
		write(t, token, []byte(text))
		if err := h.Check(t.Context(), account); !errors.Is(err, class) {
			t.Errorf("after a change to the %s token: %v", text, err)
		}
	}
}

// certificates writes a CA, and a certificate for both sides, into a folder.
func certificates(t *testing.T, dir string) (*x509.Certificate, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test"},
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	write(t, filepath.Join(dir, "ca.pem"), certificate)
	write(t, filepath.Join(dir, "cert.pem"), certificate)
	write(t, filepath.Join(dir, "key.pem"), private)
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return ca, pair
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
