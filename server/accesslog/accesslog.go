// Package accesslog logs every call once, when it ends, and never its content. It also turns the
// error of a handler into the status that the client receives, since both bear the call's id.
package accesslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/txn"
)

// Log is the access log of a node.
type Log struct {
	logger  *slog.Logger
	clock   clock.Clock
	drained atomic.Int64
	sampler sampler
}

// New returns a log that writes to logger.
func New(logger *slog.Logger, c clock.Clock) *Log { return &Log{logger: logger, clock: c} }

// Drained returns how many calls ended because the node stops.
func (l *Log) Drained() int64 { return l.drained.Load() }

// Call is a call in progress.
type Call struct {
	// ID names the call in the log, and in the status of an internal error.
	ID string
	// Caller is the name of the authenticated caller; empty if it is unknown or has no name.
	Caller string

	log    *Log
	method string
	start  time.Time
}

// Begin starts a call.
func (l *Log) Begin(method string) *Call {
	return &Call{
		ID:     uuid.NewString(),
		log:    l,
		method: status.Clip(method, status.MaxFieldBytes),
		start:  l.clock.Now(),
	}
}

// End logs the call and returns the status of its outcome as an error. A panic that the handler
// left is an internal error.
func (c *Call) End(ctx context.Context, panicked any, err error) error {
	if panicked != nil {
		err = fmt.Errorf("server: panic: %v\n%s", panicked, debug.Stack())
	}
	attributes := []slog.Attr{
		slog.String("method", c.method),
		slog.String("call", c.ID),
		slog.Duration("took", c.log.clock.Now().Sub(c.start)),
	}
	if c.Caller != "" {
		attributes = append(attributes, slog.String("caller", c.Caller))
	}
	if err == nil {
		c.log.logger.LogAttrs(ctx, slog.LevelDebug, "call answered", attributes...)
		return nil
	}
	s := status.From(err, c.ID)
	attributes = append(attributes, slog.String("code", s.Code().String()),
		slog.String("reason", status.ReasonOf(s)))
	level := Level(s.Code())
	if errors.Is(err, status.ErrDraining) { // one for each open stream: the node logs their number
		c.log.drained.Add(1)
		level = slog.LevelDebug
	}
	if level > slog.LevelInfo {
		attributes = append(attributes, slog.String("cause", err.Error()))
	}
	c.log.sample(ctx, level, kind{
		message: "call refused", method: c.method, caller: c.Caller, code: s.Code(),
		reason: status.ReasonOf(s),
	}, attributes)
	return s.Err()
}

// Writes logs the events that the call itself wrote into the ledger, in the form in which owners
// log theirs. A server has no lease, so their fencing token is 0.
func (c *Call) Writes(ctx context.Context, response any) {
	if !c.log.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	write := func(event txn.Kind, tx *pb.Tx) {
		c.log.logger.LogAttrs(ctx, slog.LevelDebug, "transaction moved",
			slog.String("submitter", tx.GetSubmitter()), slog.String("tx_id", tx.GetTxId()),
			slog.Int64("fencing_token", 0), slog.String("event", string(event)),
			slog.String("call", c.ID))
	}
	switch r := response.(type) {
	case *pb.CreateTxResponse:
		if r.GetCreated() {
			write(txn.EventQueued, r.GetTx())
		}
	case *pb.BatchCreateTxResponse:
		for _, result := range r.GetResults() {
			if result.GetCreated() {
				write(txn.EventQueued, result.GetTx())
			}
		}
	case *pb.CancelTxResponse:
		if r.GetOutcome() == pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED {
			write(txn.EventCancelled, r.GetTx())
		}
	}
}

// Level returns the level at which a failed call is logged. Mistakes of clients are not the node's
// problem, and a burst of rejected calls must not fill the log: it is counted.
func Level(code codes.Code) slog.Level {
	switch code {
	case codes.Internal, codes.Unknown:
		return slog.LevelError
	case codes.Unavailable:
		return slog.LevelWarn
	case codes.Canceled, codes.ResourceExhausted:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}
