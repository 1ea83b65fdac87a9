package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// hook is a webhook receiver that verifies signatures and records the ids of accepted events.
type hook struct {
	port   string
	answer atomic.Int64 // HTTP status; 0: 204
	refuse atomic.Value // string: part of the ids that are answered with 500

	mu  sync.Mutex
	got []string // may repeat
}

func startHook(t *testing.T) *hook {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(sinkSecret)
	if err != nil {
		t.Fatal(err)
	}
	h := &hook{}
	h.refuse.Store("")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("signature: %v", err)
		}
		id := r.Header.Get("Webhook-Id")
		if part := h.refuse.Load().(string); part != "" && strings.Contains(id, part) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if code := h.answer.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, id)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	h.port = at.Port()
	return h
}

func (h *hook) events() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// await waits until the receiver has these events.
func (h *hook) await(t *testing.T, events ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, "the receiver has the events", func() error {
		got := h.events()
		for _, id := range events {
			if !slices.Contains(got, id) {
				return fmt.Errorf("it lacks %s", id)
			}
		}
		return nil
	})
}

// sink reads "fencepost sink list --json" until the sink is as it should be.
func (n *node) awaitSink(t *testing.T, name, field, want string) {
	t.Helper()
	eventually(t, 2*time.Minute, "sink "+name+" is "+want, func() error {
		s := n.sinksByName(t)[name]
		if got, _ := s[field].(string); got != want {
			return fmt.Errorf("%s is %q: %v", field, got, s)
		}
		return nil
	})
}

// rejects runs the command line, which must exit with an error, and returns its output.
func (n *node) rejects(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program,
		append(args, "--server", n.addr)...).CombinedOutput()
	if err == nil {
		t.Fatalf("%q succeeded: %s", args, out)
	}
	return string(out)
}

// TestSinks_NodeFromConfig_CommandsDecide: a node process delivers to a webhook and to Kafka, as
// its configuration defines, and the commands about sinks have their effects.
func TestSinks_NodeFromConfig_CommandsDecide(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := embedded(t, 200*time.Millisecond, 1)
	n := prepareNode(t, c, nodeOptions{confirmations: 2, poll: 100 * time.Millisecond},
		freshDatabase(t))
	n.migrate(t)
	h := startHook(t)
	broker := cluster.ListenAddrs()[0]
	n.addSinks(t, webhookSink(t, n, "billing", h.port, sinkSecret)+fmt.Sprintf(
		"  - {name: lake, kind: kafka, format: binary, states: [CONFIRMED], kafka: "+
			"{brokers: [%q], topic: events}}\n", broker))
	n.start(t)
	n.awaitPositions(t, 2)
	tx, events := n.confirmOne(t, "order 1")
	h.await(t, events...)
	awaitRecord(t, broker, events[len(events)-1])
	n.awaitSink(t, "billing", "parked", "0")

	t.Run("pause and resume", func(t *testing.T) {
		n.fencepost(t, "sink", "pause", "billing", "--reason", "maintenance", "--operator", "ann")
		n.awaitSink(t, "billing", "status", "SINK_STATUS_PAUSED")
		n.awaitSink(t, "billing", "reason", "maintenance")
		n.awaitSink(t, "billing", "operator", "ann")
		n.fencepost(t, "sink", "resume", "billing")
		n.awaitSink(t, "billing", "status", "SINK_STATUS_ACTIVE")
		_, more := n.confirmOne(t, "order 2")
		h.await(t, more...)
	})
	t.Run("replay", func(t *testing.T) {
		h.mu.Lock()
		h.got = nil
		h.mu.Unlock()
		n.fencepost(t, "sink", "replay", "billing", "--from",
			time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		h.await(t, events...)
	})
	t.Run("gone receiver", func(t *testing.T) {
		h.answer.Store(http.StatusGone)
		_, more := n.confirmOne(t, "order 3")
		n.awaitSink(t, "billing", "status", "SINK_STATUS_DISABLED")
		h.answer.Store(0)
		n.fencepost(t, "sink", "resume", "billing")
		h.await(t, more...)
	})
	t.Run("retry and skip", func(t *testing.T) { n.checkUndelivered(t, h) })
	t.Run("rejected", func(t *testing.T) {
		for reason, args := range map[string][]string{
			"SINK_NOT_FOUND":   {"sink", "show", "none"},
			"DECISION_REFUSED": {"sink", "skip", "billing", tx, "--seq", "1"},
			"--seq":            {"sink", "skip", "billing", tx},
			"--from":           {"sink", "replay", "billing"},
		} {
			if out := n.rejects(t, args...); !strings.Contains(out, reason) {
				t.Errorf("%q: %s", args, out)
			}
		}
	})
	n.checkDecisions(t, "SINK_PAUSE", "SINK_RESUME", "SINK_REPLAY", "SINK_RESUME", "SINK_RETRY",
		"SINK_SKIP")
}

// checkUndelivered parks a transaction, and decides about it.
func (n *node) checkUndelivered(t *testing.T, h *hook) {
	t.Helper()
	h.refuse.Store("/1") // the first event of each transaction
	tx, events := n.confirmOne(t, "order 4")
	var shown []map[string]any
	eventually(t, 2*time.Minute, "the transaction waits", func() error {
		out := n.fencepost(t, "sink", "show", "billing", "--json")
		if err := json.Unmarshal([]byte(out), &shown); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !strings.Contains(out, tx) || !strings.Contains(out, "HTTP status 500") {
			return fmt.Errorf("sink show: %s", out)
		}
		return nil
	})
	if text := n.fencepost(t, "sink", "show", "billing"); !strings.Contains(text, tx) {
		t.Errorf("sink show: %s", text)
	}
	if text := n.fencepost(t, "sink", "list"); !strings.Contains(text, "billing") {
		t.Errorf("sink list: %s", text)
	}
	if out := n.fencepost(t, "sink", "show", "billing", "--dead"); strings.Contains(out, tx) {
		t.Errorf("a transaction that is retried is dead: %s", out)
	}
	n.fencepost(t, "sink", "retry", "billing", "--tx", tx, "--reason", "again", "--operator",
		"ann")
	n.fencepost(t, "sink", "skip", "billing", tx, "--seq", "1", "--operator", "ann")
	h.await(t, events[1:]...)
	if slices.Contains(h.events(), events[0]) {
		t.Error("the skipped event was delivered")
	}
	h.refuse.Store("")
	n.awaitSink(t, "billing", "parked", "0")
}

// checkDecisions compares the recorded decisions about sinks, oldest first.
func (n *node) checkDecisions(t *testing.T, want ...string) {
	t.Helper()
	answer, err := n.ListCommands(t.Context(), &fencepostv1.ListCommandsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range answer.GetCommands() {
		if c.GetSink() == "billing" {
			got = append(got, c.GetKind())
			if c.GetOperator() == "" {
				t.Errorf("no operator of %v", c)
			}
		}
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// awaitRecord waits for a record of Kafka with this event.
func awaitRecord(t *testing.T, broker, id string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics("events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for found := false; !found; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("no record of event %s", id)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			attributes := map[string]string{}
			for _, header := range r.Headers {
				attributes[header.Key] = string(header.Value)
			}
			if attributes["ce_type"] != "dev.fencepost.tx.confirmed" {
				t.Errorf("another event passed the filter: %v", attributes)
			}
			found = found || attributes["ce_id"] == id
		})
	}
}
