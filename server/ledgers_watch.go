package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A stream of several ledgers is made of a stream of each (package feed). Its token has the
// position in each, so it resumes on any node. Events of one transaction keep their order, because
// they are in one ledger; there is no order between ledgers.
//
// A ledger that does not respond does not end the stream. Heartbeats name it, and its part resumes
// at its last position when it is back.

// routedTxs is the TxService of several ledgers. Its unary methods are routed by their handlers.
type routedTxs struct {
	*txService // of the first ledger, for the unary methods, which are not called

	router *router
}

// WatchTx streams the events of one ledger, or merges those of several.
func (s routedTxs) WatchTx(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
	out := &sentStream{TxService_WatchTxServer: stream}
	for range maxMoves {
		of, err := s.router.watched(stream.Context(), r)
		if err != nil {
			return err
		}
		if len(of) == 1 && r.GetAll() == nil && r.GetTarget() != nil {
			err = s.router.watchOne(r, of[0].ledger, out)
		} else {
			err = s.router.watch(r, of, out)
		}
		switch {
		case r.GetTxs() == nil || !s.router.regroup(stream.Context(), of, err):
			return err
		case out.sent || r.GetResumeToken() != "":
			return store.ErrTokenExpired // the position of one ledger does not tell that of another
		}
	}
	return store.ErrTokenExpired
}

// watchPart is the request of one ledger.
type watchPart struct {
	ledger  *ledger
	request *pb.WatchTxRequest
}

// watched returns the ledgers of a stream with their requests.
func (r *router) watched(ctx context.Context, request *pb.WatchTxRequest) ([]watchPart, error) {
	one := func(l *ledger, err error) ([]watchPart, error) {
		return []watchPart{{l, request}}, err
	}
	switch target := request.GetTarget().(type) {
	case *pb.WatchTxRequest_TxId:
		return one(r.ofTx(target.TxId))
	case *pb.WatchTxRequest_Request:
		return one(r.ofKey(ctx, target.Request))
	case *pb.WatchTxRequest_Submitter:
		return one(r.ofSubmitter(ctx, target.Submitter))
	case *pb.WatchTxRequest_Pool:
		return one(r.ofPool(ctx, target.Pool))
	case *pb.WatchTxRequest_Txs:
		return r.watchedTxs(request, target.Txs.GetTxIds())
	}
	all := make([]watchPart, len(r.ledgers))
	for i, l := range r.ledgers {
		all[i] = watchPart{l, request}
	}
	return all, nil
}

// watchedTxs divides the ids among their ledgers. A malformed or repeated one leaves the request
// as it is: any ledger rejects it.
func (r *router) watchedTxs(request *pb.WatchTxRequest, texts []string) ([]watchPart, error) {
	ids := map[*ledger][]string{}
	seen := map[txn.TxID]bool{}
	for _, text := range texts {
		id, err := txn.ParseTxID(text)
		if err != nil || seen[id] {
			return []watchPart{{r.any(), request}}, nil
		}
		seen[id] = true
		l, err := r.ofTx(text)
		if err != nil {
			return nil, err
		}
		ids[l] = append(ids[l], text)
	}
	if len(ids) == 1 || len(ids) == 0 {
		for l := range ids {
			return []watchPart{{l, request}}, nil
		}
		return []watchPart{{r.any(), request}}, nil
	}
	var parts []watchPart
	for _, l := range r.ledgers {
		if ids[l] == nil {
			continue
		}
		part := proto.Clone(request).(*pb.WatchTxRequest)
		part.Target = &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{TxIds: ids[l]}}
		parts = append(parts, watchPart{l, part})
	}
	return parts, nil
}

// merged is a stream of several ledgers.
type merged struct {
	*router
	target    feed.Target
	moved     string // of its tokens
	heartbeat time.Duration
	stream    pb.TxService_WatchTxServer
	fail      context.CancelCauseFunc
	news      chan struct{} // a part has changed; capacity 1

	mu        sync.Mutex // of a message, and of the fields below
	positions map[int32]string
	parts     []*mergedPart
	sentAt    time.Time
	missing   []string // as the last heartbeat said
	begun     bool     // the first heartbeat was sent
}

// mergedPart is the part of one ledger.
type mergedPart struct {
	watchPart
	*merged

	started bool // its snapshots are complete, or it has resumed
	behind  bool
	// away means that its stream has ended because the ledger does not respond, and has not caught
	// up since.
	away bool
	done bool // all its transactions are final
}

// watch serves a stream of several ledgers.
func (r *router) watch(request *pb.WatchTxRequest, of []watchPart,
	stream pb.TxService_WatchTxServer) error {
	target, err := mergedTarget(request)
	if err != nil {
		return err
	}
	m := &merged{router: r, target: target, heartbeat: defaultHeartbeat, stream: stream,
		news: make(chan struct{}, 1), sentAt: r.clock.Now()}
	if request.GetHeartbeat() != nil {
		m.heartbeat = request.GetHeartbeat().AsDuration()
	}
	m.moved = r.movedDigest(of)
	m.positions, err = feed.ParseMergedToken(request.GetResumeToken(), target, m.moved)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(stream.Context())
	m.fail = fail
	var all sync.WaitGroup
	defer all.Wait()
	defer fail(nil)
	for _, p := range of {
		part := &mergedPart{watchPart: p, merged: m}
		m.parts = append(m.parts, part)
	}
	for _, part := range m.parts {
		all.Go(func() { part.run(ctx) })
	}
	return m.run(ctx)
}

