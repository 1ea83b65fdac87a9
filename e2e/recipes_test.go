package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// reader follows docs/operations.md: sets its variables, and copies the lines of one recipe after
// another.
type reader struct {
	*node
	chain    *testChain
	dir      string
	recipes  string
	vars     map[string]string
	followed map[string]bool // headings
}

// TestRecipes runs every line of the recipes in docs/operations.md literally, with the real
// grpcurl, against a node and a chain that makes blocks on demand.
func TestRecipes(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	document := documentOf(t, root, "docs/operations.md")
	r := newReader(t, section(t, document, "## Recipes"))
	laptop := section(t, document, "### On a laptop")
	if all := typed(t, "the document", document); len(all) != len(
		typed(t, "On a laptop", laptop))+len(typed(t, "Recipes", r.recipes)) {
		t.Error("docs/operations.md has commands in a section that no test runs")
	}
	r.asks(t)
	r.registers(t)
	r.findsOut(t)
	r.speedsUp(t)
	r.cancels(t)
	r.pauses(t)
	r.protects(t)
	r.watchesFailures(t)
	for _, heading := range regexp.MustCompile(`(?m)^### .*`).FindAllString(r.recipes, -1) {
		if !r.followed[heading] {
			t.Errorf("no test follows %q", heading)
		}
	}
}

// section returns the text under a heading, up to the next heading of the same or a higher level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, under, found := strings.Cut(text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no section %q", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	if next := regexp.MustCompile(
		`(?m)^#{1,` + fmt.Sprint(len(level)) + `} `,
	).FindStringIndex(under); next != nil {
		under = under[:next[0]]
	}
	return under
}

// newReader starts a node whose transactions are STUCK soon, and sets the variables that the
// recipes begin with.
func newReader(t *testing.T, recipes string) *reader {
	t.Helper()
	c := embedded(t, 0, 2)
	n := prepareNode(t, c, nodeOptions{confirmations: 1, poll: 100 * time.Millisecond},
		freshDatabase(t))
	n.edit(t, "resubmit: {interval: 5s, max_attempts: 20}",
		"resubmit: {interval: 1s, max_attempts: 2}")
	n.migrate(t)
	n.start(t)
	r := &reader{
		node:     n,
		chain:    c,
		dir:      t.TempDir(),
		recipes:  recipes,
		vars:     map[string]string{},
		followed: map[string]bool{},
	}
	set := typed(t, "Recipes", recipes)[0]
	for _, pair := range strings.Fields(strings.TrimPrefix(set, "export ")) {
		name, _, _ := strings.Cut(pair, "=")
		r.vars[name] = "what the reader forgot to set"
	}
	for name, value := range map[string]string{
		"FENCEPOST_SERVER": n.addr, "SUBMITTER": "s00", "TX_ID": "", "PROTECTION": "",
		"ADDRESS": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	} {
		if r.vars[name] == "" {
			t.Fatalf("the recipes begin with %q, which does not set %s", set, name)
		}
		r.vars[name] = value
	}
	return r
}

// lines returns the lines of a recipe, and marks it as followed.
func (r *reader) lines(t *testing.T, heading string) []string {
	t.Helper()
	r.followed[heading] = true
	return typed(t, heading, section(t, r.recipes, heading))
}

func (r *reader) environment() []string {
	env := []string{"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")}
	for name, value := range r.vars {
		env = append(env, name+"="+value)
	}
	return env
}

// follow runs all lines of a recipe. The output of each must match its expectation: the first whose
// key is in the line.
func (r *reader) follow(t *testing.T, heading string, expected ...[2]string) {
	t.Helper()
	for _, line := range r.lines(t, heading) {
		r.run(t, line, expected...)
	}
}

func (r *reader) run(t *testing.T, line string, expected ...[2]string) {
	t.Helper()
	out := bash(t, r.dir, line, r.environment()...)
	i := slices.IndexFunc(expected, func(e [2]string) bool { return strings.Contains(line, e[0]) })
	if i < 0 {
		t.Errorf("nothing is expected of %s:\n%s", line, out)
	} else if !strings.Contains(out, expected[i][1]) {
		t.Errorf("%s does not say %s:\n%s", line, expected[i][1], out)
	}
}

