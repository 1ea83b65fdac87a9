package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// external registers an account in mode external, whose owner answers requests by the rules of
// package txn until the test ends, without a chain.
func (l *ledger) external(name string, key *ecdsa.PrivateKey) {
	l.t.Helper()
	l.stop() // the node waits too short a time for an owner on a busy machine
	l.commandWait = waitLimit
	l.serve("127.0.0.1:0")
	info, _, err := l.store.Register(l.ctx, store.Registration{Name: name, Chain: 31337,
		Address: crypto.PubkeyToAddress(key.PublicKey), Signer: "local", Mode: txn.External,
		StartFrom: "0"})
	l.must(err)
	lease, err := l.store.AcquireOne(l.ctx, info.ID)
	l.must(err)
	l.lease = lease
	l.commit(txn.Change{Init: &txn.CursorInit{Block: 1, BlockHash: txn.Hash{1}}})
	ctx, cancel := context.WithCancel(l.ctx)
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			l.answerNonces(ctx, lease)
		}
	})
	l.t.Cleanup(func() { cancel(); working.Wait() })
}

// answerNonces takes one step of an owner.
func (l *ledger) answerNonces(ctx context.Context, lease *store.Lease) {
	of, err := l.store.NonceRequests(ctx, []txn.SubmitterID{lease.Submitter()})
	if err != nil || len(of[lease.Submitter()]) == 0 {
		return
	}
	read, err := l.store.Load(ctx, lease)
	if err != nil {
		return
	}
	v := txn.View{
		Now: time.Now(), Submitter: read.Submitter, Cursor: read.Cursor, Open: read.Open,
		Account:   &txn.Account{},
		Inclusion: func(txn.Hash) txn.Inclusion { return txn.Inclusion{Known: true} },
		External: txn.ExternalView{
			Nonces: read.Nonces, Requests: of[lease.Submitter()], ReadAt: time.Now(),
		},
	}
	if step, ok := txn.Decide(&v).(txn.Record); ok {
		_, _ = l.store.Commit(lease, step.Change) // a lost one is decided again
	}
}

// reserve runs "nonce allocate" and returns the reservation.
func (l *ledger) reserve(request, nonce string) string {
	l.t.Helper()
	out := l.good("nonce", "allocate", "hot", "--request-id", request, "--holder", "h1")
	return l.find(`^nonce `+nonce+` of hot is RESERVED until \S+; reservation (\S+); request_id `+
		request+"\n$", out)
}

// shows runs a command line whose output must have all these texts.
func (l *ledger) shows(want []string, line ...string) {
	l.t.Helper()
	out := l.good(line...)
	for _, text := range want {
		if !strings.Contains(out, text) {
			l.t.Errorf("%q prints no %q:\n%s", line, text, out)
		}
	}
}

func TestNonce_Reservations(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	key, err := crypto.GenerateKey()
	l.must(err)
	l.external("hot", key)
	first := l.reserve("r1", "0")
	if again := l.reserve("r1", "0"); again != first {
		t.Errorf("repeated: %s and %s", first, again)
	}
	l.shows([]string{"account      eip155:31337:0x", "state        RESERVED",
		"holder       h1", first}, "nonce", "show", first)
	l.shows([]string{"nonce 0 of hot is RESERVED"}, "nonce", "extend", first, "--ttl", "30m")
	l.bad(exitFailed, "--ttl", "nonce", "extend", first, "--ttl", "300h")
	l.shows([]string{"nonce 0 of hot is RECYCLABLE (NEVER_SIGNED)"},
		"nonce", "release", first, "--never-signed", "--reason", "not needed")

	second := l.reserve("r2", "0")
	l.shows([]string{"nonce 0 of hot is PENDING (QUARANTINED)"},
		"nonce", "quarantine", second, "--reason", "signer timed out")
	l.shows([]string{"PENDING", second, "signer timed out"},
		"nonce", "list", "hot", "--state", "pending")
	l.bad(exitFailed, "PENDING, and no longer RESERVED; sign nothing more for it",
		"nonce", "extend", second, "--ttl", "30m")
	l.shows([]string{"NONCE"}, "nonce", "list", "hot", "--needs-operator")
	if out, errs, code := l.start("nonce", "resolve", "hot", "0", "--fill", "--reason", "x",
		"--reservation", "x").end(); code != exitUsage || out != "" ||
		!strings.Contains(errs, `--reservation "x" is not a reservation id`) {
		t.Errorf("not a reservation: %d, %s%s", code, out, errs)
	}
	l.bad(exitFailed, "(NONCE_STATE)", "nonce", "resolve", "hot", "0", "--never-signed",
		"--reason", "x", "--reservation", first)
	l.shows([]string{"reason       QUARANTINED", "nonce 0 of hot is RECYCLABLE (operator ops)"},
		"nonce", "resolve", "hot", "0", "--never-signed", "--reason", "log is empty")
	l.bad(exitFailed, `see "fencepost nonce list hot" (NONCE_NOT_FOUND)`,
		"nonce", "show", "hot", "7")

	third := l.reserve("r3", "0")
	raw, hash := signedTransfer(t, key, 0)
	out := l.good("nonce", "submit", third, "--raw-tx", raw)
	id := l.find(`^transaction (\S+) of hot is QUEUED at nonce 0; `, out)
	l.shows([]string{"state        PENDING", hash, id}, "nonce", "show", "hot", "0")
	l.bad(exitFailed, "--raw-tx: ", "nonce", "submit", third, "--raw-tx", raw[:20])
	l.bad(exitFailed, "--raw-tx: is missing; ", "nonce", "submit", third, "--raw-tx", "0x")

	fourth := l.reserve("r4", "1")
	l.shows([]string{"nonce 1 of hot is PENDING (HASH_RECORDED)"}, "nonce", "record", fourth, hash)
	l.bad(exitFailed, "(NONCE_STATE)", "nonce", "resolve", "hot", "1", "--never-signed",
		"--reason", "x")
	var nonce struct {
		TxID string `json:"txId"`
	}
	l.unmarshal(l.good("nonce", "resolve", "hot", "1", "--fill", "--reason", "x", "--json"), &nonce)
	if nonce.TxID == "" {
		t.Error("no transaction fills the nonce")
	}
	var all struct{ Nonces []struct{ Nonce string } }
	l.unmarshal(l.good("nonce", "list", "hot", "--json"), &all)
	if len(all.Nonces) != 2 || all.Nonces[0].Nonce != "1" {
		t.Errorf("listed %v", all)
	}
}

