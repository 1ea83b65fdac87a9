package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// approvals is a node with a shop whose larger transactions need an approval.
type approvals struct {
	*node
	t     *testing.T
	chain *testChain
	dir   string // of the tokens
}

// as runs the program with the token of a caller.
func (a *approvals) as(caller string, args ...string) (out string, good bool) {
	a.t.Helper()
	args = append(args, "--server", a.addr, "--timeout", "1m", "--json",
		"--token-file", filepath.Join(a.dir, caller))
	text, err := exec.CommandContext(a.t.Context(), program, args...).CombinedOutput()
	return string(text), err == nil
}

// create creates a transaction of the shop, and returns its id.
func (a *approvals) create(request, value string) string {
	a.t.Helper()
	out, good := a.as("shop", "tx", "create", "--submitter", "s00", "--request-id", request,
		"--to", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "--value", value)
	var made struct {
		Tx struct{ TxID string }
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || !good || made.Tx.TxID == "" {
		a.t.Fatalf("create %s: %v\n%s", request, err, out)
	}
	return made.Tx.TxID
}

// reaches waits until a transaction has a state and a reason.
func (a *approvals) reaches(id, state, reason string) {
	a.t.Helper()
	eventually(a.t, 2*time.Minute, fmt.Sprintf("%s is %s %s", id, state, reason), func() error {
		out, good := a.as("boss", "tx", "get", id)
		var got struct{ State, Reason string }
		if err := json.Unmarshal([]byte(out), &got); err != nil || !good {
			return fmt.Errorf("%w: %s", errNotYet, out)
		}
		if got.State != "TX_STATE_"+state || got.Reason != reason {
			return fmt.Errorf("%w: %+v", errNotYet, got)
		}
		return nil
	})
}

// awaiting lists the transactions that await an approval.
func (a *approvals) awaiting() (ids string) {
	a.t.Helper()
	out, good := a.as("treasurer", "tx", "list", "--awaiting-approval")
	if !good {
		a.t.Fatal(out)
	}
	return out
}

// callers replaces the callers in the configuration, and reloads it.
func (a *approvals) callers(from, to string) {
	a.t.Helper()
	a.edit(a.t, from, to)
	if err := a.proc.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		a.t.Fatal(err)
	}
}

// TestApprovals_CommandLine: a second identity approves and denies on the command line. Without its
// decision a transaction expires. That of a caller that is removed waits for its return.
func TestApprovals_CommandLine(t *testing.T) {
	t.Parallel()
	a := &approvals{t: t, chain: embedded(t, 200*time.Millisecond, 1), dir: t.TempDir()}
	for _, name := range []string{"shop", "treasurer", "boss"} {
		writeFile(t, filepath.Join(a.dir, name), name+"-token-0123456789\n")
	}
	caller := func(name, more string) string {
		return fmt.Sprintf("  - {name: %s, tokens_file: %q, submitters: [s00]%s}\n", name,
			filepath.Join(a.dir, name), more)
	}
	shop := caller("shop", `, policy: {approve_above: "1000"}`)
	a.node = prepareNode(t, a.chain, nodeOptions{confirmations: 1, poll: 100 * time.Millisecond},
		freshDatabase(t))
	a.edit(t, "grpc: {", "grpc: {reload_interval: 1s, ")
	a.edit(t, "\nops:", "\ncallers:\n"+shop+caller("treasurer", ", approve: true")+
		caller("boss", ", role: operator")+"ops:")
	a.migrate(t)
	a.start(t)

	small, approved := a.create("small", "1000"), a.create("approved", "1001")
	denied, expired := a.create("denied", "1001"), a.create("expired", "1001")
	a.reaches(small, "CONFIRMED", "") // it passes those that wait
	for _, id := range []string{approved, denied, expired} {
		if list := a.awaiting(); !strings.Contains(list, id) || strings.Contains(list, small) {
			t.Errorf("awaiting an approval: %s", list)
		}
	}
	if out, good := a.as("shop", "tx", "approve", approved, "--reason", "mine"); good {
		t.Errorf("the shop approves its own transaction: %s", out)
	}
	for verb, id := range map[string]string{"approve": approved, "deny": denied} {
		if out, good := a.as("treasurer", "tx", verb, id, "--reason", "invoice"); !good {
			t.Errorf("%s: %s", verb, out)
		}
	}
	if _, err := a.pool.Exec(t.Context(),
		`UPDATE tx_approval SET expires_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	a.reaches(approved, "CONFIRMED", "")
	a.reaches(denied, "FAILED_FINAL", "APPROVAL_DENIED")
	a.reaches(expired, "FAILED_FINAL", "APPROVAL_EXPIRED")

	waiting := a.create("waiting", "1001")
	a.callers(shop, "")
	eventually(t, 2*time.Minute, "the shop is no caller any more", func() error {
		if out, good := a.as("shop", "tx", "get", waiting); good {
			return fmt.Errorf("%w: %s", errNotYet, out)
		}
		return nil
	})
	if out, good := a.as("treasurer", "tx", "approve", waiting, "--reason", "late"); !good {
		t.Fatal(out)
	}
	a.reaches(waiting, "QUEUED", "CALLER_UNKNOWN")
	a.callers("callers:\n", "callers:\n"+shop)
	a.reaches(waiting, "CONFIRMED", "")
	if log, err := os.ReadFile(filepath.Join(a.node.dir, "node.log")); err != nil ||
		strings.Contains(string(log), "-token-0123456789") {
		t.Errorf("the log has a token, or is missing: %v", err)
	}
}
