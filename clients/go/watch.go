package fencepost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const (
	firstPause   = 100 * time.Millisecond // before a stream is resumed; doubles up to longestPause
	longestPause = 5 * time.Second
	longestWait  = time.Minute // limit for a node's retry delay
	silences     = 3           // missed heartbeats before a stream counts as dead
	maxHeld      = 1_000_000   // snapshots held until the first resume token

	// Limits enforced by nodes. A node rejects other heartbeats; the stream must live until the
	// rejection arrives.
	shortestHeartbeat = time.Second
	longestHeartbeat  = 5 * time.Minute
)

// Watch delivers every requested event once, in order per transaction, over as many streams as
// necessary. If a stream breaks, or is silent for three heartbeats, it resumes on any node.
//
// A message with a resume_token marks a position: put it into the request of another Watch, even in
// another process, to continue after that message. Heartbeats are delivered too, and advance the
// token of a quiet watch.
//
// A watch of a submitter, or of all, begins with snapshots of transactions that are not final. They
// are delivered once complete, and the heartbeat after them has the first token. Events already
// covered by a snapshot are omitted. A watch of several transactions (txs) begins in the same way,
// with snapshots of final ones too.
//
// With until_final it ends once all its transactions are final. An error is the last value yielded:
//
//   - the error of ctx when ctx ends, with the cause if there was no stream;
//   - ErrClosed when the client is closed;
//   - an Error when the node rejects the request, or after Options.Patience without a stream;
//   - RESUME_TOKEN_EXPIRED when the next events are no longer in the ledger, which only the caller
//     can handle.
func (c *Client) Watch(ctx context.Context,
	request *pb.WatchTxRequest) iter.Seq2[*pb.WatchTxResponse, error] {
	return func(yield func(*pb.WatchTxResponse, error) bool) {
		if err := c.newWatch(request, yield).run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// errEnough means that the caller left the loop.
var errEnough = errors.New("the caller left the loop")

// watch is the state of one Watch, over all its streams.
type watch struct {
	client   *Client
	request  *pb.WatchTxRequest
	yield    func(*pb.WatchTxResponse, error) bool
	quiet    time.Duration // longest silence of a live stream
	position position
	lost     time.Time // when the last stream was lost; zero while one is live
	broken   error     // the error of the last stream; nil while one is live
	pause    time.Duration
}

func (c *Client) newWatch(request *pb.WatchTxRequest,
	yield func(*pb.WatchTxResponse, error) bool) *watch {
	// stubs send nil as an empty request, which the node rejects
	if request = proto.CloneOf(request); request == nil {
		request = &pb.WatchTxRequest{}
	}
	if request.GetHeartbeat() == nil {
		request.Heartbeat = durationpb.New(c.heartbeat)
	}
	quiet := silences * min(max(request.GetHeartbeat().AsDuration(), shortestHeartbeat),
		longestHeartbeat)
	return &watch{
		client:   c,
		request:  request,
		yield:    yield,
		quiet:    quiet,
		position: newPosition(request.GetResumeToken()),
		pause:    firstPause,
	}
}

// run reads streams until the watch ends.
func (w *watch) run(ctx context.Context) error {
	ctx, release := w.client.whileOpen(ctx)
	defer release()
	for {
		err := w.stream(ctx)
		switch {
		case ctx.Err() != nil:
			return w.ended(ctx)
		case err == nil && w.request.GetUntilFinal():
			return nil
		case err == nil:
			err = unavailable("the stream ended")
		}
		if e := (*Error)(nil); !errors.As(err, &e) || !e.Resumable() ||
			w.lostFor() > w.client.patience {
			return err
		}
		w.broken = err
		// Jitter: watchers that lose a node must not all return at once.
		wait := w.pause/2 + rand.N(w.pause/2)
		if !pause(ctx, max(wait, min(typed(err).RetryAfter, longestWait))) {
			<-ctx.Done() // the deadline is earlier than the end of the pause
			return w.ended(ctx)
		}
		w.pause = min(2*w.pause, longestPause)
	}
}

// ended returns the error of a context that ended. After a deadline it adds the error of the last
// stream as text, for people only.
func (w *watch) ended(ctx context.Context) error {
	if w.broken == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the watch had lost its stream: %v", context.Cause(ctx), w.broken)
}

// lostFor returns the time without a stream.
func (w *watch) lostFor() time.Duration {
	if w.lost.IsZero() {
		w.lost = time.Now()
	}
	return time.Since(w.lost)
}

func unavailable(message string) *Error {
	return &Error{
		Code:    codes.Unavailable,
		Message: message,
		status:  status.New(codes.Unavailable, message),
	}
}

// stream reads one stream until it ends or is silent for too long.
func (w *watch) stream(whole context.Context) error {
	ctx, cancel := context.WithCancelCause(whole)
	defer cancel(nil)
	silent := unavailable(fmt.Sprintf("the stream was silent for %v", w.quiet))
	// It runs only while waiting for a message: a slow caller is not a fault of the node.
	timer := time.AfterFunc(w.quiet, func() { cancel(silent) })
	defer timer.Stop()

	w.position.rewind()
	w.request.ResumeToken = w.position.token
	stream, err := w.client.Txs.WatchTx(ctx, w.request)
	for err == nil {
		var m *pb.WatchTxResponse
		if m, err = stream.Recv(); err == nil {
			timer.Stop()
			err = w.deliver(whole, m)
			timer.Reset(w.quiet)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case context.Cause(ctx) == silent && !errors.Is(err, errEnough):
		return silent
	}
	return err
}

// deliver yields the messages that are ready, but none after the end of the watch.
func (w *watch) deliver(whole context.Context, m *pb.WatchTxResponse) error {
	w.lost = time.Time{}
	w.broken = nil
	w.pause = firstPause
	messages, err := w.position.take(m)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if whole.Err() != nil {
			return context.Cause(whole)
		}
		if !w.yield(m, nil) {
			return errEnough
		}
	}
	return nil
}

// position is the resume token of a watch, and the state needed to repeat nothing.
type position struct {
	token string
	held  []*pb.WatchTxResponse // snapshots before the first token; a new stream repeats them
	shown map[string]uint64     // versions shown by snapshots, until a later event
}

func newPosition(token string) position {
	return position{token: token, shown: map[string]uint64{}}
}

// rewind drops the snapshots that a new stream repeats.
func (p *position) rewind() { p.held = nil }

// take returns the messages that can be delivered.
func (p *position) take(m *pb.WatchTxResponse) ([]*pb.WatchTxResponse, error) {
	if m.GetResumeToken() == "" && p.token == "" {
		if len(p.held) == maxHeld {
			return nil, fmt.Errorf(
				"fencepost: cannot watch more than %d transactions that are not final; "+
					"watch single submitters",
				maxHeld)
		}
		p.held = append(p.held, m)
		return nil, nil
	}
	ready := p.held
	p.held = nil
	for _, held := range ready {
		p.shown[held.GetSnapshot().GetTxId()] = held.GetSnapshot().GetVersion()
	}
	if m.GetResumeToken() != "" {
		p.token = m.GetResumeToken()
	}
	if e := m.GetEvent(); e != nil {
		if e.GetSeq() <= p.shown[e.GetTxId()] {
			return ready, nil
		}
		delete(p.shown, e.GetTxId())
	}
	return append(ready, m), nil
}
