package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/server/console"
)

const (
	operatorToken = "operator-token-0123456789"
	readerToken   = "reader-token-0123456789"
	// manyAccounts are registered in addition to those of the chain's keys, of which the last one
	// is external.
	manyAccounts, manyKeys = 10_000, 15
)

// TestConsole runs the tests of the console in Chromium (console/test/browser.test.mjs) against a
// node that is killed and whose tokens change, with 10,000 accounts, on a chain that makes blocks
// on request. The tests steer node and chain through a server of their own.
func TestConsole(t *testing.T) {
	t.Parallel()
	if !console.Built() {
		t.Fatal("the console is not built; run \"make console\"")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; install Debian's package chromium", err)
	}
	shots, err := filepath.Abs("screenshots")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &consoleStage{t: t, chain: embedded(t, 0, manyKeys), tokens: t.TempDir()}
	control := httptest.NewServer(s)
	t.Cleanup(control.Close)
	s.startNode(control.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec",
		"test/browser.test.mjs")
	cmd.Dir = "../console"
	cmd.Env = append(os.Environ(),
		"FENCEPOST_TEST_NODE=http://"+s.node.addr,
		"FENCEPOST_TEST_CONTROL="+control.URL,
		"FENCEPOST_TEST_OPERATOR="+operatorToken,
		"FENCEPOST_TEST_READER="+readerToken,
		"FENCEPOST_TEST_CHROMIUM="+browser,
		"FENCEPOST_TEST_SCREENSHOTS="+shots)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	t.Logf("%s\nscreenshots are in %s", out, shots)
}

// consoleStage is a node and its chain, which the tests in the browser steer.
type consoleStage struct {
	t      *testing.T
	chain  *testChain
	node   *node
	tokens string      // folder
	deaf   atomic.Bool // the receiver of events accepts none
}

// startNode starts the node, which delivers events to the server that steers it.
func (s *consoleStage) startNode(control string) {
	t := s.t
	t.Helper()
	s.writeTokens(operatorToken)
	writeFile(t, filepath.Join(s.tokens, "secrets"),
		"whsec_"+base64.StdEncoding.EncodeToString([]byte("thirty-two bytes of the receiver"))+"\n")
	s.node = prepareNode(t, s.chain,
		nodeOptions{confirmations: 1, poll: 100 * time.Millisecond, external: manyKeys - 1},
		freshDatabase(t))
	s.node.edit(t, "nonce_api: {", "nonce_api: {pending_hard_max_age: 1s, ")
	s.node.edit(t, "resubmit: {interval: 5s, max_attempts: 20}",
		"finality: {audit_depth: 4}, resubmit: {interval: 2s, max_attempts: 2}")
	s.node.edit(t, "grpc: {", "console: {enabled: true}\ngrpc: {reload_interval: 1s, ")
	s.node.edit(t, "\nops:", fmt.Sprintf(`
callers:
  - {name: oscar, tokens_file: %q, submitters: ["*"], role: operator}
  - {name: rita, tokens_file: %q, submitters: [s00, s01], policy: {approve_above: "1000"}}
sinks:
  - name: hook
    kind: webhook
    labels: [sink=console]
    retry: {min: 100ms, max: 1s, for: 1s}
    webhook: {url: %q, secrets_file: %q, allow_private: true}
ops:`, filepath.Join(s.tokens, "operator"), filepath.Join(s.tokens, "reader"),
		control+"/event", filepath.Join(s.tokens, "secrets")))
	s.node.migrate(t)
	if _, err := s.node.pool.Exec(t.Context(), `
WITH added AS (
    INSERT INTO submitter (name, chain_id, address, signer, mode, max_in_flight, start_from,
                           on_failure, timeline)
    SELECT 'many-' || lpad(i::TEXT, 5, '0'), $1, decode(lpad(to_hex(i), 40, '0'), 'hex'), 'local',
           'STRICT', 1, 'chain', 'CONTINUE', (SELECT l.timeline FROM ledger l)
      FROM generate_series(1, $2::INT) i
    RETURNING submitter_id
)
INSERT INTO submitter_lease (submitter_id) SELECT a.submitter_id FROM added a`,
		int64(s.chain.id), manyAccounts); err != nil {
		t.Fatal(err)
	}
	s.node.start(t)
}

// writeTokens replaces the token of the operator, as a rotation does.
func (s *consoleStage) writeTokens(operator string) {
	s.t.Helper()
	for name, token := range map[string]string{"operator": operator, "reader": readerToken} {
		path := filepath.Join(s.tokens, name)
		writeFile(s.t, path+".new", token+"\n")
		if err := os.Rename(path+".new", path); err != nil {
			s.t.Fatal(err)
		}
	}
}

// ServeHTTP runs one step that the browser's tests request: /mine/5, /drop, /spend/3/0 (key and
// nonce), /hook/refuse, /kill, /start, /token/NEW. The node delivers events to /event.
func (s *consoleStage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	step := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	number := func(i int) int {
		n, err := strconv.Atoi(step[i])
		if err != nil {
			s.t.Errorf("step %s: %v", r.URL.Path, err)
		}
		return n
	}
	var err error
	switch step[0] {
	case "mine":
		var hash string
		err = s.chain.Client.Client().CallContext(r.Context(), &hash, "dev_mine", number(1))
	case "drop":
		err = s.chain.Client.Client().CallContext(r.Context(), nil, "dev_dropPending")
	case "spend":
		_, err = s.chain.spend(number(1), uint64(number(2)))
	case "hook":
		s.deaf.Store(step[1] == "refuse")
	case "event":
		if s.deaf.Load() {
			err = errNotYet
		}
	case "kill":
		s.node.proc.kill()
	case "start":
		err = s.restart()
	case "token":
		s.writeTokens(step[1])
	default:
		err = fmt.Errorf("unknown step %s", r.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// restart starts the node again, outside the test's goroutine.
func (s *consoleStage) restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.Command(program, "serve", "--config", s.node.config)
	s.node.proc = startProcess(s.t, cmd, filepath.Join(s.node.dir, "node.log"))
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"http://"+s.node.ops+"/readyz", nil)
		if err != nil {
			return err
		}
		got, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = got.Body.Close()
			if got.StatusCode == http.StatusOK {
				tick.Stop()
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the node does not start: %w", err)
		}
	}
}
