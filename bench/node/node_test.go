package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/chain/chaintest"
)

// The keys come one after the other, and each is held; what is none is refused and not shown.
func TestOpenKeys(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for i := range 3 {
		fmt.Fprintf(&input, "%q\n", hex.EncodeToString(crypto.FromECDSA(chaintest.Key(i))))
	}
	n := &node{cfg: wire.Config{Signer: "keys", Keys: 3}}
	if err := n.openKeys(json.NewDecoder(strings.NewReader(input.String()))); err != nil {
		t.Fatal(err)
	}
	held, err := n.book.Addresses(t.Context(), "keys")
	if err != nil || len(held) != 3 {
		t.Fatalf("%v, %v", held, err)
	}
	for _, c := range []struct{ input, says string }{
		{input.String(), "read key 4 of 4: EOF"}, {`"5ec2e7"`, "key 1 of 4 is none"},
	} {
		n := &node{cfg: wire.Config{Signer: "keys", Keys: 4}}
		if err := n.openKeys(json.NewDecoder(strings.NewReader(c.input))); err == nil || err.Error() != c.says {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}

// A program that nobody told anything ends, and says who starts it.
func TestWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	if err := serve(strings.NewReader(""), nil); err == nil || !strings.Contains(err.Error(), "started by bench") {
		t.Error(err)
	}
}
