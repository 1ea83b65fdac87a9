package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// simulating is a node whose simulations all have one response.
type simulating struct {
	pb.UnimplementedTxServiceServer
	response *pb.SimulateTxResponse
}

func (s simulating) SimulateTx(context.Context,
	*pb.SimulateTxRequest) (*pb.SimulateTxResponse, error) {
	return s.response, nil
}

// TestTxSimulate_ExitCode: only a transaction that can be sent now gives success.
func TestTxSimulate_ExitCode(t *testing.T) {
	t.Parallel()
	sendable := string(txn.Accepted)
	for name, c := range map[string]struct {
		response *pb.SimulateTxResponse
		exit     int
		says     string
	}{
		"sendable": {&pb.SimulateTxResponse{OutcomeClass: sendable}, exitDone, ""},
		"denied": {&pb.SimulateTxResponse{OutcomeClass: sendable, DeniedBy: "recipients"},
			exitFailed, "rule recipients"},
		"above the limit of an approval": {&pb.SimulateTxResponse{OutcomeClass: sendable,
			NeedsApproval: true}, exitFailed, "fencepost tx approve"},
		"reverted": {&pb.SimulateTxResponse{OutcomeClass: string(txn.Invalid), Message: "no"},
			exitFailed, "cannot be sent now"},
	} {
		for _, form := range [][]string{nil, {"--json"}} {
			t.Run(strings.Join(append([]string{name}, form...), " "), func(t *testing.T) {
				t.Parallel()
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				node := grpc.NewServer()
				pb.RegisterTxServiceServer(node, simulating{response: c.response})
				go func() { _ = node.Serve(listener) }()
				t.Cleanup(node.Stop)
				out, errs, exit := newShell(t).run(append([]string{"tx", "simulate", "--submitter",
					"alice", "--to", recipient, "--server", listener.Addr().String()}, form...)...)
				if exit != c.exit || !strings.Contains(errs, c.says) || out == "" && form != nil {
					t.Errorf("gave %d: %q %q", exit, out, errs)
				}
			})
		}
	}
}
