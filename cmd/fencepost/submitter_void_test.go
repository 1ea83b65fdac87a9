package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestVoidTopUp_Outcomes(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	ledger, err := store.Open(t.Context(), store.Config{URL: db.URL, Schema: db.Schema, Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ledger.Close)
	var ids []txn.SubmitterID
	var to txn.Submitter
	for i, name := range []string{"bank", "alice"} {
		info, _, err := ledger.Register(t.Context(), store.Registration{Name: name, Chain: 31337,
			Address: txn.Address{byte(i + 1)}, Signer: "local", Mode: txn.Strict, StartFrom: "0"})
		if err != nil {
			t.Fatal(err)
		}
		ids, to = append(ids, info.ID), info.Submitter
	}
	decide := func() store.TopUp {
		t.Helper()
		all, err := ledger.FundsOf(t.Context(), ids[1:])
		if err != nil {
			t.Fatal(err)
		}
		u, done, err := ledger.DecideTopUp(t.Context(), store.TopUpNeed{Submitter: ids[1],
			Treasury: ids[0], To: to.Address, Funds: all[ids[1]], Amount: *uint256.NewInt(3),
			DayLimit: *uint256.NewInt(100)})
		if err != nil || !done {
			t.Fatal(done, err)
		}
		return u
	}
	s := newShell(t)
	text := "node: {name: a}\nchains: [{name: dev, chain_id: 31337, rpc: [http://127.0.0.1:1]}]\n" +
		"database: {url: \"" + db.URL + "\", schema: " + db.Schema + "}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "f.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	void := func(name string, rest ...string) []string {
		return append([]string{"submitter", "void-top-up", name, "--config", "@/f.yaml"}, rest...)
	}
	why := []string{"--reason", "closed", "--operator", "eve"}
	s.bad(exitUsage, "--reason is missing", void("alice")...)
	s.bad(exitFailed, "fencepost submitter list", void("carol", why...)...)
	s.bad(exitFailed, "no top-up of the account was decided; see \"fencepost balances\"",
		void("alice", why...)...)
	decide()
	for range 2 {
		if out := s.good(void("alice", why...)...); out !=
			"top-up 1 of submitter alice is void\n" {
			t.Errorf("%q", out)
		}
	}
	sent, _, err := ledger.CreateTopUp(t.Context(), to, decide())
	if err != nil {
		t.Fatal(err)
	}
	s.bad(exitFailed, fmt.Sprintf("the newest top-up of submitter \"alice\" has a transaction; "+
		"cancel it with \"fencepost tx cancel %s\"", sent.ID), void("alice", why...)...)
	if _, err := ledger.CancelQueued(t.Context(), sent.ID); err != nil {
		t.Fatal(err)
	}
	s.bad(exitFailed, fmt.Sprintf("the newest top-up of submitter \"alice\" is final (transaction "+
		"%s); see \"fencepost balances\"", sent.ID), void("alice", why...)...)
}
