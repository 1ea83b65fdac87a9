package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/store/internal/db"
)

func TestMove_WhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is    db.MoveStateRow
		fails bool
		want  []string
	}{
		"nothing": {db.MoveStateRow{}, false, nil},
		"one reserved nonce": {db.MoveStateRow{Reserved: 1}, true,
			[]string{" 1 nonce ", `"fencepost nonce list hot"`}},
		"nonces": {db.MoveStateRow{Reserved: 2}, true,
			[]string{" 2 nonces ", `"fencepost nonce list hot"`}},
		"one approval": {db.MoveStateRow{Awaiting: 1}, true,
			[]string{" 1 transaction ", "--submitter hot --awaiting-approval"}},
		"one in flight": {db.MoveStateRow{OpenTxs: 1}, false, []string{"1 transaction in flight"}},
		"in flight":     {db.MoveStateRow{OpenTxs: 2}, false, []string{"2 transactions in flight"}},
		"one top-up":    {db.MoveStateRow{TopUps: 1}, false, []string{"1 top-up "}},
		"one request": {db.MoveStateRow{Requests: 1}, false,
			[]string{"1 command or nonce request ", `"fencepost submitter log hot"`}},
		"requests": {db.MoveStateRow{Requests: 3}, false,
			[]string{"3 commands or nonce requests ", `"fencepost submitter log hot"`}},
	} {
		c.is.Name = "hot"
		waits, err := whatIsLeft(c.is)
		if err != nil {
			waits += err.Error()
		}
		if errors.Is(err, ErrCannotMove) != c.fails || (waits == "") != (c.want == nil) {
			t.Errorf("%s: %q, %v", name, waits, err)
		}
		for _, part := range c.want {
			if !strings.Contains(waits, part) {
				t.Errorf("%s: %q lacks %q", name, waits, part)
			}
		}
	}
}
