package store

import (
	"errors"
	"strings"
	"testing"
)

// TestDirectory_NoSchema_NamesCommand: the errors of a ledger whose directory has no tables.
func TestDirectory_NoSchema_NamesCommand(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	empty := k.blank()
	k.exec("CREATE SCHEMA " + empty)
	directory := k.open("d", func(c *Config) {
		c.URL, c.Schema = k.db.URL, empty
		c.Keys = Keys{Section: "directory", Flag: "--directory"}
	})
	s := k.open("a", func(c *Config) { c.Directory = directory })
	_, sealed := s.SealMoved(k.ctx)
	k.exec("UPDATE ledger SET directory_no = 1, ledger_name = 'eu1'")
	_, sealedJoined := s.SealMoved(k.ctx)
	_, _, registered := s.Register(k.ctx, Registration{Name: "zoe", Chain: 1, Signer: "keys",
		Mode: "STRICT", StartFrom: "0"})
	for verb, err := range map[string]error{"seal": sealed, "seal joined": sealedJoined,
		"register": registered, "check": directory.CheckSchema(k.ctx)} {
		if !errors.Is(err, ErrSchema) ||
			!strings.Contains(err.Error(), `run "fencepost migrate up --directory"`) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
