package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A stream of one account follows it to another ledger: it sends all events of the old ledger, and
// then those of the new one after the arrival. A stream of named transactions of several accounts
// has one position for them, so it expires when one of them moves.

// sentStream knows whether a message was sent.
type sentStream struct {
	pb.TxService_WatchTxServer

	sent bool
}

// Send sends a message.
func (s *sentStream) Send(m *pb.WatchTxResponse) error {
	s.sent = true
	return s.TxService_WatchTxServer.Send(m)
}

// watchOne streams the events of one ledger, and follows the account.
func (r *router) watchOne(request *pb.WatchTxRequest, l *ledger,
	stream pb.TxService_WatchTxServer) error {
	ctx := stream.Context()
	if request.GetTxs() != nil && feed.IsMerged(request.GetResumeToken()) {
		return expiredMerged(request)
	}
	var from *feed.Token // in a ledger that the stream has followed to
	for {
		err := l.txs.watchFrom(request, from, stream)
		left, open := errors.AsType[*feed.LeftError](err)
		if open = open && left.Open && isOfOne(request); open {
			next := r.movedTo(err)
			if next == nil {
				return err
			}
			r.index.moveID(left.Account, next)
			at, err := r.arrival(ctx, next, left.Account)
			if err != nil {
				return err
			}
			token := feed.After(at, left.Seq)
			from, l = &token, next
			continue
		}
		if request.GetTxs() != nil {
			return err
		}
		next := r.movedTo(err)
		if next == nil && request.GetTxId() != "" {
			next, err = r.left(ctx, l, request.GetTxId(), err)
		}
		switch {
		case next == nil || ctx.Err() != nil:
			return err
		case from != nil: // it has moved on before the stream began there
			return store.ErrTokenExpired
		}
		l = next
	}
}

// watchFrom is WatchTx from a position of this ledger instead of that of the request; nil: from
// that.
func (s *txService) watchFrom(r *pb.WatchTxRequest, from *feed.Token,
	stream pb.TxService_WatchTxServer) error {
	return s.feed.Serve(watchClient{stream}, func(ctx context.Context) (feed.Request, error) {
		out, err := s.watchRequest(ctx, r, auth.RightsOf(stream.Context()).Submitters())
		if from != nil {
			out.Token = *from
		}
		return out, err
	})
}

// expiredMerged checks a token of several ledgers for a stream that needs one only.
func expiredMerged(request *pb.WatchTxRequest) error {
	target, err := mergedTarget(request)
	if err != nil {
		return err
	}
	if _, err := feed.ParseMergedToken(request.GetResumeToken(), target, ""); err != nil {
		return err
	}
	return store.ErrTokenExpired
}

// isOfOne reports whether a stream has the events of one account.
func isOfOne(request *pb.WatchTxRequest) bool {
	of := map[txn.SubmitterID]bool{}
	for _, id := range namedIDs(request) {
		of[id.Submitter()] = true
	}
	return len(of) <= 1
}

// namedIDs returns the ids of a request that names several transactions.
func namedIDs(request *pb.WatchTxRequest) (ids []txn.TxID) {
	for _, text := range request.GetTxs().GetTxIds() {
		if id, err := txn.ParseTxID(text); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

const arrivalPoll = probeInterval / 10

// arrival waits until an account has arrived in a ledger, and returns a position before its first
// event there.
func (r *router) arrival(ctx context.Context, l *ledger,
	id txn.SubmitterID) (at store.Position, err error) {
	begun := r.clock.Now()
	for {
		err := l.do(ctx, func(ctx context.Context) (err error) {
			at, err = l.store.Arrival(ctx, id)
			return err
		})
		if err == nil {
			return at, nil
		}
		if r.clock.Now().Sub(begun) > r.outage {
			return at, fmt.Errorf("%w: %w", l.missing(), err)
		}
		if err := clock.Sleep(ctx, r.clock, arrivalPoll); err != nil {
			return at, err
		}
	}
}

// regroup reports whether the stream of named transactions ended because an account of them is in
// another ledger than the index knew, which it knows then.
func (r *router) regroup(ctx context.Context, of []watchPart, err error) (moved bool) {
	if err == nil || ctx.Err() != nil ||
		!errors.Is(err, store.ErrMoved) && codeOf(err) != codes.NotFound {
		return false
	}
	for _, part := range of {
		var ids []txn.SubmitterID
		for _, id := range namedIDs(part.request) {
			ids = append(ids, id.Submitter())
		}
		_ = part.ledger.do(ctx, func(ctx context.Context) error {
			away, err := part.ledger.store.MovedOf(ctx, ids)
			for id, to := range away {
				if next := r.movedTo(to); next != nil {
					r.index.moveID(id, next)
					moved = true
				}
			}
			return err
		})
	}
	return moved
}

// movedDigest stands for the ledgers of named transactions that another ledger has than that of
// their numbers; empty: there is none.
func (r *router) movedDigest(of []watchPart) string {
	var lines []string
	for _, part := range of {
		number := part.ledger.number.Load()
		for _, id := range namedIDs(part.request) {
			if id.Submitter().Ledger() != number {
				lines = append(lines, fmt.Sprintf("%d %d\n", id.Submitter(), number))
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range slices.Compact(lines) {
		h.Write([]byte(line))
	}
	const size = 12 // bytes, as of other digests in tokens
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:size])
}
