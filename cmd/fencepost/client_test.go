package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	waitLimit = 30 * time.Second // reached only by a failing test
	recipient = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
)

// ledger is a real one with a submitter that is owned, and command lines to it.
type ledger struct {
	t     *testing.T
	ctx   context.Context
	db    *dbtest.DB
	store *store.Store
	addr  string
	stop  func() // drains the node and waits for its end

	commandWait time.Duration // of the node; 0: short

	id    txn.SubmitterID
	lease *store.Lease
	next  txn.Nonce
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	l := &ledger{t: t, ctx: ctx, db: dbtest.New(t)}
	var err error
	l.store, err = store.Open(
		ctx,
		store.Config{
			URL:           l.db.NodeURL,
			Schema:        l.db.Schema,
			Node:          "a/boot",
			LeaseDuration: 10 * time.Minute,
		},
	) // not renewed here
	l.must(err)
	t.Cleanup(l.store.Close)
	l.serve("127.0.0.1:0")
	return l
}

func (l *ledger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// serve starts a node, with the TLS certificate if there is one.
func (l *ledger) serve(address string, certificates ...tls.Certificate) {
	l.t.Helper()
	var secure *tls.Config
	if len(certificates) > 0 {
		secure = &tls.Config{Certificates: certificates}
	}
	s, err := server.New(
		server.Options{
			Store: l.store,
			TLS:   secure,
			Limits: server.Limits{
				CommandPoll: 5 * time.Millisecond,
				CommandWait: cmp.Or(l.commandWait, 500*time.Millisecond),
			},
			Nonces: server.NonceOptions{Enabled: true},
		},
	)
	l.must(err)
	listener, err := net.Listen("tcp", address)
	l.must(err)
	l.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			l.t.Errorf("serve: %v", err)
		}
	})
	l.t.Cleanup(l.stop)
}

// own registers alice and takes her lease.
func (l *ledger) own() {
	l.t.Helper()
	info, _, err := l.store.Register(
		l.ctx,
		store.Registration{
			Name:      "alice",
			Chain:     31337,
			Address:   txn.Address{1},
			Signer:    "local",
			Mode:      txn.Strict,
			StartFrom: "0",
		},
	)
	l.must(err)
	l.id = info.ID
	l.lease, err = l.store.AcquireOne(l.ctx, l.id)
	l.must(err)
	l.commit(txn.Change{Init: &txn.CursorInit{Block: 1, BlockHash: txn.Hash{1}}})
}

func (l *ledger) commit(c txn.Change) {
	if outcome, err := l.store.Commit(l.lease, c); outcome != store.Done {
		panic(fmt.Sprint(outcome, err)) // not Fatal: owners run beside the test
	}
}

// move makes one move of a transaction.
func (l *ledger) move(id txn.TxID, kind txn.Kind, to txn.State,
	more func(*txn.Status, *txn.Change)) {
	info, err := l.store.Tx(l.ctx, id)
	if err != nil {
		panic(err)
	}
	c, next := txn.Change{}, info.Status
	next.State, next.Version = to, info.Version+1
	more(&next, &c)
	w := txn.Write{Tx: id, Version: info.Version, From: info.State, Kind: kind, Next: next}
	if kind == txn.EventAllocated {
		w.Attempt = &txn.Attempt{
			No:       1,
			Kind:     txn.Original,
			Nonce:    *next.Nonce,
			GasLimit: 21000,
			Hash:     next.TxHash,
			Raw:      []byte{1},
		}
		w.Attempt.Fees.Cap.SetUint64(7)
	}
	c.Writes = []txn.Write{w}
	l.commit(c)
}

