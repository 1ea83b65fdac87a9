package audit

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store"
)

func TestExport_Changed_Refused(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := ed25519.GenerateKey(nil)
	var text bytes.Buffer
	e := NewExport(&text, private)
	for _, content := range []string{"[1, \"a\"]", "[2]", "[3]"} {
		if err := e.Line(store.ChainLine{Type: "event", Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Close(store.Checkpoint{Series: 1, No: 7, Head: "ab"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	whole := text.String()
	lines := bytes.SplitAfter([]byte(whole), []byte("\n"))
	without := func(i int) []byte {
		return bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
	}
	replaced := func(old, by string) []byte {
		return bytes.Replace([]byte(whole), []byte(old), []byte(by), 1)
	}
	for name, c := range map[string]struct {
		text  []byte
		key   ed25519.PublicKey
		valid bool
	}{
		"whole":               {[]byte(whole), public, true},
		"other key":           {[]byte(whole), other, false},
		"line removed":        {without(1), public, false},
		"head removed":        {without(3), public, false},
		"line changed":        {replaced("[2]", "[4]"), public, false},
		"line added":          {append([]byte(whole), "{}\n"...), public, false},
		"checkpoint replaced": {replaced(`"no":7`, `"no":8`), public, false},
	} {
		if _, err := VerifyExport(bytes.NewReader(c.text), c.key); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
