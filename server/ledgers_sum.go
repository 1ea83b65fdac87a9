package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// same sends the request to every ledger.
func same(request proto.Message) func(*ledger) proto.Message {
	return func(*ledger) proto.Message { return request }
}

// sumStatus adds up the totals of all ledgers.
func sumStatus(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	those, missing, err := answered(c.ask(ctx, same(request)))
	if err != nil {
		return nil, err
	}
	sum := those[0].response.(*pb.GetStatusResponse)
	for _, p := range those[1:] {
		a, b := sum.GetTotals(), p.response.(*pb.GetStatusResponse).GetTotals()
		a.Submitters += b.GetSubmitters()
		a.Owned += b.GetOwned()
		a.Protected += b.GetProtected()
		a.Paused += b.GetPaused()
		a.Unfunded += b.GetUnfunded()
		a.Queued += b.GetQueued()
		a.InFlight += b.GetInFlight()
		a.Stuck += b.GetStuck()
		a.UndecidedNonces += b.GetUndecidedNonces()
		a.AwaitingApproval += b.GetAwaitingApproval()
		a.QueuedIsAtLeast = a.GetQueuedIsAtLeast() || b.GetQueuedIsAtLeast()
		a.OldestQueueTime = earlier(a.GetOldestQueueTime(), b.GetOldestQueueTime())
		a.OldestApprovalTime = earlier(a.GetOldestApprovalTime(), b.GetOldestApprovalTime())
	}
	sum.MissingLedgers = missing
	return sum, nil
}

// earlier returns the earlier of two times; nil is none.
func earlier(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && b.AsTime().Before(a.AsTime()) {
		return b
	}
	return a
}

// mergeNodes lists each node once, with its leases in all ledgers.
func mergeNodes(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	those, missing, err := answered(c.ask(ctx, same(request)))
	if err != nil {
		return nil, err
	}
	merged := &pb.ListNodesResponse{MissingLedgers: missing}
	of := map[string]*pb.Node{}
	for _, p := range those {
		for _, n := range p.response.(*pb.ListNodesResponse).GetNodes() {
			is := of[n.GetNodeId()]
			if is == nil {
				of[n.GetNodeId()], merged.Nodes = n, append(merged.Nodes, n)
				continue
			}
			is.Leases += n.GetLeases()
			is.Accepting = is.GetAccepting() && n.GetAccepting()
			if n.GetExpireTime().AsTime().Before(is.GetExpireTime().AsTime()) {
				is.ExpireTime = n.GetExpireTime()
			}
		}
	}
	slices.SortFunc(merged.Nodes, func(a, b *pb.Node) int {
		return strings.Compare(a.GetNodeId(), b.GetNodeId())
	})
	return merged, nil
}

// sumCosts adds up the groups of all ledgers.
func sumCosts(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	those, missing, err := answered(c.ask(ctx, same(request)))
	if err != nil {
		return nil, err
	}
	type group struct {
		chain uint64
		key   string
	}
	merged := &pb.ListCostsResponse{MissingLedgers: missing}
	of := map[group]*pb.Cost{}
	for _, p := range those {
		response := p.response.(*pb.ListCostsResponse)
		merged.More = merged.GetMore() || response.GetMore()
		for _, cost := range response.GetCosts() {
			g := group{cost.GetChainId(), cost.GetKey()}
			is := of[g]
			if is == nil {
				of[g], merged.Costs = cost, append(merged.Costs, cost)
				continue
			}
			is.Transactions += cost.GetTransactions()
			is.Reverted += cost.GetReverted()
			is.GasUsed = addDecimals(is.GetGasUsed(), cost.GetGasUsed())
			is.GasPaid = addDecimals(is.GetGasPaid(), cost.GetGasPaid())
			is.L1Fee = addDecimals(is.GetL1Fee(), cost.GetL1Fee())
			is.Total = addDecimals(is.GetTotal(), cost.GetTotal())
		}
	}
	slices.SortFunc(merged.Costs, func(a, b *pb.Cost) int {
		if a.GetChainId() != b.GetChainId() {
			return int(min(max(int64(a.GetChainId())-int64(b.GetChainId()), -1), 1))
		}
		return strings.Compare(a.GetKey(), b.GetKey())
	})
	if len(merged.Costs) > maxCosts {
		merged.Costs, merged.More = merged.Costs[:maxCosts], true
	}
	return merged, nil
}

// ledgerUnavailable is the reason of a balance whose ledger does not respond.
const ledgerUnavailable = "LEDGER_UNAVAILABLE"