// asks follows the read recipes, and then calls a node that authenticates callers.
func (r *reader) asks(t *testing.T) {
	t.Helper()
	certs := t.TempDir()
	writeCertificates(t, certs)
	secured := prepareNode(
		t,
		r.chain,
		nodeOptions{
			confirmations: 1,
			poll:          time.Second,
			name:          "tls",
			secure:        secure{certs: certs, tokens: writeToken(t, certs)},
		},
		r.url,
	)
	secured.start(t)
	known := &reader{
		node: secured,
		dir:  certs,
		vars: map[string]string{"FENCEPOST_SERVER": secured.addr},
	}
	for _, line := range r.lines(t, "### List the calls") {
		switch {
		case strings.Contains(line, "token"):
			known.run(t, line, [2]string{"", "s00"})
		default:
			r.run(t, line, [2]string{"--help", "submitter"},
				[2]string{"list", "fencepost.v1.TxService.CancelTx"},
				[2]string{"describe", "string tx_id = 1"})
		}
	}
	secured.proc.stop(t)
}

// registers an account, once with each program.
func (r *reader) registers(t *testing.T) {
	t.Helper()
	r.follow(t, "### Register an account",
		[2]string{"submitter add", "submitter payouts is registered"},
		[2]string{"RegisterSubmitter", `"startFrom": "chain"`})
}

// create queues a transaction, of which the lines after it are.
func (r *reader) create(t *testing.T, submitter, request string, p *fencepostv1.Payload) string {
	t.Helper()
	answer, err := r.CreateTx(t.Context(),
		&fencepostv1.CreateTxRequest{Submitter: submitter, RequestId: request, Payload: p})
	if err != nil {
		t.Fatal(err)
	}
	r.vars["TX_ID"] = answer.GetTx().GetTxId()
	return r.vars["TX_ID"]
}

// is waits for a state of a transaction and mines blocks meanwhile.
func (r *reader) is(t *testing.T, id string, blocks bool,
	want fencepostv1.TxState) *fencepostv1.Tx {
	t.Helper()
	var tx *fencepostv1.Tx
	eventually(t, time.Minute, "the transaction is "+want.String(), func() error {
		answer, err := r.GetTx(
			context.Background(),
			&fencepostv1.GetTxRequest{
				Key:  &fencepostv1.GetTxRequest_TxId{TxId: id},
				View: fencepostv1.TxView_TX_VIEW_OPERATOR,
			},
		)
		if err != nil {
			return err
		}
		if tx = answer.GetTx(); tx.GetState() == want {
			return nil
		}
		if blocks {
			var hash string
			err = r.chain.Client.Client().CallContext(context.Background(), &hash, "dev_mine", 1)
		}
		return fmt.Errorf("it is %v: %v", tx, err)
	})
	return tx
}

// findsOut asks about a transaction that no block takes.
func (r *reader) findsOut(t *testing.T) {
	t.Helper()
	id := r.create(t, "s00", "first", transfer)
	r.is(t, id, false, fencepostv1.TxState_TX_STATE_STUCK)
	account, err := r.GetSubmitter(t.Context(), &fencepostv1.GetSubmitterRequest{Submitter: "s00"})
	if err != nil || !strings.HasPrefix(account.GetSubmitter().GetLease().GetOwnerNode(), "a/") {
		t.Fatalf("owned by %v: %v", account, err)
	}
	r.follow(t, "### Who owns it?", [2]string{"", account.GetSubmitter().GetLease().GetOwnerNode()})
	r.follow(t, "### Why is it stuck?", [2]string{"", "RESUBMIT_ATTEMPTS_EXHAUSTED"})
}

// speedsUp bumps the fees of a transaction, once with each program, until it is final.
func (r *reader) speedsUp(t *testing.T) {
	t.Helper()
	id := r.vars["TX_ID"]
	r.follow(t, "### Speed it up", [2]string{"fencepost tx", "attempt 2 (BUMP"},
		[2]string{"grpcurl", id})
	if tx := r.is(t, id, true, fencepostv1.TxState_TX_STATE_CONFIRMED); len(
		tx.GetOperator().GetAttempts()) != 3 {
		t.Errorf("sped up twice: %v", tx)
	}
	r.follow(t, "### See how it ends", [2]string{"fencepost tx", "CONFIRMED"},
		[2]string{"grpcurl", "TX_EVENT_KIND_CONFIRMED"})
}

