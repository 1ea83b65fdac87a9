package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	waitLimit = 30 * time.Second // for what must happen; nothing waits that long unless it fails
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
			URL:           l.db.URL,
			Schema:        l.db.Schema,
			Node:          "a/boot",
			LeaseDuration: 10 * time.Minute,
		},
	) // nobody renews here
	l.must(err)
	t.Cleanup(l.store.Close)
	l.serve("127.0.0.1:0", nil)
	return l
}

func (l *ledger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// serve starts a node.
func (l *ledger) serve(address string, creds credentials.TransportCredentials) {
	l.t.Helper()
	s, err := server.New(
		server.Options{
			Store:       l.store,
			Credentials: creds,
			Limits: server.Limits{
				CommandPoll: 5 * time.Millisecond,
				CommandWait: 500 * time.Millisecond,
			},
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
		s.Nonce, s.TxHash, c.Take = &nonce, txn.Hash(txn.Payload{Data: id[:]}.Hash()), &txn.Take{
			Nonce: nonce,
		}
	})
	l.move(id, txn.EventSubmitted, txn.Tracking,
		func(s *txn.Status, _ *txn.Change) { s.Sub, s.SubmitAttempts = txn.Pending, 1 })
	l.move(id, txn.EventIncluded, txn.Tracking, func(s *txn.Status, _ *txn.Change) {
		s.Sub, s.Released, s.Receipt = txn.Included, true, &txn.Receipt{
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
		s.Sub, s.Executed, s.Reason, s.LastError = txn.None, txn.Reverted, txn.ReasonReverted, "the call was reverted"
	})
}

// work carries out commands and lives what is queued until the test ends. What has a request id that begins with "bad" comes to a bad end.
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
				status := map[txn.CommandKind]txn.SubmitterStatus{txn.CommandPause: txn.Paused, txn.CommandResume: txn.Active}[c.Kind]
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
	for text, want := range map[string]string{
		"0": "0", "5": "5", "007": "7", "5wei": "5", "1ether": "1000000000000000000", "0.1ether": "100000000000000000", "0.1 ether": "100000000000000000",
		"1.50gwei": "1500000000", "0.000000000000000001ether": "1", "1.0": "1", "12345678901234567890ether": "12345678901234567890000000000000000000",
		"115792089237316195423570985008687907853269984665640564039457584007913129639935": "115792089237316195423570985008687907853269984665640564039457584007913129639935",
	} {
		if got, err := parseAmount(text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "is not an amount", "-1": "is not an amount", "ether": "is not an amount", "1e18": "is not an amount", "0x10": "is not an amount", ".5ether": "is not an amount",
		"1.ether": "is not an amount", "1,5ether": "is not an amount", "1eth": "is not an amount", "0.5": "no whole number of wei", "1.5wei": "no whole number of wei",
		"0.0000000001gwei": "part of a wei", "115792089237316195423570985008687907853269984665640564039457584007913129639936": "above 2^256-1",
		"1000000000000000000000000000000000000000000000000000000000000ether": "above 2^256-1",
	} {
		if got, err := parseAmount(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %s, %v; want an error that says %q", text, got, err, says)
		}
	}
}

// TestArguments_InvalidUTF8 is named where it was typed. A file may be called as it likes.
func TestArguments_InvalidUTF8(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for line, what := range map[string]string{
		"tx create --data 0x00 --submitter a\xff":               "--submitter",
		"tx create --data 0x00 --submitter a --request-id \xff": "--request-id",
		"tx get \xff":              "TX_ID",
		"tx watch \xff":            "TX_ID",
		"tx watch a \xff":          "TX_ID",
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
				"fencepost: %s: not valid UTF-8; give it in that encoding, which is what your terminal should use; see \"fencepost %s --help\"\n",
				what, strings.Join(command, " ")),
			words...)
	}
	s.bad(exitFailed,
		"fencepost: read the token of --token-file: open missing: no such file or directory; name a file that this user can read, there or in FENCEPOST_TOKEN_FILE, or leave both out\n",
		"tx", "list", "--token-file", "missing")
	s.bad(exitFailed,
		"fencepost: read the certificates of --tls-ca: open no\xff: no such file or directory\n",
		"tx", "list", "--tls-ca", "no\xff")
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for line, want := range map[string]string{
		"tx create":                                        `--submitter is missing; see "fencepost tx create --help"`,
		"tx create --submitter a --value 0.5":              `--value "0.5" is no whole number of wei; give one, or another unit, like 0.1ether or 30gwei; see "fencepost tx create --help"`,
		"tx create --submitter a --data abc":               `--data is not "0x" followed by an even number of hex digits; give bytes like 0xd09de08a; see "fencepost tx create --help"`,
		"tx create --submitter a --data 0xabc":             `--data is not "0x" followed by an even number of hex digits; give bytes like 0xd09de08a; see "fencepost tx create --help"`,
		"tx create --submitter a --wait --watch":           `--watch and --wait are both given; give one of them; see "fencepost tx create --help"`,
		"tx create --submitter a --data 0x00 --timeout 0s": `--timeout must be longer than nothing; give a duration like 30s`,
		"tx get":                                `give either TX_ID, or --submitter and --request-id; see "fencepost tx get --help"`,
		"tx get x --submitter a --request-id b": `give either TX_ID, or --submitter and --request-id; see "fencepost tx get --help"`,
		"tx watch":                              `give one of TX_ID (or several), --submitter (with --request-id for one transaction) and --all; see "fencepost tx watch --help"`,
		"tx watch x --all":                      `give one of TX_ID (or several), --submitter (with --request-id for one transaction) and --all; see "fencepost tx watch --help"`,
		"tx watch x --state STUCK":              `--state goes with many transactions: with --submitter alone, or with --all; see "fencepost tx watch --help"`,
		"tx watch x y --all":                    `give one of TX_ID (or several), --submitter (with --request-id for one transaction) and --all; see "fencepost tx watch --help"`,
		"tx watch 01a21fca-9bb7-8000-8000-058ead4b4abd y":                        `TX_ID "y" is not the id of a transaction; "fencepost tx create" prints it, and "fencepost tx list"; see "fencepost tx watch --help"`,
		"tx watch --all --state FLYING":                                          `there is no state "FLYING"; the states are QUEUED, ALLOCATED, TRACKING, STUCK, CONFIRMED, FAILED_FINAL, CANCELLED`,
		"tx list --limit 0":                                                      `--limit must be at least 1; see "fencepost tx list --help"`,
		"tx list --state FLYING":                                                 `there is no state "FLYING"; the states are QUEUED, ALLOCATED, TRACKING, STUCK, CONFIRMED, FAILED_FINAL, CANCELLED`,
		"tx cancel":                                                              `TX_ID is missing; see "fencepost tx cancel --help"`,
		"submitter show":                                                         `NAME is missing; see "fencepost submitter show --help"`,
		"submitter list --limit 0":                                               `--limit must be at least 1; see "fencepost submitter list --help"`,
		"submitter log a --limit 0":                                              `--limit must be at least 1; see "fencepost submitter log --help"`,
		"submitter protect a":                                                    `--reason is missing; it is kept for whoever asks later; see "fencepost submitter protect --help"`,
		"submitter exit-protect a":                                               `--protection is missing; "fencepost submitter show a" tells its number and its evidence; see "fencepost submitter exit-protect --help"`,
		"submitter exit-protect a --protection 0":                                `--protection 0 is out of range: protections are numbered from 1; "fencepost submitter show a" tells the number and the evidence; see "fencepost submitter exit-protect --help"`,
		"submitter exit-protect a --protection -1":                               `--protection -1 is out of range: protections are numbered from 1; "fencepost submitter show a" tells the number and the evidence; see "fencepost submitter exit-protect --help"`,
		"submitter exit-protect a --protection 1":                                `give one of --resume and --align-forward; see "fencepost submitter exit-protect --help"`,
		"submitter exit-protect a --protection 1 --resume --align-forward":       `give one of --resume and --align-forward; see "fencepost submitter exit-protect --help"`,
		"submitter exit-protect a --protection 1 --resume":                       `--reason is missing; it is kept for whoever asks later; see "fencepost submitter exit-protect --help"`,
		"submitter protect a --reason \u00a0":                                    `--reason is blank; it is kept for whoever asks later, so say why; see "fencepost submitter protect --help"`,
		"submitter exit-protect a --protection 1 --resume --reason \u200b\u2003": `--reason is blank; it is kept for whoever asks later, so say why; see "fencepost submitter exit-protect --help"`,
		"tx resolve a --fail --reason \u3000":                                    `--reason is blank; it is kept for whoever asks later, so say why; see "fencepost tx resolve --help"`,
		"tx resolve":                                                             `TX_ID is missing; see "fencepost tx resolve --help"`,
		"tx resolve a":                                                           `give one of --retry, --bump, --cancel, --fail and --requeue; see "fencepost tx resolve --help"`,
		"tx resolve a --fail --retry --reason x":                                 `give one of --retry, --bump, --cancel, --fail and --requeue; see "fencepost tx resolve --help"`,
		"tx resolve a --retry --unproven --reason x":                             `--unproven goes with --fail or --requeue; see "fencepost tx resolve --help"`,
		"tx create --submitter a --speed quick":                                  `--speed "quick" is not one of slow, standard and fast; see "fencepost tx create --help"`,
		"tx create --submitter a --speed unspecified":                            `--speed "unspecified" is not one of slow, standard and fast; see "fencepost tx create --help"`,
		"tx create --submitter a --max-fee-gwei 1gwei":                           `--max-fee-gwei "1gwei" is not an amount in gwei with up to 9 decimals; give a number such as 30 or 0.5; see "fencepost tx create --help"`,
		"tx create --submitter a --not-after tomorrow":                           `--not-after "tomorrow" is neither a time nor a duration; give one like 2026-01-02T15:04:05Z or 10m; see "fencepost tx create --help"`,
		"tx create --submitter a --not-after 0s":                                 `--not-after "0s" is not later than now; give a duration like 10m; see "fencepost tx create --help"`,
		"tx create --submitter a --cancel-late":                                  `--cancel-late goes with --not-after; give both; see "fencepost tx create --help"`,
		"tx speed-up":                                                            `TX_ID is missing; see "fencepost tx speed-up --help"`,
		"submitter update":                                                       `NAME is missing; see "fencepost submitter update --help"`,
		"submitter update a":                                                     `nothing is changed; give --on-failure, --max-fee-gwei, or both; see "fencepost submitter update --help"`,
		"submitter update a --on-failure stop":                                   `--on-failure "stop" is neither continue nor pause; see "fencepost submitter update --help"`,
		"submitter update a --max-fee-gwei 0.0000000001":                         `--max-fee-gwei "0.0000000001" is not an amount in gwei with up to 9 decimals; give a number such as 30 or 0.5; see "fencepost submitter update --help"`,
		"submitter add a --on-failure stop":                                      `--on-failure "stop" is neither continue nor pause; see "fencepost submitter add --help"`,
		"tx resolve a --requeue":                                                 `--reason is missing; it is kept for whoever asks later; see "fencepost tx resolve --help"`,
		"recover":                                                                `it stops every account until somebody decides on each; give --yes if that is what you want; see "fencepost recover --help"`,
		"recover --yes":                                                          `no database is named; give --config FILE or --database-url URL, or set FENCEPOST_DATABASE_URL; see "fencepost recover --help"`,
		"migrate up":                                                             `no database is named; give --config FILE or --database-url URL, or set FENCEPOST_DATABASE_URL; see "fencepost migrate up --help"`,
		"migrate up --config x --database-url y":                                 `--config and --database-url are both given; give one of them; see "fencepost migrate up --help"`,
		"migrate status --config x --schema y":                                   `--schema goes with --database-url; the configuration has a schema of its own; see "fencepost migrate status --help"`,
		"tx create --submitter a --to 0x12":                                      `--to: address "0x12" must be "0x" followed by 40 hex digits; see "fencepost tx create --help"`,
		"tx create --submitter a --to " + recipient[:41] + "D":                   `--to: address "` + recipient[:41] + `D" has a wrong EIP-55 checksum: a digit or its case is mistyped; check the address, or write it in lower case; see "fencepost tx create --help"`,
		"tx create --submitter a":                                                `--to is missing; only to create a contract, with its init code in --data, it is left out; see "fencepost tx create --help"`,
		"tx create --submitter a --gas-limit abc":                                `--gas-limit "abc" is not a whole number below 2^64; give one like 21000; see "fencepost tx create --help"`,
		"tx create --submitter a --gas-limit 18446744073709551616":               `--gas-limit "18446744073709551616" is not a whole number below 2^64; give one like 21000; see "fencepost tx create --help"`,
		"tx create --submitter a --value 0.1 ether":                              `1 argument given, 0 expected; put a value with blanks into quotes, as in --value "0.1 ether"; see "fencepost tx create --help"`,
		"tx create --submitter a --value abc":                                    `--value "abc" is not an amount; give wei, like 1000, or a unit with it, like 0.1ether or 30gwei; see "fencepost tx create --help"`,
		"tx list --limit ten":                                                    `--limit "ten" is not a whole number; give one like 100; see "fencepost tx list --help"`,
		"tx list --timeout 5":                                                    `--timeout "5" is not a duration; give one with its unit, like 30s or 10m; see "fencepost tx list --help"`,
		"submitter exit-protect a --protection one":                              `--protection "one" is not a whole number; give one like 1; see "fencepost submitter exit-protect --help"`,
		"submitter add a":                                                        `--chain-id is missing; give the id of a chain that the nodes are configured for; see "fencepost submitter add --help"`,
		"submitter add a --chain-id 1":                                           `--address is missing; "fencepost key list" tells those of a key store; see "fencepost submitter add --help"`,
		"submitter add a --chain-id 1 --address 0x12":                            `--signer is missing; give a name that is under signers in the configuration of the nodes; see "fencepost submitter add --help"`,
		"submitter add a --chain-id 1 --address 0x12 --signer s":                 `--address: address "0x12" must be "0x" followed by 40 hex digits; see "fencepost submitter add --help"`,
		"tx list --server localhost":                                             `--server "localhost" is not HOST:PORT; give one like 127.0.0.1:9090, the address of a node's gRPC port`,
		"tx list --server http://localhost:9090":                                 `--server "http://localhost:9090" is not HOST:PORT; give one like 127.0.0.1:9090, the address of a node's gRPC port`,
		"tx list --server localhost:65536":                                       `--server "localhost:65536" is not HOST:PORT; give one like 127.0.0.1:9090, the address of a node's gRPC port`,
		"tx list --server localhost:":                                            `--server "localhost:" is not HOST:PORT; give one like 127.0.0.1:9090, the address of a node's gRPC port`,
		"tx get 17":                                                              `TX_ID "17" is not the id of a transaction; "fencepost tx create" prints it, and "fencepost tx list"; see "fencepost tx get --help"`,
		"tx list --server 127.0.0.1:1 --tls-ca @/no":                             "read the certificates of --tls-ca: open @/no: no such file or directory",
	} {
		code := exitUsage
		if strings.Contains(line, "--tls-ca") {
			code = exitFailed
		}
		s.bad(
			code,
			"fencepost: "+want+"\n",
			strings.Split(line, " ")...) // not Fields: a blank may be meant
	}
}