// mergeBalances asks each ledger for the balances of its submitters.
func mergeBalances(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	names := request.(*pb.ListBalancesRequest).GetSubmitters()
	merged := &pb.ListBalancesResponse{Balances: make([]*pb.Balance, len(names))}
	places := map[*ledger][]int{}
	for i, text := range names {
		merged.Balances[i] = &pb.Balance{Submitter: text, Reason: ledgerUnavailable}
		l, err := c.ofSubmitter(ctx, text)
		if err != nil && !isMissing(err) {
			return nil, err
		}
		if err == nil {
			places[l] = append(places[l], i)
		}
	}
	for _, l := range c.ledgers {
		if l.down() != nil && places[l] == nil {
			merged.MissingLedgers = append(merged.MissingLedgers, l.name)
		}
	}
	parts := c.ask(ctx, func(l *ledger) proto.Message {
		if places[l] == nil {
			return nil
		}
		one := &pb.ListBalancesRequest{}
		for _, i := range places[l] {
			one.Submitters = append(one.Submitters, names[i])
		}
		return one
	})
	those, missing, err := answered(parts)
	if err != nil {
		return nil, err
	}
	for _, p := range those {
		for n, balance := range p.response.(*pb.ListBalancesResponse).GetBalances() {
			merged.Balances[places[p.ledger][n]] = balance
		}
	}
	merged.MissingLedgers = append(merged.MissingLedgers, missing...)
	return merged, nil
}

// mergeSinks lists the sinks of all ledgers: a sink has a position in each.
func mergeSinks(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	those, missing, err := answered(havingSink(c.ask(ctx, same(request))))
	if err != nil {
		return nil, err
	}
	merged := &pb.ListSinksResponse{MissingLedgers: missing}
	for _, p := range those {
		for _, sink := range p.response.(*pb.ListSinksResponse).GetSinks() {
			sink.Ledger = p.ledger.name
			merged.Sinks = append(merged.Sinks, sink)
		}
	}
	slices.SortStableFunc(merged.Sinks, func(a, b *pb.Sink) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return merged, nil
}

// inAll makes a decision in every ledger that has the sink.
func inAll(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return decided(havingSink(c.ask(ctx, same(request))))
}

// decided returns the response of a decision on a sink in several ledgers.
func decided(parts []part) (proto.Message, error) {
	if err := unanswered(parts); err != nil {
		return nil, err
	}
	if r, ok := parts[0].response.(interface{ GetSink() *pb.Sink }); ok {
		r.GetSink().Ledger = parts[0].ledger.name
	}
	return parts[0].response, nil
}

// inEvery makes a decision on a sink in every ledger. One that lacks it gets it first: a node that
// begins to deliver there later would create it active, at the end of the feed.
func inEvery(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	parts := c.ask(ctx, same(request))
	exists := slices.ContainsFunc(parts, func(p part) bool { return p.err == nil })
	for i, p := range parts {
		if exists && errors.Is(p.err, store.ErrSinkNotFound) {
			parts[i].response, parts[i].err = c.withSink(ctx, p.ledger, request)
		}
	}
	return decided(havingSink(parts))
}

func (c call) withSink(ctx context.Context, l *ledger,
	request proto.Message) (proto.Message, error) {
	err := l.do(ctx, func(ctx context.Context) error {
		return l.store.EnsureSinks(ctx,
			[]string{request.(interface{ GetSink() string }).GetSink()})
	})
	if err != nil {
		return nil, err
	}
	return c.in(ctx, l, request)
}

// inEach makes a decision in every ledger that has the sink. If one does not respond the call
// fails, and a repeated call makes it there too.
func (c call) inEach(ctx context.Context, request proto.Message) ([]part, error) {
	parts := c.ask(ctx, same(request))
	those := havingSink(parts)
	if err := unanswered(those); err != nil {
		return nil, err
	}
	return those, nil
}

// havingSink returns the parts of the ledgers that have a sink. A new ledger has it once a node has
// begun to deliver there. If none has it, it returns all.
func havingSink(parts []part) []part {
	lacks := func(p part) bool { return errors.Is(p.err, store.ErrSinkNotFound) }
	those := slices.DeleteFunc(slices.Clone(parts), lacks)
	if len(those) == 0 {
		return parts
	}
	return those
}

// unanswered returns the error of a decision that some ledgers did not make. It names all that did
// not respond.
func unanswered(parts []part) error {
	var missing []string
	for _, p := range parts {
		switch {
		case isMissing(p.err):
			missing = append(missing, p.ledger.name)
		case p.err != nil:
			return p.err
		}
	}
	if len(missing) > 0 {
		return missingLedgers(missing)
	}
	return nil
}

func retryUndelivered(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	if request.(*pb.RetryUndeliveredRequest).GetTxId() != "" {
		return whereUndelivered(ctx, c, request)
	}
	sum := &pb.RetryUndeliveredResponse{}
	parts, err := c.inEach(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		sum.Retried += p.response.(*pb.RetryUndeliveredResponse).GetRetried()
	}
	return sum, nil
}

// whereUndelivered makes a decision on a transaction in each ledger that has undelivered events of
// it: those that its account was in when they happened. One event is in one ledger.
func whereUndelivered(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	if l := c.onlyLedger(ctx, request.(interface{ GetTxId() string }).GetTxId()); l != nil {
		return c.on(ctx, l, request)
	}
	parts := havingSink(c.ask(ctx, same(request)))
	those := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return noneThere(p.err) })
	done := slices.IndexFunc(those, func(p part) bool { return p.err == nil })
	err := unanswered(those)
	_, all := request.(*pb.RetryUndeliveredRequest)
	switch {
	case err != nil && (all || done < 0):
		return nil, err // it may have more; a repeated call makes the decision there too
	case done < 0:
		return nil, parts[0].err
	}
	return those[done].response, nil
}

