// Command signer is a signer for Fencepost: it implements fencepost.signer.v1.SignerService, signs
// with the key files of a folder, and applies a policy (allowed recipients, value per day).
//
//	go run ./examples/signer -keys ./keys -password-file ./password -policy ./policy.json \
//	  -cert ./cert.pem -key ./key.pem -client-ca ./ca.pem
//
// Without a certificate it serves plain text, on this machine only.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
)

type options struct {
	listen, keys, password string
	policy, log            string
	cert, key, clientCA    string
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:7443", "`address` to listen on")
	flag.StringVar(&o.keys, "keys", "keys", "`folder` of key files")
	flag.StringVar(&o.password, "password-file", "password", "`file` with their password")
	flag.StringVar(&o.policy, "policy", "policy.json", "`file` with the policy")
	flag.StringVar(&o.log, "log", "allowed.log", "`file` that records the allowed transactions")
	flag.StringVar(&o.cert, "cert", "", "PEM `file` of the server's certificate")
	flag.StringVar(&o.key, "key", "", "PEM `file` of its key")
	flag.StringVar(&o.clientCA, "client-ca", "", "PEM `file` of the CA of Fencepost's certificate")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "signer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	allowed, err := openPolicy(o.policy, o.log)
	if err != nil {
		return err
	}
	keys, err := sign.OpenKeyStore(ctx, sign.KeyStoreOptions{Dir: o.keys,
		PasswordFile: o.password, Clock: clock.Real{}, Log: log})
	if err != nil {
		return err
	}
	defer keys.Close()
	var secured []grpc.ServerOption
	if o.cert != "" {
		config, err := mutualTLS(o)
		if err != nil {
			return err
		}
		secured = append(secured, grpc.Creds(credentials.NewTLS(config)))
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	if o.cert == "" && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return errors.Join(errors.New("without -cert, listen on 127.0.0.1"), l.Close())
	}
	g := grpc.NewServer(secured...)
	signerv1.RegisterSignerServiceServer(g, &server{keys: keys, policy: allowed})
	defer context.AfterFunc(ctx, g.GracefulStop)()
	log.Info("signer serving", "address", l.Addr().String())
	return g.Serve(l)
}

// mutualTLS demands a client certificate: every program that reaches a signer can sign with it.
func mutualTLS(o options) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(o.clientCA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", o.clientCA)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}