// mergedTarget returns the target of a whole request, for its tokens.
func mergedTarget(r *pb.WatchTxRequest) (t feed.Target, err error) {
	labels, err := watchLabels(r)
	if err != nil {
		return t, err
	}
	t.Accounts = r.GetAccountEvents()
	for _, state := range r.GetStates() {
		t.States |= feed.States(stateOfWire(state))
	}
	if r.GetTxs() == nil {
		return t.WithLabels(labels), nil
	}
	ids := make([]txn.TxID, 0, len(r.GetTxs().GetTxIds()))
	for _, text := range r.GetTxs().GetTxIds() {
		id, err := txn.ParseTxID(text)
		if err != nil {
			return t, status.AboutTx(text, store.ErrTxNotFound)
		}
		ids = append(ids, id)
	}
	t.Txs = feed.NewIDSet(ids)
	return t, nil
}

// run sends heartbeats until the stream ends.
func (m *merged) run(ctx context.Context) error {
	allAway := time.Time{} // since when no ledger responds
	for {
		changes := m.changes()
		wait, done, err := m.beat()
		if err != nil || done {
			return err
		}
		now := m.clock.Now()
		switch {
		case !m.allMissing():
			allAway = time.Time{}
		case allAway.IsZero():
			allAway = now
		case now.Sub(allAway) > m.outage:
			return missingLedgers(m.names())
		}
		timer := m.clock.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.news:
		case <-changes:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// beat sends a heartbeat if it is due, and returns the time to the next one.
func (m *merged) beat() (wait time.Duration, done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := []string{}
	starting, behind := false, false
	done = true
	for _, p := range m.parts {
		done = done && p.done
		switch {
		case p.done:
		case p.isMissing():
			missing = append(missing, p.ledger.name)
		case !p.started:
			starting = true
		default:
			behind = behind || p.behind
		}
	}
	now := m.clock.Now()
	due := m.sentAt.Add(m.heartbeat)
	switch {
	case done:
		return 0, true, nil
	case starting, len(missing) == len(m.parts): // a heartbeat would mean that it is up to date
		return m.heartbeat, false, nil
	case m.begun && now.Before(due) && slices.Equal(missing, m.missing):
		return due.Sub(now), false, nil
	}
	m.begun, m.sentAt = true, now
	m.missing = missing
	return m.heartbeat, false, m.stream.Send(&pb.WatchTxResponse{
		Message: &pb.WatchTxResponse_Heartbeat{Heartbeat: &pb.Heartbeat{
			Time: timestamppb.New(now), Behind: behind, MissingLedgers: missing,
		}},
		ResumeToken: feed.MergedToken(m.target, m.positions, m.moved),
	})
}

func (m *merged) allMissing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.parts,
		func(p *mergedPart) bool { return p.done || !p.isMissing() })
}

func (m *merged) names() (names []string) {
	for _, p := range m.parts {
		names = append(names, p.ledger.name)
	}
	return names
}

func (m *merged) notify() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// isMissing reports whether the ledger does not respond. The caller holds the lock.
func (p *mergedPart) isMissing() bool {
	return p.away || p.ledger.down() != nil || !p.ledger.feed.Healthy()
}

// run streams the events of the ledger, and continues after an outage.
func (p *mergedPart) run(ctx context.Context) {
	for ctx.Err() == nil {
		changes := p.changes()
		if p.ledger.down() != nil {
			select {
			case <-changes:
			case <-ctx.Done():
			}
			continue
		}
		err := p.ledger.feed.Serve(partClient{p, ctx}, p.prepare)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			p.set(func() { p.done = true })
			return
		case !isMissing(err):
			p.fail(err)
			return
		}
		p.set(func() { p.away = true })
		if clock.Sleep(ctx, p.clock, probeInterval) != nil {
			return
		}
	}
}

func (p *mergedPart) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.notify()
}

// prepare resolves the request for the ledger, at the position of the stream.
func (p *mergedPart) prepare(ctx context.Context) (feed.Request, error) {
	request := proto.Clone(p.request).(*pb.WatchTxRequest)
	request.ResumeToken = ""
	out, err := p.ledger.txs.watchRequest(ctx, request,
		auth.RightsOf(p.stream.Context()).Submitters())
	if err != nil {
		return out, err
	}
	p.mu.Lock()
	position := p.positions[p.ledger.number.Load()]
	p.mu.Unlock()
	out.Prompt = true // whether it is away, or behind
	out.Token, err = feed.ResumeAt(position)
	return out, err
}

// partClient passes the messages of one ledger to the client of the merged stream.
type partClient struct {
	*mergedPart

	ctx context.Context
}

func (c partClient) Context() context.Context { return c.ctx }

// move records the position after a message. The caller holds the lock.
func (c partClient) move(token string) {
	c.positions[c.ledger.number.Load()] = feed.PositionOf(token)
}

func (c partClient) SendEvent(e *store.EventInfo, token string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(token)
	c.sentAt = c.clock.Now()
	return watchClient{c.stream}.SendEvent(e, feed.MergedToken(c.target, c.positions, c.moved))
}

func (c partClient) SendSnapshot(info store.TxInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sentAt = c.clock.Now()
	return watchClient{c.stream}.SendSnapshot(info)
}

// SendHeartbeat records that the part is alive. The merged stream sends heartbeats of its own.
func (c partClient) SendHeartbeat(_ time.Time, behind bool, token string) error {
	c.mu.Lock()
	c.move(token)
	changed := !c.started || c.behind != behind || c.away
	c.started, c.away = true, false
	c.behind = behind
	c.mu.Unlock()
	if changed {
		c.notify()
	}
	return nil
}