func TestCall_NodeUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it accepts nothing that is sent to it, and answers nothing
	s := newShell(t)
	s.bad(exitFailed,
		"fencepost: node 127.0.0.1:1 cannot be reached: connection refused; start it with \"fencepost serve\", or name another one with --server\n",
		"submitter", "list", "--server", "127.0.0.1:1")
	s.bad(
		exitFailed,
		fmt.Sprintf(
			"fencepost: node %s did not answer within 50ms; repeat the command, or give a longer --timeout\n",
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
			`; it may be queued: repeat the command with --request-id [0-9a-f-]{36}, which cannot send twice\n$`).MatchString(
			errs,
		) {
		t.Errorf("gave %d: %s", code, errs)
	}
}

// Something else that speaks gRPC is not a node.
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
		!strings.Contains(errs,
			"does not know this call; give the address of a node of Fencepost") {
		t.Errorf("gave %d: %s", code, errs)
	}
}

func TestWei_ShownInGwei(t *testing.T) {
	t.Parallel()
	for amount, want := range map[string]string{
		"": "", "0": "0 wei (0 gwei)", "1": "1 wei (0.000000001 gwei)", "80000000000": "80000000000 wei (80 gwei)", "1500000000": "1500000000 wei (1.5 gwei)", "100000000": "100000000 wei (0.1 gwei)",
	} {
		if got := wei(amount); got != want {
			t.Errorf("%s is %s, want %s", amount, got, want)
		}
	}
}
