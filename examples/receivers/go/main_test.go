package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/txn"
)

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

func TestReceiver_Deliveries_VerifiedAndOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r, err := newReceiver(secret, &out)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	defer server.Close()
	for signing, want := range map[string]sink.Verdict{secret: sink.Done,
		"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": sink.Retry} {
		w, err := sink.NewWebhook(sink.WebhookOptions{URL: server.URL, Timeout: time.Second,
			Encoder: sink.Encoder{Format: sink.Structured, Source: "urn:test"}, Concurrency: 1,
			AllowPrivate: true, Clock: clock.Real{},
			Secrets: func() ([]string, error) { return []string{signing}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		e := &sink.Event{Seq: 1, Kind: txn.EventConfirmed, At: time.Unix(1, 0),
			Content: &pb.SinkEvent{Id: "tx/1", RequestId: "order 1"}}
		for range 2 {
			if got := w.Deliver(t.Context(), []*sink.Event{e}); got[0].Verdict != want {
				t.Errorf("%+v, want verdict %d", got[0], want)
			}
		}
	}
	if got := strings.Count(out.String(), "tx/1 dev.fencepost.tx.confirmed order 1"); got != 1 {
		t.Errorf("printed %q", out.String())
	}
}
