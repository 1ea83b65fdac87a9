package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// sinkService implements SinkService.
type sinkService struct {
	pb.UnimplementedSinkServiceServer

	store Store
	log   *slog.Logger
}

func aboutSink(name string, err error) error {
	return status.About(fmt.Sprintf("sink %q", name), err)
}

// ListSinks returns all sinks, or the named one.
func (s *sinkService) ListSinks(ctx context.Context,
	r *pb.ListSinksRequest) (*pb.ListSinksResponse, error) {
	cursors, err := s.store.SinkCursors(ctx, r.GetSink())
	if err != nil {
		return nil, status.About("sinks", err)
	}
	if r.GetSink() != "" && len(cursors) == 0 {
		return nil, aboutSink(r.GetSink(), store.ErrSinkNotFound)
	}
	response := &pb.ListSinksResponse{}
	for _, c := range cursors {
		if c.Parked, c.Dead, err = s.store.CountParked(ctx, c.Sink); err != nil {
			return nil, status.About("sinks", err)
		}
		response.Sinks = append(response.Sinks, wireSink(c))
	}
	return response, nil
}

// sink returns one sink after a decision.
func (s *sinkService) sink(ctx context.Context, name string) (*pb.Sink, error) {
	all, err := s.ListSinks(ctx, &pb.ListSinksRequest{Sink: name})
	if err != nil {
		return nil, err
	}
	return all.GetSinks()[0], nil
}

// ListUndelivered pages through parked transactions by id.
func (s *sinkService) ListUndelivered(ctx context.Context,
	r *pb.ListUndeliveredRequest) (*pb.ListUndeliveredResponse, error) {
	digest := undeliveredDigest(r)
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return nil, err
	}
	size := pageSize(r.GetPageSize())
	// One more row shows whether there is another page.
	filter := store.ParkedFilter{Sink: r.GetSink(), DeadOnly: r.GetDeadOnly(), Limit: size + 1}
	if last != nil {
		if len(last) != len(filter.After) {
			return nil, errPageToken()
		}
		filter.After = txn.TxID(last)
	}
	parked, err := s.store.ListParked(ctx, filter)
	if err != nil {
		return nil, aboutSink(r.GetSink(), err)
	}
	if len(parked) == 0 {
		if _, err := s.sink(ctx, r.GetSink()); err != nil {
			return nil, err
		}
	}
	response := &pb.ListUndeliveredResponse{}
	if len(parked) > size {
		parked = parked[:size]
		response.NextPageToken = pageToken(digest, parked[size-1].Tx[:])
	}
	for _, p := range parked {
		response.Undelivered = append(response.Undelivered, wireParked(p))
	}
	return response, nil
}

// undeliveredDigest returns the digest of a filter.
func undeliveredDigest(r *pb.ListUndeliveredRequest) []byte {
	return filterDigest(&pb.ListUndeliveredRequest{Sink: r.GetSink(), DeadOnly: r.GetDeadOnly()})
}

// decision is the decision of a request about a sink.
func decision(ctx context.Context, r interface {
	GetSink() string
	GetReason() string
	GetOperator() string
}) store.SinkDecision {
	return store.SinkDecision{Sink: r.GetSink(), Reason: r.GetReason(), Operator: r.GetOperator(),
		Caller: auth.RightsOf(ctx).Caller()}
}

// decided logs a decision.
func (s *sinkService) decided(ctx context.Context, kind string, d store.SinkDecision) {
	s.log.LogAttrs(ctx, slog.LevelInfo, "sink command accepted", slog.String("kind", kind),
		slog.String("sink", d.Sink), slog.String("operator", d.Operator),
		slog.String("caller", d.Caller))
}

func (s *sinkService) setStatus(ctx context.Context, d store.SinkDecision, kind string,
	to txn.SinkStatus) (*pb.Sink, error) {
	if err := s.store.SetSinkStatus(ctx, d, to); err != nil {
		return nil, aboutSink(d.Sink, err)
	}
	s.decided(ctx, kind, d)
	return s.sink(ctx, d.Sink)
}

// PauseSink stops deliveries.
func (s *sinkService) PauseSink(ctx context.Context,
	r *pb.PauseSinkRequest) (*pb.PauseSinkResponse, error) {
	sink, err := s.setStatus(ctx, decision(ctx, r), "PAUSE", txn.SinkPaused)
	if err != nil {
		return nil, err
	}
	return &pb.PauseSinkResponse{Sink: sink}, nil
}

// ResumeSink continues deliveries.
func (s *sinkService) ResumeSink(ctx context.Context,
	r *pb.ResumeSinkRequest) (*pb.ResumeSinkResponse, error) {
	sink, err := s.setStatus(ctx, decision(ctx, r), "RESUME", txn.SinkActive)
	if err != nil {
		return nil, err
	}
	return &pb.ResumeSinkResponse{Sink: sink}, nil
}