// live takes a transaction to a good end, or to a bad one.
func (l *ledger) live(id txn.TxID, success bool) {
	l.move(id, txn.EventAllocated, txn.Allocated, func(s *txn.Status, c *txn.Change) {
		nonce := l.next
		l.next++
		s.Nonce = &nonce
		s.TxHash = txn.Hash(txn.Payload{Data: id[:]}.Hash())
		c.Take = &txn.Take{
			Nonce: nonce,
		}
	})
	l.move(id, txn.EventSubmitted, txn.Tracking,
		func(s *txn.Status, _ *txn.Change) { s.Sub, s.SubmitAttempts = txn.Pending, 1 })
	l.move(id, txn.EventIncluded, txn.Tracking, func(s *txn.Status, _ *txn.Change) {
		s.Sub = txn.Included
		s.Released = true
		s.Receipt = &txn.Receipt{
			TxHash:      s.TxHash,
			BlockNumber: 17,
			BlockHash:   txn.Hash{9},
			Success:     success,
			GasUsed:     21000,
		}
	})
	if success {
		l.move(id, txn.EventConfirmed, txn.Confirmed,
			func(s *txn.Status, _ *txn.Change) { s.Sub, s.Executed = txn.None, txn.Success })
		return
	}
	l.move(id, txn.EventFailed, txn.Failed, func(s *txn.Status, _ *txn.Change) {
		s.Sub = txn.None
		s.Executed = txn.Reverted
		s.Reason = txn.ReasonReverted
		s.LastError = "the call was reverted"
	})
}

// work applies commands and executes queued transactions until the test ends. A transaction whose
// request id begins with "bad" reverts.
func (l *ledger) work() {
	ctx, cancel := context.WithCancel(l.ctx)
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			inboxes, err := l.store.Inboxes(l.ctx, []txn.SubmitterID{l.id}, 1)
			if err != nil {
				panic(err)
			}
			for _, c := range inboxes[l.id].Commands {
				status := map[txn.CommandKind]txn.SubmitterStatus{
					txn.CommandPause: txn.Paused, txn.CommandResume: txn.Active,
				}[c.Kind]
				l.commit(
					txn.Change{
						Status:   status,
						Commands: []txn.CommandResult{{ID: c.ID, Result: txn.Applied}},
					},
				)
			}
			for _, tx := range inboxes[l.id].Queue {
				l.live(tx.ID, !strings.HasPrefix(tx.RequestID, "bad"))
			}
		}
	})
	l.t.Cleanup(func() { cancel(); working.Wait() })
}

// output can be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// started is a command line that runs.
type started struct {
	l         *ledger
	out, errs output
	code      chan int
	interrupt context.CancelFunc
}

// start runs a command line against the node.
func (l *ledger) start(line ...string) *started {
	ctx, cancel := context.WithCancel(l.ctx)
	s := &started{l: l, code: make(chan int, 1), interrupt: cancel}
	p := &program{
		in:      strings.NewReader(""),
		out:     &s.out,
		err:     &s.errs,
		clock:   clock.Real{},
		user:    "ops",
		environ: []string{serverVariable + "=" + l.addr},
	}
	go func() {
		defer cancel()
		s.code <- p.run(ctx, line)
	}()
	return s
}

// end waits for a command line.
func (s *started) end() (out, errs string, code int) {
	s.l.t.Helper()
	select {
	case code := <-s.code:
		return s.out.String(), s.errs.String(), code
	case <-time.After(waitLimit):
		s.l.t.Fatalf("does not end; it printed\n%s%s", s.out.String(), s.errs.String())
		return
	}
}

// prints waits until a command line has printed something.
func (s *started) prints(text string) {
	s.l.t.Helper()
	s.l.eventually("printing of "+text,
		func() bool { return strings.Contains(s.out.String(), text) })
}

func (l *ledger) eventually(what string, holds func() bool) {
	l.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(waitLimit)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("%s did not come about", what)
		}
	}
}

// good runs a command line that must succeed quietly.
func (l *ledger) good(line ...string) string {
	l.t.Helper()
	out, errs, code := l.start(line...).end()
	if code != exitDone || errs != "" {
		l.t.Fatalf("%q gave %d: %s%s", line, code, out, errs)
	}
	return out
}

