package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Seen is an event as a watcher got it.
type Seen struct {
	*pb.TxEvent
	At time.Time
}

// Delay is the time from the event's statement to its arrival here, by the clocks of two machines
// unless they are one. The commit lies between the two.
func (s Seen) Delay() time.Duration { return s.At.Sub(s.GetTime().AsTime()) }

// Watch delivers every event of the target until ctx ends, which is not an error. begun is called
// once all further events are new.
func Watch(ctx context.Context, conn *grpc.ClientConn, target *pb.WatchTxRequest, begun func(),
	each func(Seen)) error {
	stream, err := pb.NewTxServiceClient(conn).WatchTx(ctx, target)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("watch: %w", err)
		}
		if m.GetEvent() != nil {
			each(Seen{m.GetEvent(), time.Now()})
		}
		if m.GetHeartbeat() != nil && begun != nil {
			begun()
			begun = nil
		}
	}
}

// All is the target of a watch that sees everything.
func All() *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}
}

// Of is the target of a watch of one submitter.
func Of(submitter string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: submitter}}
}
