package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// A watch of several transactions prints each as it is, then every step until all are final, and
// fails if one of them came to a bad end, also if it had before.
func TestTxWatchSeveral(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.serve("127.0.0.1:0")
	ended := l.create("bad-0")
	watching := l.create("r1")
	l.work()
	l.good("tx", "watch", watching)
	good := l.create("r2")
	out := l.good("tx", "watch", watching, good)
	if shown := strings.Count(out, "(current)"); shown != 2 || !strings.Contains(out, watching) ||
		!strings.Contains(out, good) {
		t.Errorf("printed\n%s", out)
	}
	l.bad(exitFailed, "(REVERTED)",
		"tx", "watch", watching, ended)
	bad := l.create("bad-1")
	l.bad(exitFailed, "(REVERTED)", "tx",
		"watch", bad, watching)
	first, then := min(ended, bad), max(ended, bad)
	l.bad(exitFailed,
		"(REVERTED); transaction "+then+" ",
		"tx", "watch", then, first)
	l.bad(exitFailed, "(INVALID_FIELD)", "tx", "watch", good, watching,
		good)
	never := "01a21fca-9bb7-8000-8000-058ead4b4abd"
	l.bad(exitFailed, "(TX_NOT_FOUND)", "tx", "watch", good,
		never)
	l.bad(exitUsage, "--state", "tx", "watch", good, watching,
		"--state", "STUCK")
}

// It is resumed where it was, with all of its ids, and ends with the stream.
func TestTxWatch_SeveralResume(t *testing.T) {
	t.Parallel()
	const one, two = "01a21fca-9bb7-8000-8000-058ead4b4abd", "01a21fca-9bb7-8000-8000-058ead4b4abe"
	snapshot := func(id string, version uint64, executed pb.Executed) *pb.WatchTxResponse {
		return &pb.WatchTxResponse{
			Message: &pb.WatchTxResponse_Snapshot{
				Snapshot: &pb.Tx{
					TxId:      id,
					Submitter: "alice",
					Version:   version,
					State:     1,
					Executed:  executed,
				},
			},
		}
	}
	second := make(chan *pb.WatchTxRequest, 1)
	s := &scripted{script: []func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error{
		func(_ *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
			for _, m := range []*pb.WatchTxResponse{
				snapshot(two, 5, pb.Executed_EXECUTED_SUCCESS), snapshot(one, 1, 0),
				{
					Message:     &pb.WatchTxResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}},
					ResumeToken: "begun",
				}, event(2, pb.TxEventKind_TX_EVENT_KIND_ALLOCATED, 0),
			} {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return status.Error(codes.Unavailable, "gone")
		},
		func(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
			second <- r
			return stream.Send(
				event(3, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED, pb.Executed_EXECUTED_SUCCESS))
		},
	}}
	out, errs, code, _ := watchScripted(t, s, one, two)
	if code != exitDone || strings.Count(out, "\n") != 4 || strings.Count(out, "(current)") != 2 {
		t.Errorf("gave %d:\n%s%s", code, out, errs)
	}
	r := <-second
	if want := (&pb.TxIds{TxIds: []string{one, two}}); !proto.Equal(r.GetTxs(), want) ||
		!r.GetUntilFinal() ||
		r.GetResumeToken() != "token of TX_EVENT_KIND_ALLOCATED" {
		t.Errorf("resumed with %v", r)
	}
}
