package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/sink/schema"
	"github.com/fencepost/fencepost/txn"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestDocuments_AreCurrent(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() ([]byte, error){
		"event.schema.json": schema.JSON, "asyncapi.json": schema.AsyncAPI,
	} {
		want, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile("../../docs/" + name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not current (%v); run make generate", name, err)
		}
	}
}

// TestJSON_SentEvents_Valid: sent events are valid, and other things are not.
func TestJSON_SentEvents_Valid(t *testing.T) {
	t.Parallel()
	text, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("event.schema.json", document); err != nil {
		t.Fatal(err)
	}
	rules, err := c.Compile("event.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	encoder := sink.Encoder{Format: sink.Structured, Source: "urn:test"}
	for _, e := range events() {
		m, err := encoder.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		var sent map[string]any
		if err := json.Unmarshal(m.Body, &sent); err != nil {
			t.Fatal(err)
		}
		if err := rules.Validate(sent); err != nil {
			t.Errorf("%s: %v", m.Body, err)
		}
		sent["data"].(map[string]any)["other"] = 1
		if rules.Validate(sent) == nil {
			t.Error("an unknown field is valid")
		}
	}
}

// events are full in every field.
func events() []*sink.Event {
	now := timestamppb.New(time.Unix(1_700_000_000, 1))
	full := &pb.TxEvent{
		TxId: "t", Submitter: "alice", Seq: 3, Kind: pb.TxEventKind_TX_EVENT_KIND_CONFIRMED,
		State: pb.TxState_TX_STATE_CONFIRMED, Executed: pb.Executed_EXECUTED_SUCCESS,
		TxHash: "0x1", Reason: "R", Message: "m", Time: now, NewFork: true,
		Receipt:       &pb.Receipt{TxHash: "0x1", BlockNumber: 7, GasUsed: 21000},
		Confirmations: []*pb.BlockRef{{}},
	}
	return []*sink.Event{
		{Seq: 3, Name: "alice", Kind: txn.EventConfirmed, At: now.AsTime(),
			Content: &pb.SinkEvent{Id: "t/3", RequestId: "r", Labels: map[string]string{"a": "b"},
				Content: &pb.SinkEvent_Event{Event: full}}},
		{At: now.AsTime(), Content: &pb.SinkEvent{Id: "ledger/1",
			Content: &pb.SinkEvent_Restored{Restored: &pb.LedgerRestored{Time: now}}}},
	}
}