// signedTransfer is a transaction as eth_sendRawTransaction takes it, and its hash.
func signedTransfer(t *testing.T, key *ecdsa.PrivateKey, nonce uint64) (raw, hash string) {
	t.Helper()
	to := crypto.PubkeyToAddress(key.PublicKey)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(big.NewInt(31337)),
		&types.LegacyTx{Nonce: nonce, To: &to, Value: big.NewInt(1), Gas: 21_000,
			GasPrice: big.NewInt(7)})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return "0x" + hex.EncodeToString(bytes), tx.Hash().Hex()
}

// TestNonceShow_Decisions: the commands that are printed are valid, and none would be refused.
func TestNonceShow_Decisions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nonce *pb.Nonce
		want  []string // by the part that decides
	}{
		"nothing known": {&pb.Nonce{}, []string{"--never-signed", "--fill"}},
		"hash":          {&pb.Nonce{TxHashes: []string{"0x1"}}, []string{"--fill"}},
		"transaction":   {&pb.Nonce{TxHashes: []string{"0x1"}, TxId: anID}, []string{"tx watch"}},
	} {
		n := c.nonce
		n.Submitter, n.Nonce = "hot", 7
		n.ReservationId = anID
		n.State, n.NeedsOperator = pb.NonceState_NONCE_STATE_PENDING, true
		var out strings.Builder
		if err := shownReserved(n)(&out); err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile(`(?m)^  fencepost .*$`).FindAllString(out.String(), -1)
		if len(lines) != len(c.want) {
			t.Fatalf("%s: %d decisions, want %d:\n%s", name, len(lines), len(c.want), out.String())
		}
		for i, text := range lines {
			command, _, _ := strings.Cut(strings.TrimSpace(text), "   # ")
			if !strings.Contains(command, c.want[i]) {
				t.Errorf("%s: %s", name, command)
			}
			if err := understood(words(command)[1:]); err != nil {
				t.Errorf("%s: %q: %v", name, command, err)
			}
		}
	}
}

// TestCommands_EveryRPC: each RPC is called by a command.
func TestCommands_EveryRPC(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(
			`\b(?:txs|subs|sinks|pools|nonces|status)\.([A-Z]\w+)`,
		).FindAllStringSubmatch(string(text), -1) {
			called[m[1]] = true
		}
	}
	called["WatchTx"] = true // by follow, through the client library
	rpcs := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("fencepost.v1",
		func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				service := file.Services().Get(i)
				for j := range service.Methods().Len() {
					rpcs++
					if method := service.Methods().Get(j).Name(); !called[string(method)] {
						t.Errorf("no command calls %s/%s", service.Name(), method)
					}
				}
			}
			return true
		})
	if rpcs < 40 {
		t.Errorf("only %d RPCs were looked at", rpcs)
	}
}
