package server

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// defaultHeartbeat is the interval of heartbeats when the request names none.
const defaultHeartbeat = 15 * time.Second

// WatchTx streams events; package feed serves the stream.
func (s *txService) WatchTx(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
	prepare := func(ctx context.Context) (feed.Request, error) {
		return s.watchRequest(ctx, r, auth.RightsOf(stream.Context()).Submitters())
	}
	return s.feed.Serve(watchClient{stream}, prepare)
}

// watchRequest resolves the request of a stream.
func (s *txService) watchRequest(ctx context.Context, r *pb.WatchTxRequest,
	names []string) (feed.Request, error) {
	target, err := s.watchTarget(ctx, r)
	if err != nil {
		return feed.Request{}, err
	}
	restricted := names != nil
	if r.GetPool() != "" || target.Txs != nil {
		names = nil // the right to the pool, or to each transaction, is checked already
	}
	token, err := feed.ParseToken(r.GetResumeToken(), target)
	if err != nil {
		return feed.Request{}, err
	}
	heartbeat := defaultHeartbeat
	if r.GetHeartbeat() != nil {
		heartbeat = r.GetHeartbeat().AsDuration()
	}
	return feed.Request{
		Target:     target,
		Names:      names,
		Restricted: restricted,
		Token:      token,
		Heartbeat:  heartbeat,
		UntilFinal: r.GetUntilFinal(),
	}, nil
}

func (s *txService) watchTarget(ctx context.Context,
	r *pb.WatchTxRequest) (t feed.Target, err error) {
	labels, err := watchLabels(r)
	if err != nil {
		return t, err
	}
	t.Accounts = r.GetAccountEvents()
	for _, state := range r.GetStates() {
		t.States |= feed.States(stateOfWire(state))
	}
	switch target := r.GetTarget().(type) {
	case *pb.WatchTxRequest_TxId:
		t.Tx, err = s.resolver.txID(ctx, target.TxId)
		return t, err
	case *pb.WatchTxRequest_Request:
		info, err := s.resolver.txByRequest(ctx, target.Request)
		t.Tx = info.ID
		return t, err
	case *pb.WatchTxRequest_Txs:
		t.Txs, err = s.txIDs(ctx, target.Txs.GetTxIds())
		return t, err
	case *pb.WatchTxRequest_Submitter:
		t.Submitter, err = s.resolver.lookup(ctx, "submitter", target.Submitter)
	case *pb.WatchTxRequest_Pool:
		if _, err = s.resolver.pool(ctx, target.Pool); err == nil {
			labels = maps.Clone(labels)
			if labels == nil {
				labels = map[string]string{}
			}
			labels[store.PoolLabel] = target.Pool
		}
	}
	return t.WithLabels(labels), err
}

// watchLabels returns the requested labels, and rejects fields that do not apply to the target.
func watchLabels(r *pb.WatchTxRequest) (labels map[string]string, err error) {
	named := r.GetTxId() != "" || r.GetRequest() != nil || r.GetTxs() != nil
	if !named && r.GetUntilFinal() {
		return nil, status.InvalidField("until_final",
			"applies only to named transactions; set tx_id, request or txs, or omit until_final")
	}
	if named && len(r.GetLabels()) > 0 {
		return nil, status.InvalidField("labels",
			"do not apply to named transactions; omit them, or watch a submitter or all instead")
	}
	if r.GetAccountEvents() && (named || r.GetPool() != "" || len(r.GetLabels()) > 0 ||
		len(r.GetStates()) > 0) {
		return nil, status.InvalidField("account_events",
			"applies only to submitter and all, without labels and states; omit one of them")
	}
	labels, found := selectors(r.GetLabels())
	if len(found) > 0 {
		return nil, status.Invalid(found...)
	}
	return labels, nil
}

// txIDs parses distinct ids of transactions that the caller may see.
func (s *txService) txIDs(ctx context.Context, texts []string) (*feed.IDSet, error) {
	ids, seen := make([]txn.TxID, 0, len(texts)), make(map[txn.TxID]bool, len(texts))
	var duplicates []status.Violation
	var malformed []string
	for i, text := range texts {
		id, err := txn.ParseTxID(text)
		if err != nil { // reported last: first check that the caller may see all others
			malformed = append(malformed, text)
			continue
		}
		if seen[id] && len(duplicates) <= status.MaxViolations {
			duplicates = append(duplicates, status.Violation{
				Field:   fmt.Sprintf("txs.tx_ids[%d]", i),
				Message: fmt.Sprintf("repeats %s; name each transaction once", id),
			})
		}
		if err := s.resolver.authz.MaySee(ctx, id); err != nil {
			return nil, err
		}
		seen[id], ids = true, append(ids, id)
	}
	switch {
	case len(duplicates) > 0:
		return nil, status.Invalid(duplicates...)
	case len(malformed) > 0:
		return nil, status.AboutTxs(malformed, store.ErrTxNotFound)
	}
	return feed.NewIDSet(ids), nil
}

// watchClient sends the messages of a feed as messages of the contract.
type watchClient struct{ pb.TxService_WatchTxServer }

// SendEvent sends an event.
func (c watchClient) SendEvent(e *store.EventInfo, token string) error {
	if e.Tx.IsAccount() {
		return c.Send(&pb.WatchTxResponse{
			Message: &pb.WatchTxResponse_AccountEvent{
				AccountEvent: wireAccountEvent(e)},
			ResumeToken: token,
		})
	}
	return c.Send(&pb.WatchTxResponse{
		Message:     &pb.WatchTxResponse_Event{Event: wireEvent(e)},
		ResumeToken: token,
	})
}

// SendSnapshot sends a transaction.
func (c watchClient) SendSnapshot(info store.TxInfo) error {
	return c.Send(
		&pb.WatchTxResponse{Message: &pb.WatchTxResponse_Snapshot{Snapshot: wireTx(info)}})
}

// SendHeartbeat sends a heartbeat.
func (c watchClient) SendHeartbeat(at time.Time, behind bool, token string) error {
	heartbeat := &pb.Heartbeat{Time: timestamppb.New(at), Behind: behind}
	return c.Send(&pb.WatchTxResponse{
		Message:     &pb.WatchTxResponse_Heartbeat{Heartbeat: heartbeat},
		ResumeToken: token,
	})
}
