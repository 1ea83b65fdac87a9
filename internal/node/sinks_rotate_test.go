package node

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/fencepost/fencepost/internal/config"
)

// rotation is a broker whose authority is replaced, and the files of its client.
type rotation struct {
	t       *testing.T
	dir     string
	serving atomic.Pointer[tls.Config]
}

// replace makes the broker accept and use only certificates of a new authority, and writes such
// ones to the files of the client.
func (r *rotation) replace(name string) {
	r.t.Helper()
	a := newAuthority(r.t, r.t.TempDir(), name)
	a.issue("client", &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for to, from := range map[string]string{"ca": name, "cert": "client", "key": "client-key"} {
		text, err := os.ReadFile(a.file(from))
		if err != nil {
			r.t.Fatal(err)
		}
		put(r.t, filepath.Join(r.dir, to+".pem"), string(text))
	}
	r.serving.Store(a.serving("127.0.0.1", true))
}

func (r *rotation) client() config.SinkTLS {
	return config.SinkTLS{Enabled: true, CAFile: filepath.Join(r.dir, "ca.pem"),
		CertFile: filepath.Join(r.dir, "cert.pem"), KeyFile: filepath.Join(r.dir, "key.pem")}
}

func (r *rotation) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.serving.Load(), nil
		}}
}

// listener keeps the connections that it accepted.
type listener struct {
	net.Listener
	mu       sync.Mutex
	accepted []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.accepted = append(l.accepted, conn)
	}
	return conn, err
}

func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.accepted {
		_ = conn.Close()
	}
	l.accepted = nil
}

// kafka starts a broker, and returns a sink and how to end its connections.
func (r *rotation) kafka() (config.Sink, func()) {
	l := &listener{}
	cluster := kafkaCluster(r.t, kfake.TLS(r.server()), kfake.EnableSASL(),
		kfake.User("PLAIN", "app", "secret"),
		kfake.ListenFn(func(network, address string) (_ net.Listener, err error) {
			l.Listener, err = net.Listen(network, address)
			return l, err
		}))
	put(r.t, filepath.Join(r.dir, "password"), "secret\n")
	return config.Sink{Kind: "kafka", Format: "structured", Kafka: config.SinkKafka{
		Brokers: cluster.ListenAddrs(), Topic: "events", SASL: "PLAIN", Username: "app",
		PasswordFile: filepath.Join(r.dir, "password"), TLS: r.client(),
		Timeout: 10 * time.Second}}, l.cut
}

// nats starts a server, and returns a sink and how to end its connections.
func (r *rotation) nats() (config.Sink, func()) {
	s := natsServer(r.t, r.server())
	return config.Sink{Kind: "nats", Format: "structured", NATS: config.SinkNATS{
			Servers: []string{"nats://" + s.Addr().String()}, Stream: "EVENTS",
			Subject: "events", TLS: r.client(), Timeout: 10 * time.Second}},
		func() { disconnectAll(r.t, s) }
}

func disconnectAll(t *testing.T, s *server.Server) {
	t.Helper()
	all, err := s.Connz(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Conns {
		_ = s.DisconnectClientByID(c.Cid) // it may be gone
	}
}

// TestBrokers_CertificatesReplaced_UsedByNextConnection: a sink that is open uses new files of
// authority, certificate and key for its next connection. Files that cannot be read change nothing.
func TestBrokers_CertificatesReplaced_UsedByNextConnection(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*rotation) (config.Sink, func()){
		"kafka": (*rotation).kafka, "nats": (*rotation).nats,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rotation{t: t, dir: t.TempDir()}
			r.replace("before")
			settings, cut := start(r)
			open, err := sinkOpener(settings)
			if err != nil {
				t.Fatal(err)
			}
			s, err := open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := deliverTo(t, s); err != nil {
				t.Fatal(err)
			}
			connected := func(when string) {
				t.Helper()
				cut()
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				limit := time.After(2 * time.Minute)
				for err := deliverTo(t, s); err != nil; err = deliverTo(t, s) {
					select {
					case <-tick.C:
					case <-limit:
						t.Fatalf("%s: %v", when, err)
					}
				}
			}
			r.replace("after")
			connected("certificates replaced")
			put(t, filepath.Join(r.dir, "cert.pem"), "half of a certificate")
			connected("a file is damaged")
		})
	}
}
