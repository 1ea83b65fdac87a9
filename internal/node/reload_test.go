package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/auth"
)

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	lines chan string
}

func (l logBuffer) Write(p []byte) (int, error) {
	l.lines <- string(bytes.TrimSpace(p))
	return len(p), nil
}

// writePair writes a self-signed certificate and its key into one file, so that no reader gets the
// old certificate with the new key.
func writePair(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{name},
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})...)
	put(t, filepath.Join(dir, "pair.pem"), string(text))
}

// put replaces a file atomically, like a secret mount.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

const (
	tokenA = "a-0123456789abcdef"
	tokenB = "b-0123456789abcdef"
	tokenC = "c-0123456789abcdef"
)

// Certificates and tokens are reloaded when their files change, and on a signal. Invalid files
// change nothing, and are reported once.
func TestCredentialReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	writePair(t, dir, "one.test")
	put(t, file("tokens"), tokenA)
	cfg := &config.Config{
		GRPC: config.GRPC{
			TLS:            config.TLS{CertFile: file("pair.pem"), KeyFile: file("pair.pem")},
			ReloadInterval: time.Minute,
		},
		Callers: []config.Caller{
			{
				Name:       "shop",
				TokensFile: file("tokens"),
				Submitters: []string{"alice"},
				Role:       "operator",
			},
		},
	}
	log := logBuffer{make(chan string, 100)}
	d, err := newCredentialReloader(cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if c := d.first.callers[0]; c.Name != "shop" || !slices.Equal(c.Tokens, []string{tokenA}) ||
		!c.Operator ||
		!slices.Equal(c.Submitters, []string{"alice"}) {
		t.Errorf("the caller is %v", c)
	}
	set := make(chan []string, 10)
	signals, fake := make(chan os.Signal, 1), clock.NewFake(time.Now())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- d.run(
			ctx, fake, signals,
			func(_ []string, callers []auth.Caller) { set <- callers[0].Tokens },
		)
	}()
	defer func() { stop(); <-done }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	next := func(what, says string) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			select {
			case line := <-log.lines:
				if !strings.Contains(line, says) || strings.Contains(line, "0123456789") {
					t.Errorf("%s: logged %s", what, line)
				}
				return
			case <-tick.C:
				fake.Advance(time.Minute)
			case <-limit:
				t.Fatalf("%s: nothing logged", what)
			}
		}
	}
	inForce := func(what, name string, tokens ...string) {
		t.Helper()
		select {
		case got := <-set:
			if !slices.Equal(got, tokens) {
				t.Errorf("%s: in force are %v, want %v", what, got, tokens)
			}
		default:
			if len(tokens) > 0 {
				t.Errorf("%s: nothing is set", what)
			}
		}
		if got := d.shown(t); got != name {
			t.Errorf("%s: callers meet %s, want %s", what, got, name)
		}
	}
	inForce("at first", "one.test")

	put(t, file("tokens"), tokenA+"\n"+tokenB)
	next("another token", "credentials reloaded")
	inForce("another token", "one.test", tokenA, tokenB)

	put(t, file("tokens"), "what")
	next("a file that is none", "line 1 of")
	inForce("a file that is none", "one.test")

	writePair(t, dir, "two.test") // the other file is still wrong
	next("half of it", "callers[0].tokens_file: line 1 of")
	inForce("half of it", "one.test")

	put(t, file("tokens"), tokenC)
	next("all in order", "certificate_ends=")
	inForce("all in order", "two.test", tokenC)

	signals <- syscall.SIGHUP
	next("a signal", restartNote)
	inForce("a signal", "two.test", tokenC)
	if err := os.Remove(file("pair.pem")); err != nil {
		t.Fatal(err)
	}
	next("no key", "give the PEM files of a certificate and its key")
	inForce("no key", "two.test")
	for range 10 { // not reported again
		<-tick.C
		fake.Advance(time.Minute)
	}
	select {
	case line := <-log.lines:
		t.Errorf("the log repeats %s", line)
	default:
	}
}

// A file that is written over, rather than replaced, is not believed before all of it is there.
func TestCredentialReload_PartialFile_Ignored(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokenA + "\n" + tokenB)
	d, err := newCredentialReloader(
		&config.Config{GRPC: config.GRPC{TokensFile: file, ReloadInterval: time.Minute}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	fake, set := clock.NewFake(time.Now()), make(chan []string, 10)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- d.run(
			ctx, fake, make(chan os.Signal),
			func(tokens []string, _ []auth.Caller) { set <- tokens },
		)
	}()
	defer func() { stop(); <-done }()
	waits := func(whatFor time.Duration) { // until the credentialReloader waits for so long
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for limit := time.After(time.Minute); ; {
			if due, ok := fake.Next(); ok && due.Sub(fake.Now()) == whatFor {
				return
			}
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("the credentialReloader never waits for %v", whatFor)
			}
		}
	}
	waits(time.Minute)
	// the latter is all
	for _, half := range []string{tokenA, tokenA + "\n" + tokenB + "\n" + tokenC} {
		write(half)
		if half == tokenA {
			fake.Advance(time.Minute)
		} else {
			fake.Advance(settleTime)
		}
		waits(settleTime)
	}
	fake.Advance(settleTime)
	if got := <-set; !slices.Equal(got, []string{tokenA, tokenB, tokenC}) {
		t.Errorf("in force are %v", got)
	}
	waits(time.Minute)
	if len(set) > 0 {
		t.Errorf("then %v are in force", <-set)
	}
}

// shown is the name of the certificate that callers meet.
func (d *credentialReloader) shown(t *testing.T) string {
	t.Helper()
	a, b := pipe(t)
	handshake := make(chan error, 1)
	go func() { handshake <- tls.Server(a, d.serverTLS()).Handshake() }()
	client := tls.Client(b,
		//nolint:gosec // the test checks the certificate itself
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-handshake; err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().PeerCertificates[0].DNSNames[0]
}

func pipe(t *testing.T) (a, b net.Conn) {
	t.Helper()
	a, b = net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// A token shared by two callers is rejected.
func TestReadAccess_SharedToken_Rejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), tokenA+"\n"+tokenA)
	put(t, filepath.Join(dir, "b"), tokenB+"\n"+tokenA)
	cfg := &config.Config{
		Callers: []config.Caller{
			{Name: "a", TokensFile: filepath.Join(dir, "a")},
			{Name: "b", TokensFile: filepath.Join(dir, "b")},
		},
	}
	_, err := readAccess(cfg)
	if len(err) == 0 || !strings.Contains(err.Error(), `callers[1].tokens_file: `) ||
		!strings.Contains(err.Error(), `caller "a"`) ||
		strings.Contains(err.Error(), tokenA) {
		t.Errorf("gave %v", err)
	}
	cfg.Callers = cfg.Callers[:1]
	if _, err := readAccess(cfg); len(err) > 0 {
		t.Errorf("the same token twice of one caller: %v", err)
	}
}