// RetryUndelivered retries a transaction, or all dead ones.
func (s *sinkService) RetryUndelivered(ctx context.Context,
	r *pb.RetryUndeliveredRequest) (*pb.RetryUndeliveredResponse, error) {
	var id txn.TxID
	if r.GetTxId() != "" {
		var err error
		if id, err = txn.ParseTxID(r.GetTxId()); err != nil {
			return nil, status.AboutTx(r.GetTxId(), store.ErrTxNotFound)
		}
	}
	if _, err := s.sink(ctx, r.GetSink()); err != nil {
		return nil, err
	}
	d := decision(ctx, r)
	n, err := s.store.RetryParked(ctx, d, id)
	if err != nil {
		return nil, aboutSink(r.GetSink(), err)
	}
	s.decided(ctx, "RETRY", d)
	return &pb.RetryUndeliveredResponse{Retried: n}, nil
}

// SkipUndelivered gives up one event.
func (s *sinkService) SkipUndelivered(ctx context.Context,
	r *pb.SkipUndeliveredRequest) (*pb.SkipUndeliveredResponse, error) {
	id, err := txn.ParseTxID(r.GetTxId())
	if err != nil {
		return nil, status.AboutTx(r.GetTxId(), store.ErrTxNotFound)
	}
	d := decision(ctx, r)
	if err := s.store.SkipParked(ctx, d, id, int64(r.GetSeq())); err != nil {
		return nil, aboutSink(r.GetSink(), err)
	}
	s.decided(ctx, "SKIP", d)
	return &pb.SkipUndeliveredResponse{}, nil
}

// ReplaySink moves the position of a sink back, never forward.
func (s *sinkService) ReplaySink(ctx context.Context,
	r *pb.ReplaySinkRequest) (*pb.ReplaySinkResponse, error) {
	at, err := s.replayFrom(ctx, r)
	if err != nil {
		return nil, aboutSink(r.GetSink(), err)
	}
	d := decision(ctx, r)
	if d.From = "TOKEN"; r.GetTime() != nil {
		d.From = r.GetTime().AsTime().Format(time.RFC3339Nano)
	}
	if err := s.store.ReplaySink(ctx, d, at); err != nil {
		return nil, aboutSink(r.GetSink(), err)
	}
	s.decided(ctx, "REPLAY", d)
	sink, err := s.sink(ctx, r.GetSink())
	if err != nil {
		return nil, err
	}
	return &pb.ReplaySinkResponse{Sink: sink}, nil
}

func (s *sinkService) replayFrom(ctx context.Context,
	r *pb.ReplaySinkRequest) (at store.Position, err error) {
	if r.GetResumeToken() == "" {
		if err := r.GetTime().CheckValid(); err != nil {
			return at, status.InvalidField("time", "is not a valid time; correct it")
		}
		return s.store.PositionFrom(ctx, r.GetTime().AsTime())
	}
	token, err := feed.ParseToken(r.GetResumeToken(), feed.Target{})
	if err != nil {
		return at, err
	}
	head, err := s.store.Head(ctx)
	if err != nil {
		return at, err
	}
	if at = token.Position(); !head.Holds(at) {
		return at, store.ErrTokenExpired
	}
	if head.Trims(at) {
		return at, store.ErrTrimmed
	}
	return at, nil
}

func wireSink(c txn.SinkCursor) *pb.Sink {
	out := &pb.Sink{
		Name: c.Sink, Status: pb.SinkStatus(pb.SinkStatus_value["SINK_STATUS_"+string(c.Status)]),
		Reason: c.Reason, Operator: c.Operator, OwnerNode: c.Owner, FencingToken: int64(c.Token),
		Delivered: c.Delivered, Parked: c.Parked, Dead: c.Dead, UpdateTime: wireTime(c.UpdatedAt),
	}
	if at, err := store.ParsePosition(c.Position); err == nil {
		out.ResumeToken = feed.MultiToken(feed.Target{}, at)
	}
	if c.EventAt != nil {
		out.EventTime = wireTime(*c.EventAt)
	}
	return out
}

func wireParked(p txn.SinkParked) *pb.Undelivered {
	out := &pb.Undelivered{
		TxId: p.Tx.String(), Seq: uint64(p.Next), LastSeq: uint64(p.Last),
		Attempts: uint32(p.Attempts), Reason: p.Reason, Dead: p.DueAt == nil,
		ParkTime: wireTime(p.ParkedAt),
	}
	if p.DueAt != nil {
		out.RetryTime = wireTime(*p.DueAt)
	}
	return out
}

// EventMessage is an event as WatchTx sends it.
func EventMessage(e *store.EventInfo) *pb.TxEvent { return wireEvent(e) }

// AccountEventMessage returns the message of an event of an account.
func AccountEventMessage(e *store.EventInfo) *pb.AccountEvent { return wireAccountEvent(e) }

// Feed returns the feed of the node's events, which runs while the server serves.
func (s *Server) Feed() *feed.Feed { return s.feed }