// cancels cancels the transaction in flight and the one queued behind it.
func (r *reader) cancels(t *testing.T) {
	t.Helper()
	flying := r.create(t, "s00", "flying", transfer)
	r.is(t, flying, false, fencepostv1.TxState_TX_STATE_STUCK)
	r.follow(t, "### Cancel it", [2]string{"fencepost tx", "included first wins"},
		[2]string{"grpcurl", "CANCEL_OUTCOME_REQUESTED"})
	queued := r.create(t, "s00", "queued", transfer)
	r.follow(t, "### Cancel it", [2]string{"fencepost tx", "will never be executed"},
		[2]string{"grpcurl", "CANCEL_OUTCOME_CANCELLED"})
	for _, id := range []string{flying, queued} {
		r.is(t, id, true, fencepostv1.TxState_TX_STATE_CANCELLED)
	}
}

func (r *reader) pauses(t *testing.T) {
	t.Helper()
	r.follow(
		t,
		"### Pause and resume",
		[2]string{"submitter pause", "is PAUSED"},
		[2]string{"PauseSubmitter", "SUBMITTER_STATUS_PAUSED"},
		[2]string{
			"submitter resume",
			"is ACTIVE",
		},
		[2]string{"ResumeSubmitter", "SUBMITTER_STATUS_ACTIVE"},
	)
}

func (r *reader) protects(t *testing.T) {
	t.Helper()
	r.vars["PROTECTION"] = "1"
	r.follow(
		t,
		"### Stop it at once, and leave PROTECT",
		[2]string{"submitter protect", "protection 1, BY_OPERATOR"},
		[2]string{"ProtectSubmitter", "key may have leaked"},
		[2]string{
			"submitter show",
			"exit-protect s00 --protection 1",
		},
		[2]string{"exit-protect", "protection 1 of submitter s00 ended"},
		[2]string{"ExitProtect", "SUBMITTER_STATUS_ACTIVE"},
	)
	r.is(t, r.create(t, "s00", "after", transfer), true, fencepostv1.TxState_TX_STATE_CONFIRMED)
}

// watchesFailures has one transaction that is STUCK before and one that fails while the lines run;
// those that end well are not shown.
func (r *reader) watchesFailures(t *testing.T) {
	t.Helper()
	stuck := r.create(t, "s00", "stuck", transfer)
	r.is(t, stuck, false, fencepostv1.TxState_TX_STATE_STUCK)
	var logs []string
	lines := r.lines(t, "### Watch all failures")
	lasts := regexp.MustCompile(` watch |/WatchTx|/events`).MatchString
	for i, line := range lines {
		if !lasts(line) {
			continue
		}
		cmd, log := exec.Command("bash", "-c", line), filepath.Join(r.dir,
			fmt.Sprintf("watch%d.log", i))
		cmd.Env = append(os.Environ(), r.environment()...)
		startGroup(t, cmd, log)
		r.logs(t, line, log, stuck)
		logs = append(logs, log)
	}
	reverting := &fencepostv1.Payload{Data: []byte{0x60, 0, 0x60, 0, 0xfd}}
	failed := r.create(t, "s01", "fails", reverting)
	r.is(t, failed, true, fencepostv1.TxState_TX_STATE_FAILED_FINAL)
	good := r.create(t, "s01", "good", transfer)
	r.is(t, good, true, fencepostv1.TxState_TX_STATE_CONFIRMED)
	worse := r.create(t, "s01", "fails too", reverting)
	r.is(t, worse, true, fencepostv1.TxState_TX_STATE_FAILED_FINAL)
	for _, log := range logs {
		r.logs(t, "watching", log, failed, worse, "WOULD_REVERT")
		if out := documentOf(t, "", log); strings.Contains(out, good) {
			t.Errorf("a watch of failures shows one that ended well:\n%s", out)
		}
	}
	for _, line := range lines {
		if !lasts(line) {
			r.run(t, line, [2]string{"", failed})
		}
	}
}

// logs waits until a log contains all of the words.
func (r *reader) logs(t *testing.T, what, log string, words ...string) {
	t.Helper()
	eventually(t, time.Minute, what, func() error {
		out := documentOf(t, "", log)
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("there is no %s in\n%s", word, out)
			}
		}
		return nil
	})
}