// bad runs a command line that must fail with a sentence.
func (l *ledger) bad(code int, says string, line ...string) {
	l.t.Helper()
	out, errs, got := l.start(line...).end()
	if got != code || !strings.HasPrefix(errs, "fencepost: ") || !strings.Contains(errs, says) {
		l.t.Errorf("%q gave %d: %s%swant %d and %q", line, got, out, errs, code, says)
	}
}

// find returns the only group of a pattern.
func (l *ledger) find(pattern, text string) string {
	l.t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		l.t.Fatalf("%q is not in %s", pattern, text)
	}
	return match[1]
}

func (l *ledger) unmarshal(text string, into any) {
	l.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		l.t.Fatalf("%v in %s", err, text)
	}
}

func (l *ledger) create(request string) string {
	l.t.Helper()
	out := l.good("tx", "create", "--submitter", "alice", "--to", recipient, "--request-id",
		request)
	return l.find(`^transaction (\S+) of alice queued; request_id `+request+"\n$", out)
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	const (
		digits   = "11579208923731619542357098500868790785326998466564056403945758400791312963993"
		maxWei   = digits + "5"
		overflow = digits + "6"
	)
	for text, want := range map[string]string{
		"0": "0", "5": "5", "007": "7", "5wei": "5", "1.0": "1", "1.50gwei": "1500000000",
		"1ether": "1000000000000000000", "0.1ether": "100000000000000000",
		"0.1 ether": "100000000000000000", "0.000000000000000001ether": "1",
		"12345678901234567890ether": "12345678901234567890000000000000000000",
		maxWei:                      maxWei,
	} {
		if got, err := parseAmount(text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-1", "ether", "1e18", "0x10", ".5ether", "1.ether", "1,5ether", "1eth", "0.5",
		"1.5wei", "0.0000000001gwei", overflow,
		"1000000000000000000000000000000000000000000000000000000000000ether",
	} {
		if got, err := parseAmount(text); err == nil {
			t.Errorf("%q is %s, want an error", text, got)
		}
	}
}

// File names may be any bytes.
func TestArguments_InvalidUTF8(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for line, what := range map[string]string{
		"tx create --data 0x00 --submitter a\xff":               "--submitter",
		"tx create --data 0x00 --submitter a --request-id \xff": "--request-id",
		"tx get \xff":              "TX_ID|HASH",
		"tx watch \xff":            "TX_ID|HASH",
		"tx watch a \xff":          "TX_ID|HASH",
		"tx cancel \xff":           "TX_ID",
		"tx list --submitter \xff": "--submitter",
		"tx resolve \xff --fail --reason a\xff --operator \xff": "TX_ID, --operator, --reason",
		"submitter pause a --reason \xff":                       "--reason",
		"submitter protect \xff --reason a":                     "NAME",
		"submitter show \xff":                                   "NAME",
		"audit --submitter \xff":                                "--submitter",
	} {
		words := strings.Fields(line)
		command := words[:2]
		if words[0] == "audit" {
			command = words[:1]
		}
		s.bad(
			exitUsage,
			fmt.Sprintf(
				"fencepost: %s: not valid UTF-8; check the encoding of your terminal; "+
					"see \"fencepost %s --help\"\n",
				what, strings.Join(command, " ")),
			words...)
	}
	s.bad(exitFailed,
		"read --token-file: open missing: no such file or directory; ",
		"tx", "list", "--token-file", "missing")
	s.bad(exitFailed,
		"fencepost: read --tls-ca: open no\xff: no such file or directory; correct the path\n",
		"tx", "list", "--tls-ca", "no\xff")
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, c := range []struct{ names, line string }{
		{`--submitter`, "tx create"},
		{`--value "0.5"`, "tx create --submitter a --value 0.5"},
		{`--data`, "tx create --submitter a --data abc"},
		{`--data`, "tx create --submitter a --data 0xabc"},
		{`--watch`, "tx create --submitter a --wait --watch"},
		{`--timeout`, "tx create --submitter a --data 0x00 --timeout 0s"},
		{`TX_ID`, "tx get"},
		{`TX_ID`, "tx get x --submitter a --request-id b"},
		{`TX_ID`, "tx watch"},
		{`TX_ID`, "tx watch x --all"},
		{`--state`, "tx watch x --state STUCK"},
		{`TX_ID`, "tx watch x y --all"},
		{`TX_ID "y"`, "tx watch 01a21fca-9bb7-8000-8000-058ead4b4abd y"},
		{`"FLYING"`, "tx watch --all --state FLYING"},
		{`--limit`, "tx list --limit 0"},
		{`"FLYING"`, "tx list --state FLYING"},
		{`TX_ID`, "tx cancel"},
		{`NAME`, "submitter show"},
		{`--limit`, "submitter list --limit 0"},
		{`--limit`, "submitter log a --limit 0"},
		{`--reason`, "submitter protect a"},
		{`--protection`, "submitter exit-protect a"},
		{`--protection 0`, "submitter exit-protect a --protection 0"},
		{`--protection -1`, "submitter exit-protect a --protection -1"},
		{`--resume and --align-forward`, "submitter exit-protect a --protection 1"},
		{
			`--resume and --align-forward`,
			"submitter exit-protect a --protection 1 --resume --align-forward",
		},
		{`--reason`, "submitter exit-protect a --protection 1 --resume"},
		{`--reason`, "submitter protect a --reason \u00a0"},
		{`--reason`, "submitter exit-protect a --protection 1 --resume --reason \u200b\u2003"},
		{`--reason`, "tx resolve a --fail --reason \u3000"},
		{`TX_ID`, "tx resolve"},
		{`--retry`, "tx resolve a"},
		{`--retry`, "tx resolve a --fail --retry --reason x"},
		{`--unproven`, "tx resolve a --retry --unproven --reason x"},
		{`--speed "quick"`, "tx create --submitter a --speed quick"},
		{`--speed "unspecified"`, "tx create --submitter a --speed unspecified"},
		{`--max-fee-gwei "1gwei"`, "tx create --submitter a --max-fee-gwei 1gwei"},
		{`--not-after "tomorrow"`, "tx create --submitter a --not-after tomorrow"},
		{`--not-after "0s"`, "tx create --submitter a --not-after 0s"},
		{`--cancel-late`, "tx create --submitter a --cancel-late"},
		{`TX_ID`, "tx speed-up"},
		{`SUBMITTER`, "nonce allocate"},
		{`--ttl "5"`, "nonce allocate a --ttl 5"},
		{`RESERVATION_ID`, "nonce extend"},
		{`RESERVATION_ID "17"`, "nonce extend 17"},
		{`RESERVATION_ID "17"`, "nonce show 17"},
		{`RESERVATION_ID`, "nonce show"},
		{`3 arguments`, "nonce show a 1 2"},
		{`NONCE "x"`, "nonce show a x"},
		{`HASH`, "nonce record " + anID},
		{`HASH "0x12"`, "nonce record " + anID + " 0x12"},
		{`--never-signed`, "nonce release " + anID},
		{`--raw-tx`, "nonce submit " + anID},
		{`--raw-tx`, "nonce submit " + anID + " --raw-tx 0x1"},
		{`"FLYING"`, "nonce list a --state FLYING"},
		{`--limit`, "nonce list a --limit 0"},
		{`--never-signed and --fill`, "nonce resolve a 1 --reason x"},
		{`--never-signed and --fill`, "nonce resolve a 1 --fill --never-signed --reason x"},
		{`--reason`, "nonce resolve a 1 --fill"},
		{`NONCE "-1"`, "nonce resolve a --fill --reason x -- -1"},
		{`NAME`, "submitter update"},
		{`--on-failure`, "submitter update a"},
		{`--on-failure "stop"`, "submitter update a --on-failure stop"},
		{`--max-fee-gwei "0.0000000001"`, "submitter update a --max-fee-gwei 0.0000000001"},
		{`--on-failure "stop"`, "submitter add a --on-failure stop"},
		{`--reason`, "tx resolve a --requeue"},
		{`--yes`, "recover"},
		{`--database-url`, "recover --yes"},
		{`--database-url`, "migrate up"},
		{`--config`, "migrate up --config x --database-url y"},
		{`--schema`, "migrate status --config x --schema y"},
		{`--to`, "tx create --submitter a --to 0x12"},
		{`--to`, "tx create --submitter a --to " + recipient[:41] + "D"},
		{`--to`, "tx create --submitter a"},
		{`--gas-limit "abc"`, "tx create --submitter a --gas-limit abc"},
		{
			`--gas-limit "18446744073709551616"`,
			"tx create --submitter a --gas-limit 18446744073709551616",
		},
		{`1 argument given`, "tx create --submitter a --value 0.1 ether"},
		{`--value "abc"`, "tx create --submitter a --value abc"},
		{`--limit "ten"`, "tx list --limit ten"},
		{`--timeout "5"`, "tx list --timeout 5"},
		{`--protection "one"`, "submitter exit-protect a --protection one"},
		{`--chain-id`, "submitter add a"},
		{`--address`, "submitter add a --chain-id 1"},
		{`--signer`, "submitter add a --chain-id 1 --address 0x12"},
		{`--address`, "submitter add a --chain-id 1 --address 0x12 --signer s"},
		{`--server "localhost"`, "tx list --server localhost"},
		{`--server "http://localhost:9090"`, "tx list --server http://localhost:9090"},
		{`--server "localhost:65536"`, "tx list --server localhost:65536"},
		{`--server "localhost:"`, "tx list --server localhost:"},
		{`TX_ID "17"`, "tx get 17"},
		{`--tls-ca`, "tx list --server 127.0.0.1:1 --tls-ca @/no"},
	} {
		code := exitUsage
		if strings.Contains(c.line, "--tls-ca") {
			code = exitFailed
		}
		s.bad(code, c.names, strings.Split(c.line, " ")...) // not Fields: a space may be meant
	}
}

func TestCall_NodeUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it never responds
	s := newShell(t)
	s.bad(exitFailed,
		"fencepost: cannot connect to node 127.0.0.1:1: connection refused; ",
		"submitter", "list", "--server", "127.0.0.1:1")
	s.bad(
		exitFailed,
		fmt.Sprintf(
			"fencepost: no response from node %s within 50ms; retry, or raise --timeout\n",
			listener.Addr()),
		"submitter",
		"list",
		"--server",
		listener.Addr().String(),
		"--timeout",
		"50ms",
	)
	_, errs, code := s.run("tx", "create", "--submitter", "alice", "--to", recipient, "--server",
		"127.0.0.1:1")
	if code != exitFailed ||
		!regexp.MustCompile(
			`; the transaction may be queued; repeat the command with --request-id [0-9a-f-]{36} `).
			MatchString(
				errs,
			) {
		t.Errorf("gave %d: %s", code, errs)
	}
}

// A gRPC server that is not a node.
func TestCall_NotANode(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	served := make(chan error, 1)
	go func() { served <- other.Serve(listener) }()
	defer func() { other.Stop(); <-served }()
	_, errs, code := newShell(t).run("submitter", "list", "--server", listener.Addr().String())
	if code != exitFailed ||
		!strings.Contains(errs, "does not implement this call") {
		t.Errorf("gave %d: %s", code, errs)
	}
}

func TestWei_ShownInGwei(t *testing.T) {
	t.Parallel()
	for amount, want := range map[string]string{
		"": "", "0": "0 wei (0 gwei)", "1": "1 wei (0.000000001 gwei)",
		"80000000000": "80000000000 wei (80 gwei)", "1500000000": "1500000000 wei (1.5 gwei)",
		"100000000": "100000000 wei (0.1 gwei)",
	} {
		if got := wei(amount); got != want {
			t.Errorf("%s is %s, want %s", amount, got, want)
		}
	}
}
