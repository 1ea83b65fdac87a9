package store

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/txn"
)

func TestPositionText(t *testing.T) {
	t.Parallel()
	snapshot := rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "none") {
			return ""
		}
		xmin := rapid.Uint64Range(1, 1<<62-1).Filter(
			func(xid uint64) bool { return uint32(xid) != 0 }).Draw(t, "xmin")
		gaps := rapid.SliceOfN(rapid.Uint64Range(1, 1<<20), 0, 40).Draw(t, "gaps")
		xid, list := xmin, []string(nil)
		for i, gap := range gaps {
			if i > 0 {
				xid += gap
			}
			list = append(list, fmt.Sprint(xid))
		}
		xmax := xid + rapid.Uint64Range(1, 9).Draw(t, "above")
		if uint32(xmax) == 0 {
			xmax++
		}
		return fmt.Sprintf("%d:%d:%s", xmin, xmax, strings.Join(list, ","))
	})
	rapid.Check(t, func(t *rapid.T) {
		p := Position{
			Epoch:    rapid.Int64Range(0, 1<<60).Draw(t, "epoch"),
			Timeline: rapid.Int64Range(0, 1<<31).Draw(t, "timeline"),
			Seen:     snapshot.Draw(t, "seen"),
			Until:    snapshot.Draw(t, "until"),
		}
		if rapid.Bool().Draw(t, "within") {
			p.After = EventKey{
				Xid: fmt.Sprint(
					rapid.Uint64Range(1, 1<<62).Draw(t, "xid")),
				Submitter: txn.SubmitterID(rapid.Int32Range(1, 1<<30).Draw(t, "submitter")),
				Seq:       rapid.Int64Range(1, 1<<60).Draw(t, "seq"),
			}
			copy(p.After.Tx[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "tx"))
		}
		token := p.String()
		got, err := ParsePosition(token)
		if err != nil || got != p {
			t.Fatalf("%+v came back as %+v (%v)", p, got, err)
		}
		// No other token reads as well: not one that is cut, nor one with a letter changed.
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		if _, err := ParsePosition(token[:at]); err == nil {
			t.Fatalf("a token that was cut to %d characters is read", at)
		}
		letter := byte('A')
		if token[at] == letter {
			letter = 'B'
		}
		if _, err := ParsePosition(token[:at] + string(letter) + token[at+1:]); err == nil {
			t.Fatalf("a token whose character %d was changed is read", at)
		}
	})
}

func TestParsePosition_Garbage_NoPanic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		p, err := ParsePosition(base64.RawURLEncoding.EncodeToString(signed(body)))
		if err == nil && p.String() == "" {
			t.Fatal("an empty token")
		}
	})
	for _, token := range []string{"", "!", "AAAA", strings.Repeat("A", maxPositionLength+1)} {
		if _, err := ParsePosition(token); !errors.Is(err, errPosition) {
			t.Errorf("%.10q: %v", token, err)
		}
	}
}

// TestPosition_TextIsShort even where many transactions are under way.
func TestPosition_TextIsShort(t *testing.T) {
	t.Parallel()
	var list []string
	for n := range 500 {
		list = append(list, fmt.Sprint(1<<40+3+n*7))
	}
	snapshot := fmt.Sprintf("%d:%d:%s", 1<<40+3, 1<<41+3, strings.Join(list, ","))
	p := Position{Epoch: 1, Seen: snapshot, Until: snapshot}
	got, err := ParsePosition(p.String())
	if err != nil || got != p || len(p.String()) > 2000 {
		t.Fatalf("%d characters, %v", len(p.String()), err)
	}
}

func TestHead_Holds(t *testing.T) {
	t.Parallel()
	h := Head{Epoch: 7, Timeline: 3, Next: 200, Before: 2, Begin: 150}
	for name, c := range map[string]struct {
		at   Position
		want bool
	}{
		"now":                       {Position{Epoch: 7, Timeline: 3, Seen: "190:200:"}, true},
		"another ledger":            {Position{Epoch: 8, Timeline: 3, Seen: "190:200:"}, false},
		"the future":                {Position{Epoch: 7, Timeline: 3, Seen: "190:201:"}, false},
		"a batch of the future":     {Position{7, 3, "190:200:", "200:300:", EventKey{}}, false},
		"before the fail-over":      {Position{Epoch: 7, Timeline: 2, Seen: "140:150:"}, true},
		"lost by the fail-over":     {Position{Epoch: 7, Timeline: 2, Seen: "140:151:"}, false},
		"a batch lost by it":        {Position{7, 2, "140:150:", "150:151:", EventKey{}}, false},
		"before an older fail-over": {Position{Epoch: 7, Timeline: 1, Seen: "1:1:"}, false},
	} {
		if got := h.Holds(c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	h.Before, h.Begin = 0, 0
	if h.Holds(Position{Epoch: 7, Seen: "1:1:"}) {
		t.Error("a position of an unknown timeline is held without a fail-over")
	}
}
