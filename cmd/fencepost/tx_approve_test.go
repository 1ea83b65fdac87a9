package main

import (
	"bytes"
	"strings"
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func TestCreatedLine_AwaitingApproval_NamesCommands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sub     pb.TxSubState
		created bool
		awaits  bool
	}{
		"queued":           {pb.TxSubState_TX_SUB_STATE_UNSPECIFIED, true, false},
		"awaits":           {pb.TxSubState_TX_SUB_STATE_AWAITING_APPROVAL, true, true},
		"existing, awaits": {pb.TxSubState_TX_SUB_STATE_AWAITING_APPROVAL, false, true},
	} {
		var out bytes.Buffer
		err := createdLine(&pb.CreateTxResponse{Created: c.created, Tx: &pb.Tx{TxId: "id-1",
			Submitter: "alice", RequestId: "r1", State: pb.TxState_TX_STATE_QUEUED,
			SubState: c.sub}})(&out)
		text := out.String()
		if err != nil || !strings.Contains(text, "request_id r1") ||
			strings.Contains(text, `"fencepost tx approve id-1"`) != c.awaits ||
			strings.Contains(text, `"fencepost tx get id-1"`) != c.awaits ||
			strings.Contains(text, " queued;") == c.awaits {
			t.Errorf("%s: %v %s", name, err, text)
		}
	}
}
