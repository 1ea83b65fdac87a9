package server

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/web"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.make(&x509.Certificate{
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign,
		Subject:  pkix.Name{CommonName: "authority"},
	})
	return a
}

func (a *authority) make(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(counter.Add(1))
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.BasicConstraintsValid = true
	signer, by := template, key
	if a.cert != nil {
		signer, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(crand.Reader, template, signer, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

func (a *authority) pair(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	cert, key := a.make(template)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Covers gRPC and HTTP. A caller that also has tokens must present both.
func TestCertificate_AnyName_IdentifiesCaller(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	a := newAuthority(t)
	node := a.pair(&x509.Certificate{DNSNames: []string{"node.test"}})
	const token, other = "both-0123456789abcdef", "other-0123456789abcdef"
	n := h.serve(func(o *Options) {
		o.TLS = &tls.Config{
			Certificates: []tls.Certificate{
				node,
			}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
			NextProtos: []string{"h2", "http/1.1"},
		}
		o.Callers = []auth.Caller{
			{
				Name: "names",
				Certificates: []string{
					"cn:shop",
					"dns:shop.test",
					"uri:spiffe://test/shop",
					"email:shop@test",
				},
				Submitters: []string{"alice"},
			},
			{
				Name:         "both",
				Certificates: []string{"cn:both"},
				Tokens:       []string{token},
				Submitters:   []string{"alice"},
			},
			{Name: "token", Tokens: []string{other}, Submitters: []string{"alice"}},
			{
				Name:         "operator",
				Certificates: []string{"cn:fay"},
				Submitters:   []string{"alice"},
				Operator:     true,
			},
		}
	})
	spiffe, err := url.Parse("spiffe://test/shop")
	h.must(err)
	for name, c := range map[string]struct {
		template x509.Certificate
		token    string
		want     codes.Code // of a call that callers may make
		operator codes.Code // of one for operators
	}{
		"common name": {x509.Certificate{Subject: pkix.Name{CommonName: "shop"}}, "",
			codes.OK, codes.PermissionDenied},
		"DNS name": {x509.Certificate{DNSNames: []string{"first.test", "shop.test"}},
			"", codes.OK, codes.PermissionDenied},
		"URI": {x509.Certificate{URIs: []*url.URL{spiffe}}, "", codes.OK,
			codes.PermissionDenied},
		"address": {x509.Certificate{EmailAddresses: []string{"shop@test"}}, "",
			codes.OK, codes.PermissionDenied},
		"operator": {x509.Certificate{Subject: pkix.Name{CommonName: "fay"}}, "",
			codes.OK, codes.InvalidArgument},
		"another kind": {x509.Certificate{DNSNames: []string{"shop"}}, "",
			codes.Unauthenticated, codes.Unauthenticated},
		"another name": {x509.Certificate{Subject: pkix.Name{CommonName: "shop2"}}, "",
			codes.Unauthenticated, codes.Unauthenticated},
		"an organisation": {
			x509.Certificate{Subject: pkix.Name{Organization: []string{"shop"}}}, "",
			codes.Unauthenticated, codes.Unauthenticated},
		"both": {x509.Certificate{Subject: pkix.Name{CommonName: "both"}}, token,
			codes.OK, codes.PermissionDenied},
		"the certificate alone": {x509.Certificate{Subject: pkix.Name{CommonName: "both"}}, "",
			codes.Unauthenticated, codes.Unauthenticated},
		"the token alone": {x509.Certificate{Subject: pkix.Name{CommonName: "shop"}}, token,
			codes.Unauthenticated, codes.Unauthenticated},
		"a token counts": {x509.Certificate{Subject: pkix.Name{CommonName: "fay"}}, other,
			codes.OK, codes.PermissionDenied},
	} {
		pair := a.pair(&c.template)
		config := &tls.Config{
			RootCAs:      a.pool(),
			ServerName:   "node.test",
			Certificates: []tls.Certificate{pair},
		}
		conn, err := grpc.NewClient(n.conn.Target(),
			grpc.WithTransportCredentials(credentials.NewTLS(config)))
		h.must(err)
		ctx := h.ctx
		if c.token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
		}
		_, err = pb.NewSubmitterServiceClient(conn).ListSubmitters(ctx, &pb.ListSubmittersRequest{})
		if got := grpcstatus.Code(err); got != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		_, err = pb.NewSubmitterServiceClient(conn).UpdateSubmitter(ctx,
			&pb.UpdateSubmitterRequest{Submitter: "alice"})
		if got := grpcstatus.Code(err); got != c.operator {
			t.Errorf("%s: operator call: %v, want %v", name, err, c.operator)
		}
		stream, err := pb.NewTxServiceClient(conn).WatchTx(ctx, watchSubmitter("alice"))
		if err == nil {
			_, err = stream.Recv()
		}
		if got := grpcstatus.Code(err); got != c.want {
			t.Errorf("%s: watch: %v, want %v", name, err, c.want)
		}
		h.must(conn.Close())
		for _, protocol := range [][]string{{"http/1.1"}, {"h2"}, nil} {
			for _, path := range []string{"/api/v1/submitters", "/api/v1/submitters/alice/events"} {
				if got, want := n.secureGet(config, protocol, path, c.token),
					cmp.Or(web.HTTPStatus(c.want), http.StatusOK); got != want {
					t.Errorf("%s: %s over %v: %d, want %d", name, path, protocol, got, want)
				}
			}
		}
	}
}

// secureGet requests a path over TLS, and returns the HTTP status.
func (n *node) secureGet(config *tls.Config, protocols []string, path, token string) int {
	n.t.Helper()
	transport := &http.Transport{TLSClientConfig: config.Clone(), Protocols: new(http.Protocols)}
	transport.TLSClientConfig.NextProtos = protocols // nil: no ALPN
	transport.Protocols.SetHTTP1(!slices.Contains(protocols, "h2"))
	transport.Protocols.SetHTTP2(slices.Contains(protocols, "h2"))
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(n.ctx, http.MethodGet, "https://"+n.conn.Target()+path,
		nil)
	n.must(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	n.must(err)
	defer answer.Body.Close()
	return answer.StatusCode
}
