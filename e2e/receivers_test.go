package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Signing secrets of sinks. The receivers have the first one.
const (
	sinkSecret  = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	otherSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// addSinks appends sinks to the configuration: the entries of a YAML list.
func (n *node) addSinks(t *testing.T, sinks string) {
	t.Helper()
	text, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, n.config, string(text)+"\nsinks:\n"+sinks)
}

// webhookSink is an entry of the configuration, with its secrets in a file of its own.
func webhookSink(t *testing.T, n *node, name, port string, secrets ...string) string {
	t.Helper()
	file := filepath.Join(n.dir, name+".secrets")
	writeFile(t, file, strings.Join(secrets, "\n")+"\n")
	return fmt.Sprintf("  - {name: %s, kind: webhook, retry: {min: 100ms, max: 1s}, webhook: "+
		"{url: %q, secrets_file: %q, allow_private: true}}\n", name,
		"http://"+address(port)+"/events", file)
}

// fencepost runs the command line against the node and returns its output.
func (n *node) fencepost(t *testing.T, args ...string) string {
	t.Helper()
	return runIn(t, n.dir, nil, program, append(args, "--server", n.addr)...)
}

// sinksByName reads "fencepost sink list --json".
func (n *node) sinksByName(t *testing.T) map[string]map[string]any {
	t.Helper()
	var answer struct{ Sinks []map[string]any }
	out := n.fencepost(t, "sink", "list", "--json")
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := map[string]map[string]any{}
	for _, s := range answer.Sinks {
		all[s["name"].(string)] = s
	}
	return all
}

// awaitPositions waits until the new sinks have positions, so that later events are theirs.
func (n *node) awaitPositions(t *testing.T, sinks int) {
	t.Helper()
	eventually(t, 2*time.Minute, "every sink has a position", func() error {
		all := n.sinksByName(t)
		if len(all) != sinks {
			return fmt.Errorf("%d of %d sinks", len(all), sinks)
		}
		for name, s := range all {
			if token, _ := s["resumeToken"].(string); token == "" {
				return fmt.Errorf("sink %s has no position", name)
			}
		}
		return nil
	})
}

// confirmOne sends a transaction and waits until it is final. It returns the ids of its events.
func (n *node) confirmOne(t *testing.T, request string) (tx string, events []string) {
	t.Helper()
	created, err := n.CreateTx(t.Context(), &fencepostv1.CreateTxRequest{
		Submitter: "s00", RequestId: request,
		Payload: &fencepostv1.Payload{To: "0x00000000000000000000000000000000000000aa",
			Value: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	tx = created.GetTx().GetTxId()
	var last *fencepostv1.Tx
	eventually(t, 2*time.Minute, "the transaction is final", func() error {
		got, err := n.GetTx(t.Context(), &fencepostv1.GetTxRequest{
			Key: &fencepostv1.GetTxRequest_TxId{TxId: tx}})
		if err != nil {
			return err
		}
		if last = got.GetTx(); last.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
			return errNotYet
		}
		return nil
	})
	for seq := range last.GetVersion() {
		events = append(events, fmt.Sprintf("%s/%d", tx, seq+1))
	}
	return tx, events
}

// TestClients_Receivers_VerifyDeliveries: the example receiver of each language verifies the
// deliveries of a node with the published library, and rejects another secret. `make clients`
// builds them.
func TestClients_Receivers_VerifyDeliveries(t *testing.T) {
	t.Parallel()
	c := embedded(t, 500*time.Millisecond, 1)
	n := prepareNode(t, c, nodeOptions{confirmations: 2, poll: 100 * time.Millisecond},
		freshDatabase(t))
	n.migrate(t)
	dir := t.TempDir()
	built := filepath.Join(dir, "receiver")
	runIn(t, "..", nil, "go", "build", "-o", built, "./examples/receivers/go")
	java := "../examples/receivers/java/target/"
	libraries, err := os.ReadFile(java + "classpath")
	if err != nil {
		t.Fatalf("the receiver in Java is not built (%v); run \"make clients\"", err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(sinkSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ports, logs := map[string]string{}, map[string]string{}
	var sinks string
	for language, command := range map[string]func(port string) []string{
		"go": func(port string) []string {
			return []string{built, "--listen", address(port), "--secret-file", secret}
		},
		"java": func(port string) []string {
			classes := java + "classes:" + strings.TrimSpace(string(libraries))
			return []string{"java", "-cp", classes, "Receiver", port, secret}
		},
		"ts": func(port string) []string {
			return []string{"node", "../examples/receivers/ts/dist/receiver.js", port, secret}
		},
	} {
		port := freePort(t)
		ports[language], logs[language] = port, filepath.Join(dir, language+".log")
		sinks += webhookSink(t, n, language, port, otherSecret, sinkSecret)
		sinks += webhookSink(t, n, language+"-other", port, otherSecret)
		run := command(port)
		startProcess(t, exec.Command(run[0], run[1:]...), logs[language])
	}
	n.addSinks(t, sinks)
	n.start(t)
	n.awaitPositions(t, 2*len(ports))
	_, events := n.confirmOne(t, "order 1")
	for language := range ports {
		eventually(t, 2*time.Minute, "the receiver in "+language+" has each event", func() error {
			text, err := os.ReadFile(logs[language])
			if err != nil {
				return err
			}
			var got []string
			for line := range strings.Lines(string(text)) {
				id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				if !strings.HasPrefix(rest, "dev.fencepost.tx.") ||
					!strings.HasSuffix(rest, " order 1") {
					t.Fatalf("the receiver in %s printed %q", language, line)
				}
				got = append(got, id)
			}
			if strings.Join(got, ",") != strings.Join(events, ",") {
				return fmt.Errorf("it has %q, want %q", got, events)
			}
			return nil
		})
		eventually(t, 2*time.Minute, "another secret is rejected in "+language, func() error {
			out := n.fencepost(t, "sink", "show", language+"-other", "--json")
			if !strings.Contains(out, "HTTP status 401") {
				return fmt.Errorf("sink show: %s", out)
			}
			return nil
		})
	}
}
