package node

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/auth"
)

// doorkeeper keeps who may call as the files have it now. They are looked at again and again: certificates are renewed and tokens are replaced while a node runs.
// What is not in order is told once, and what was read before stays in force.
type doorkeeper struct {
	cfg   *config.Config
	log   *slog.Logger
	first access
	tls   atomic.Pointer[tls.Config]
	seen  [sha256.Size]byte // of the files as they were read last, in order or not
}

func newDoorkeeper(cfg *config.Config, log *slog.Logger) (*doorkeeper, error) {
	d := &doorkeeper{cfg: cfg, log: log, seen: fingerprint(cfg)}
	var wrong faults
	if d.first, wrong = readAccess(cfg); len(wrong) > 0 {
		return nil, wrong.problems(cfg)
	}
	d.tls.Store(d.first.tls)
	return d, nil
}

// credentials are those that callers meet; nil is plain text.
func (d *doorkeeper) credentials() credentials.TransportCredentials {
	if d.first.tls == nil {
		return nil
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: d.first.tls.NextProtos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return d.tls.Load(), nil },
	})
}

// run looks at the files until ctx ends: at each interval whether they have changed, and on each signal at what they hold, changed or not.
func (d *doorkeeper) run(ctx context.Context, c clock.Clock, signals <-chan os.Signal,
	set func([]string, []auth.Caller)) error {
	if len(accessFiles(d.cfg)) == 0 {
		<-ctx.Done()
		return nil
	}
	timer := c.NewTimer(d.cfg.GRPC.ReloadInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			d.look(ctx, c, false, set)
		case <-signals:
			d.look(ctx, c, true, set)
		case <-ctx.Done():
			return nil
		}
		timer.Reset(d.cfg.GRPC.ReloadInterval)
	}
}

const (
	// settleTime is how long files that have changed must stay as they are before they are believed: some programs do not put a file in the place of another but write
	// over it, and half a list of tokens would lock the other half out.
	settleTime = time.Second
	settles    = 10 // times that it is waited for
)

// settled waits until the files stay as they are, and returns their fingerprint.
func (d *doorkeeper) settled(ctx context.Context, c clock.Clock,
	now [sha256.Size]byte) (sum [sha256.Size]byte, are bool) {
	for range settles {
		if clock.Sleep(ctx, c, settleTime) != nil {
			return now, false
		}
		before := now
		if now = fingerprint(d.cfg); now == before {
			return now, true
		}
	}
	d.log.Warn(
		"the files of certificates and tokens of callers change all the time; what was read before stays in force",
		"files", accessFiles(d.cfg))
	return now, false
}

// restartNote is told whoever asks for a look.
const restartNote = "the list of callers itself, their submitters, roles and names of certificates, counts from the next start of the node"

func (d *doorkeeper) look(ctx context.Context, c clock.Clock, asked bool,
	set func([]string, []auth.Caller)) {
	now := fingerprint(d.cfg)
	if now == d.seen && !asked {
		return
	}
	if now != d.seen {
		var are bool
		if now, are = d.settled(ctx, c, now); !are {
			return
		}
	}
	a, wrong := readAccess(d.cfg)
	if fingerprint(d.cfg) != now {
		return // they changed while they were read: at the next look
	}
	d.seen = now
	if len(wrong) > 0 {
		d.log.Error(
			"the certificates and tokens of callers cannot be read anew; those that were read before stay in force",
			"error", wrong)
		return
	}
	d.tls.Store(a.tls)
	set(a.tokens, a.callers)
	attributes := []any{"files", accessFiles(d.cfg), "tokens", a.count()}
	if a.tls != nil {
		attributes = append(attributes, "certificate_ends",
			a.tls.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if asked {
		attributes = append(attributes, "note", restartNote)
	}
	d.log.Info("the certificates and tokens of callers are read anew, and in force", attributes...)
}

// fingerprint changes with what the files hold. Their times do not tell: secrets are mounted by replacing links.
func fingerprint(cfg *config.Config) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range accessFiles(cfg) {
		text, err := os.ReadFile(file)
		fmt.Fprintf(h, "%d %v\n", len(text), err)
		h.Write(text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