// onlyLedger returns the ledger of a transaction whose account has never moved: no other one can
// have events of it. nil: the account has moved, or its ledger does not tell.
func (c call) onlyLedger(ctx context.Context, text string) *ledger {
	id, err := txn.ParseTxID(text)
	if err != nil {
		return c.any() // every ledger refuses it
	}
	if c.index.id(id.Submitter()) != nil {
		return nil
	}
	l, err := c.ofTx(text)
	if err != nil || l.number.Load() != id.Submitter().Ledger() {
		return nil
	}
	if next, err := c.movedID(ctx, l, id.Submitter()); next != nil || err != nil {
		return nil
	}
	return l
}

// noneThere reports whether a ledger has no undelivered events of a transaction.
func noneThere(err error) bool {
	return errors.Is(err, store.ErrNotParked) || errors.Is(err, store.ErrSinkNotFound)
}

func replaySink(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	r := request.(*pb.ReplaySinkRequest)
	switch {
	case r.GetLedger() != "":
		l, err := c.named("ledger", r.GetLedger())
		if err != nil {
			return nil, err
		}
		return c.on(ctx, l, request)
	case r.GetResumeToken() != "":
		return nil, status.InvalidField("ledger",
			"is missing; set the ledger of the sink's resume_token")
	}
	return inEvery(ctx, c, request)
}

// splitBatch creates the transactions of each ledger in one write there. Each request has its
// own result, as in one ledger.
func splitBatch(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	response, err := c.splitBatch(ctx, request.(*pb.BatchCreateTxRequest), maxMoves)
	if err != nil {
		return nil, err
	}
	return response, nil
}

func (c call) splitBatch(ctx context.Context, r *pb.BatchCreateTxRequest,
	moves int) (*pb.BatchCreateTxResponse, error) {
	places := map[*ledger][]int{}
	results := make([]*pb.BatchCreateTxResult, len(r.GetRequests()))
	found := map[string]*ledger{}
	for i, one := range r.GetRequests() {
		account := one.GetSubmitter() + "\n" + one.GetPool()
		l := found[account]
		if l == nil {
			var err error
			l, err = c.ofKey(ctx, &pb.RequestKey{Submitter: one.GetSubmitter(),
				Pool: one.GetPool()})
			if err != nil {
				results[i] = batchError(err)
				continue
			}
			found[account] = l
		}
		places[l] = append(places[l], i)
	}
	parts := c.ask(ctx, func(l *ledger) proto.Message {
		if places[l] == nil {
			return nil
		}
		part := &pb.BatchCreateTxRequest{}
		for _, i := range places[l] {
			part.Requests = append(part.Requests, r.GetRequests()[i])
		}
		return part
	})
	for _, p := range parts {
		for n, i := range places[p.ledger] {
			if p.err != nil {
				results[i] = batchError(p.err)
				continue
			}
			results[i] = p.response.(*pb.BatchCreateTxResponse).GetResults()[n]
		}
	}
	// As with one ledger, the call fails if none responds.
	if len(parts) > 0 && !slices.ContainsFunc(parts, func(p part) bool { return p.err == nil }) &&
		len(r.GetRequests()) == placed(places) {
		return nil, parts[0].err
	}
	return &pb.BatchCreateTxResponse{Results: c.follow(ctx, r, results, moves-1)}, nil
}

// follow repeats the requests of accounts that have moved, in the ledgers that have them now.
func (c call) follow(ctx context.Context, r *pb.BatchCreateTxRequest,
	results []*pb.BatchCreateTxResult, moves int) []*pb.BatchCreateTxResult {
	var places []int
	again := &pb.BatchCreateTxRequest{}
	for i, result := range results {
		s := grpcstatus.FromProto(result.GetError())
		account := r.GetRequests()[i].GetSubmitter()
		if status.ReasonOf(s) == movedReason && c.movedTo(&store.MovedError{Submitter: account,
			Ledger: status.MovedTo(s)}) != nil {
			places = append(places, i)
			again.Requests = append(again.Requests, r.GetRequests()[i])
		}
	}
	if len(places) == 0 || moves == 0 {
		return results
	}
	response, err := c.splitBatch(ctx, again, moves)
	for n, i := range places {
		if err != nil {
			results[i] = batchError(err)
		} else {
			results[i] = response.GetResults()[n]
		}
	}
	return results
}

var movedReason = status.ReasonName(pb.ErrorReason_ERROR_REASON_SUBMITTER_MOVED)

func placed(places map[*ledger][]int) (n int) {
	for _, those := range places {
		n += len(those)
	}
	return n
}

func batchError(err error) *pb.BatchCreateTxResult {
	return &pb.BatchCreateTxResult{
		Result: &pb.BatchCreateTxResult_Error{Error: status.From(err, "").Proto()},
	}
}
