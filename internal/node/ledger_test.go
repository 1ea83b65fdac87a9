package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/store"
)

// TestStart_WrongSetup_Fails: a database that refuses the login ends the start with the remedy.
func TestStart_WrongSetup_Fails(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("store: check the schema: %w: %w", store.ErrUnavailable,
		store.ErrAccessDenied)
	for name, c := range map[string]struct {
		answers []error
		want    string // of the error; empty: none
		warned  int
	}{
		"at once": {
			[]error{away}, `database.url, database "orders" at db.example.org:5432: `, 0,
		},
		"after an outage": {[]error{store.ErrUnavailable, away, nil}, "", 2},
		"no schema":       {[]error{store.ErrSchema}, store.ErrSchema.Error(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &config.Config{}
			cfg.Database.URL = config.NewSecret("postgres://fence:s3cret@db.example.org/orders")
			var log bytes.Buffer
			n := &ledger{cfg: cfg, log: slog.New(slog.NewTextHandler(&log, nil))}
			tries := 0
			err := n.findLedger(t.Context(), func() {},
				func(context.Context) error { tries++; return c.answers[tries-1] })
			if (err == nil) != (c.want == "") ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if tries != len(c.answers) ||
				strings.Count(log.String(), "database unavailable; retrying") != c.warned {
				t.Errorf("tried %d times and said\n%s", tries, log.String())
			}
			if all := fmt.Sprint(err) + log.String(); strings.Contains(all, "s3cret") {
				t.Errorf("the password is in the error: %s", all)
			}
		})
	}
}
