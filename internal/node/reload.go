package node

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/auth"
)

// credentialReloader holds the credentials in force and reloads them when their files change:
// certificates are renewed, and tokens and callers replaced, while a node runs. Invalid files are
// reported once, and the credentials in force stay.
type credentialReloader struct {
	cfg   *config.Config                 // with the callers in force
	next  *config.Config                 // whose files could not be used; nil: none
	load  func() (*config.Config, error) // reads the configuration again; nil: only its files
	file  string                         // of the configuration; empty: none
	fails metric.Int64Counter            // nil: not counted
	log   *slog.Logger
	first access
	tls   atomic.Pointer[tls.Config]
	seen  [sha256.Size]byte // of the files last read, valid or not
}

func newCredentialReloader(cfg *config.Config, log *slog.Logger) (*credentialReloader, error) {
	d := &credentialReloader{cfg: cfg, log: log}
	d.seen = d.fingerprint()
	var wrong faults
	if d.first, wrong = readAccess(cfg); len(wrong) > 0 {
		return nil, wrong.problems(cfg)
	}
	d.tls.Store(d.first.tls)
	return d, nil
}

// serverTLS is the TLS configuration of the server; nil: plain text.
func (d *credentialReloader) serverTLS() *tls.Config {
	if d.first.tls == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: d.first.tls.NextProtos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return d.tls.Load(), nil
		},
	}
}

// certificate returns the server's certificate in force; nil with plain text.
func (d *credentialReloader) certificate() *x509.Certificate {
	if t := d.tls.Load(); t != nil {
		return t.Certificates[0].Leaf
	}
	return nil
}

// run checks the files until ctx ends: for changes at each interval, and unconditionally on a
// signal.
func (d *credentialReloader) run(ctx context.Context, c clock.Clock, signals <-chan os.Signal,
	set func([]string, []auth.Caller)) error {
	if len(d.files()) == 0 {
		<-ctx.Done()
		return nil
	}
	timer := c.NewTimer(d.cfg.GRPC.ReloadInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			d.check(ctx, c, false, set)
		case <-signals:
			d.check(ctx, c, true, set)
		case <-ctx.Done():
			return nil
		}
		timer.Reset(d.cfg.GRPC.ReloadInterval)
	}
}

const (
	// settleTime is how long changed files must stay unchanged before they are read. Some programs
	// overwrite files in place, and half a list of tokens would lock out the other half.
	settleTime = time.Second
	settles    = 10 // attempts
)

// settled waits until the files stay unchanged, and returns their fingerprint.
func (d *credentialReloader) settled(ctx context.Context, c clock.Clock,
	now [sha256.Size]byte) (sum [sha256.Size]byte, are bool) {
	for range settles {
		if clock.Sleep(ctx, c, settleTime) != nil {
			return now, false
		}
		before := now
		if now = d.fingerprint(); now == before {
			return now, true
		}
	}
	d.log.Warn(
		"credential files keep changing; reload skipped",
		"files", d.files())
	return now, false
}

// restartNote is logged with a requested reload.
const restartNote = "only callers and the files of credentials are reloaded; other keys need a " +
	"restart"

// follow makes the reloader read the callers of a configuration file again.
func (d *credentialReloader) follow(file string, load func() (*config.Config, error)) {
	d.file, d.load = file, load
	d.seen = d.fingerprint()
}

// configured returns the configuration with the callers that it has now. All other keys keep the
// values that the node started with.
func (d *credentialReloader) configured() (*config.Config, error) {
	if d.load == nil {
		return d.cfg, nil
	}
	now, err := d.load()
	if err != nil {
		return nil, err
	}
	if (len(now.Callers) == 0) != (len(d.cfg.Callers) == 0) {
		return nil, errors.New("the first caller was added, or the last one removed; " +
			"restart the node to open or to close the API")
	}
	merged := *now // with the positions of the callers in the file
	merged.GRPC = d.cfg.GRPC
	return &merged, nil
}

// failed reports a failed reload.
func (d *credentialReloader) failed(what string, err error) {
	d.log.Error(what, "error", err)
	if d.fails != nil {
		d.fails.Add(context.Background(), 1)
	}
}

// files are the files that are read again. Those of callers that are not in force yet count, too: a
// token file may appear after the configuration that names it.
func (d *credentialReloader) files() []string {
	files := accessFiles(d.cfg)
	if d.next != nil {
		files = append(files, accessFiles(d.next)...)
	}
	if d.load != nil && d.file != "" {
		files = append(files, d.file)
	}
	return files
}

func (d *credentialReloader) check(ctx context.Context, c clock.Clock, asked bool,
	set func([]string, []auth.Caller)) {
	now := d.fingerprint()
	if now == d.seen && !asked {
		return
	}
	if now != d.seen {
		var are bool
		if now, are = d.settled(ctx, c, now); !are {
			return
		}
	}
	cfg, err := d.configured()
	if err != nil {
		d.seen = now
		d.failed("configuration reload failed; previous callers and credentials stay in force",
			err)
		return
	}
	files := d.files()
	d.next = cfg
	before := d.fingerprint() // of its files, too
	a, wrong := readAccess(cfg)
	if fingerprint(files) != now {
		return // they changed while they were read; retried at the next check
	}
	if len(wrong) > 0 {
		d.seen = before
		d.failed("credential reload failed; previous credentials stay in force", wrong)
		return
	}
	d.cfg, d.next = cfg, nil
	d.seen = d.fingerprint() // of the files that the new callers name
	d.tls.Store(a.tls)
	set(a.tokens, a.callers)
	warnOfApprovers(cfg, d.log)
	attributes := []any{"files", d.files(), "tokens", a.count()}
	if a.tls != nil {
		attributes = append(attributes, "certificate_ends",
			a.tls.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if asked {
		attributes = append(attributes, "note", restartNote)
	}
	d.log.Info("credentials reloaded", attributes...)
}

// fingerprint is a hash of the files' content. Modification times are unreliable: mounted secrets
// are replaced by links.
func (d *credentialReloader) fingerprint() [sha256.Size]byte { return fingerprint(d.files()) }

func fingerprint(files []string) [sha256.Size]byte {
	h := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		fmt.Fprintf(h, "%d %v\n", len(text), err)
		h.Write(text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
