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
	longestWait  = time.Minute // that a node can ask for
	silences     = 3           // heartbeats that fail to come before a stream is taken for dead
	maxHeld      = 1_000_000   // snapshots that wait for the first resume token

	// What a node grants. It refuses a request for another heartbeat; the stream must live until that is heard.
	shortestHeartbeat = time.Second
	longestHeartbeat  = 5 * time.Minute
)

// Watch delivers what the request asks for: every event once and in order per transaction, over as many streams as it takes. When a stream breaks, or says
// nothing for three heartbeats, it is resumed where it was, on whichever node answers.
//
// A message with a resume_token is a place to go on from: put it into the request of another Watch, also in another process, to get what comes after that
// message. Heartbeats are delivered too; they move the token of a quiet watch on.
//
// A watch of a submitter, or of all, begins with snapshots of what is not final, which are delivered once they are complete; the heartbeat after them brings the
// first token. Events that a snapshot shows already are left out. So does a watch of several transactions (txs), whose snapshots show what is final too.
//
// It ends with the final event, of several once all are final, if the request says until_final. It ends with an error, the last thing that it yields, when ctx ends
// (the error is that of ctx, and says why there was no stream if there was none), when the client is closed (ErrClosed), when the node refuses the request, when no stream could be had for Options.Patience, or with
// RESUME_TOKEN_EXPIRED when the ledger does not hold what comes next any more: only the caller can know what to make of that.
func (c *Client) Watch(ctx context.Context,
	request *pb.WatchTxRequest) iter.Seq2[*pb.WatchTxResponse, error] {
	return func(yield func(*pb.WatchTxResponse, error) bool) {
		if err := c.newWatch(request, yield).run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// errEnough says that the caller wants no more.
var errEnough = errors.New("the caller wants no more")

// watch is one Watch under way, over all of its streams.
type watch struct {
	client  *Client
	request *pb.WatchTxRequest
	yield   func(*pb.WatchTxResponse, error) bool
	quiet   time.Duration // longest silence of a stream that lives
	place   place
	lost    time.Time // when the last stream that said something was lost; zero while one lives
	broken  error     // why the last stream was lost; nil while one lives
	pause   time.Duration
}

func (c *Client) newWatch(request *pb.WatchTxRequest,
	yield func(*pb.WatchTxResponse, error) bool) *watch {
	if request = proto.CloneOf(request); request == nil { // which stubs take for an empty one, and the node refuses
		request = &pb.WatchTxRequest{}
	}
	if request.GetHeartbeat() == nil {
		request.Heartbeat = durationpb.New(c.heartbeat)
	}
	quiet := silences * min(max(request.GetHeartbeat().AsDuration(), shortestHeartbeat),
		longestHeartbeat)
	return &watch{
		client:  c,
		request: request,
		yield:   yield,
		quiet:   quiet,
		place:   newPlace(request.GetResumeToken()),
		pause:   firstPause,
	}
}

// run reads stream after stream until the watch is over.
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
		// Of many watchers that lose a node not all shall come back at once.
		wait := w.pause/2 + rand.N(w.pause/2)
		if !pause(ctx, max(wait, min(typed(err).RetryAfter, longestWait))) {
			<-ctx.Done() // it comes before the pause would end
			return w.ended(ctx)
		}
		w.pause = min(2*w.pause, longestPause)
	}
}

// ended is the error of a context that ended. Why there was no stream when its deadline passed is told, and no more than that: nothing is to be decided by it.
func (w *watch) ended(ctx context.Context) error {
	if w.broken == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the watch had lost its stream: %v", context.Cause(ctx), w.broken)
}

// lostFor tells for how long there has been no stream.
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

// stream reads one stream to its end, or until it has been silent for too long.
func (w *watch) stream(whole context.Context) error {
	ctx, cancel := context.WithCancelCause(whole)
	defer cancel(nil)
	silent := unavailable(fmt.Sprintf("the stream was silent for %v", w.quiet))
	// It runs only while a message is waited for: how long the caller takes is no fault of the node.
	timer := time.AfterFunc(w.quiet, func() { cancel(silent) })
	defer timer.Stop()

	w.place.rewind()
	w.request.ResumeToken = w.place.token
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

// deliver hands on what can be told now, but nothing after the end of the watch.
func (w *watch) deliver(whole context.Context, m *pb.WatchTxResponse) error {
	w.lost, w.broken, w.pause = time.Time{}, nil, firstPause
	messages, err := w.place.take(m)
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

// place is where a watch stands, and what it must remember to repeat nothing.
type place struct {
	token string
	held  []*pb.WatchTxResponse // snapshots before the first token: if the stream breaks there, it begins anew, and they are sent again
	shown map[string]uint64     // versions that snapshots showed of transactions, until an event goes beyond
}

func newPlace(token string) place { return place{token: token, shown: map[string]uint64{}} }

// rewind forgets what a new stream tells again.
func (p *place) rewind() { p.held = nil }

// take returns what can be delivered now.
func (p *place) take(m *pb.WatchTxResponse) ([]*pb.WatchTxResponse, error) {
	if m.GetResumeToken() == "" && p.token == "" {
		if len(p.held) == maxHeld {
			return nil, fmt.Errorf(
				"fencepost: more than %d transactions are not final; watch single submitters",
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
