package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/txn"
)

// authority issues certificates to files of a folder.
type authority struct {
	t    *testing.T
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes its own certificate to NAME.pem.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir, name: name}
	a.cert, a.key = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return a
}

// file is the path of an issued certificate, or with "-key" of its key.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

func (a *authority) issue(name string, form *x509.Certificate) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	form.SerialNumber = big.NewInt(time.Now().UnixNano())
	form.Subject.CommonName = name
	form.NotBefore, form.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name: {Type: "CERTIFICATE", Bytes: der}, name + "-key": {Type: "PRIVATE KEY", Bytes: raw},
	} {
		put(a.t, a.file(file), string(pem.EncodeToMemory(block)))
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// serving is the TLS configuration of a server with this name or address. It requires certificates
// of clients that the authority issued, if they are to have one.
func (a *authority) serving(name string, clients bool) *tls.Config {
	a.t.Helper()
	form := &x509.Certificate{DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		form.DNSNames, form.IPAddresses = nil, []net.IP{ip}
	}
	file := "server-" + strings.ReplaceAll(name, ":", "-")
	a.issue(file, form)
	pair, err := tls.LoadX509KeyPair(a.file(file), a.file(file+"-key"))
	if err != nil {
		a.t.Fatal(err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if clients {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		c.ClientCAs.AddCert(a.cert)
	}
	return c
}

// brokerTimeout is long enough for a broker on a busy machine. One that must not be reached gets
// the shortest that the configuration allows.
func brokerTimeout(reachable bool) time.Duration {
	if reachable {
		return time.Minute
	}
	return time.Second
}

// deliverOne opens a sink and delivers an event.
func deliverOne(t *testing.T, kind config.Sink) error {
	t.Helper()
	open, err := sinkOpener(kind)
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context())
	if err != nil {
		return err
	}
	defer s.Close()
	return deliverTo(t, s)
}

func deliverTo(t *testing.T, s sink.Sink) error {
	t.Helper()
	id := txn.TxID{15: 1}
	event := &sink.Event{Tx: id, Seq: 1, Kind: txn.EventIncluded, At: time.Now(),
		Content: &pb.SinkEvent{Id: id.String() + "/1"}}
	if got := s.Deliver(t.Context(), []*sink.Event{event}); got[0].Verdict != sink.Done {
		return fmt.Errorf("delivery: %s", got[0].Cause)
	}
	return nil
}

// tlsCase is a way to connect to a broker.
type tlsCase struct {
	server string // name or address in its certificate
	strict bool   // it requires certificates of clients
	with   func(ours, other *authority) config.SinkTLS
	fails  bool
}

func tlsCases() map[string]tlsCase {
	trusting := func(ours, _ *authority) config.SinkTLS {
		return config.SinkTLS{Enabled: true, CAFile: ours.file("ours")}
	}
	const local = "127.0.0.1"
	return map[string]tlsCase{
		"trusted": {server: local, with: trusting},
		"plain text": {server: local, fails: true,
			with: func(*authority, *authority) config.SinkTLS { return config.SinkTLS{} }},
		"unknown authority": {server: local, fails: true,
			with: func(_, other *authority) config.SinkTLS {
				return config.SinkTLS{Enabled: true, CAFile: other.file("other")}
			}},
		"authorities of the system": {server: local, fails: true,
			with: func(*authority, *authority) config.SinkTLS {
				return config.SinkTLS{Enabled: true}
			}},
		"other name":            {server: "other.test", fails: true, with: trusting},
		"no client certificate": {server: local, strict: true, fails: true, with: trusting},
		"client certificate": {server: local, strict: true,
			with: func(ours, _ *authority) config.SinkTLS {
				return config.SinkTLS{Enabled: true, CAFile: ours.file("ours"),
					CertFile: ours.file("client"), KeyFile: ours.file("client-key")}
			}},
		"client certificate of another authority": {server: local, strict: true, fails: true,
			with: func(ours, other *authority) config.SinkTLS {
				return config.SinkTLS{Enabled: true, CAFile: ours.file("ours"),
					CertFile: other.file("stranger"), KeyFile: other.file("stranger-key")}
			}},
	}
}

// connect returns the server's and the client's side of a case.
func (c tlsCase) connect(t *testing.T) (*tls.Config, config.SinkTLS) {
	t.Helper()
	dir := t.TempDir()
	ours, other := newAuthority(t, dir, "ours"), newAuthority(t, dir, "other")
	ours.issue("client", &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	other.issue("stranger", &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return ours.serving(c.server, c.strict), c.with(ours, other)
}

func kafkaCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1),
		kfake.SeedTopics(1, "events"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func TestKafka_TLS(t *testing.T) {
	t.Parallel()
	for name, c := range tlsCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serves, connects := c.connect(t)
			cluster := kafkaCluster(t, kfake.TLS(serves))
			err := deliverOne(t, config.Sink{Kind: "kafka", Format: "structured",
				Kafka: config.SinkKafka{Brokers: cluster.ListenAddrs(), Topic: "events",
					SASL: "none", TLS: connects, Timeout: brokerTimeout(!c.fails)}})
			if (err != nil) != c.fails {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestKafka_SASL(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			serves, connects := tlsCases()["trusted"].connect(t)
			cluster := kafkaCluster(t, kfake.TLS(serves), kfake.EnableSASL(),
				kfake.User(mechanism, "app", "secret"))
			for password, fails := range map[string]bool{"secret": false, "wrong": true} {
				file := filepath.Join(t.TempDir(), "password")
				put(t, file, password+"\n")
				err := deliverOne(t, config.Sink{Kind: "kafka", Format: "structured",
					Kafka: config.SinkKafka{Brokers: cluster.ListenAddrs(), Topic: "events",
						SASL: mechanism, Username: "app", PasswordFile: file, TLS: connects,
						Timeout: brokerTimeout(!fails)}})
				if (err != nil) != fails {
					t.Errorf("password %q: %v", password, err)
				}
				if err != nil && strings.Contains(err.Error(), password) {
					t.Errorf("the error has the password: %v", err)
				}
			}
		})
	}
}

func TestNATS_TLS(t *testing.T) {
	t.Parallel()
	for name, c := range tlsCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serves, connects := c.connect(t)
			address := natsServer(t, serves).Addr().String()
			err := deliverOne(t, config.Sink{Kind: "nats", Format: "structured",
				NATS: config.SinkNATS{Servers: []string{"nats://" + address}, Stream: "EVENTS",
					Subject: "events", TLS: connects, Timeout: brokerTimeout(!c.fails)}})
			if (err != nil) != c.fails {
				t.Errorf("got %v", err)
			}
		})
	}
}

// natsServer starts a server with a stream.
func natsServer(t *testing.T, serves *tls.Config) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoSigs: true, Host: "127.0.0.1", TLS: true, TLSConfig: serves,
		TLSVerify: serves.ClientAuth == tls.RequireAndVerifyClientCert, TLSTimeout: 60})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("nats-server is not ready")
	}
	// A connection within the process needs no certificate.
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS",
		Subjects: []string{"events"}}); err != nil {
		t.Fatal(err)
	}
	return s
}
