package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
)

// ErrWrongChain says that an endpoint serves another chain than the one configured.
var ErrWrongChain = errors.New("wrong chain")

// ErrWrongGenesis says that an endpoint serves a chain of the right id that began with another block: it was reset, or it is another network.
var ErrWrongGenesis = errors.New("wrong genesis block")

const (
	firstBackoff = 250 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// longBackoff is for faults that a person has to mend: a wrong chain, a refused key.
	longBackoff = 30 * time.Second
	// wsMaxLate is how many calls in a row may stay without an answer before a WebSocket is taken to be dead.
	wsMaxLate = 3
	// probeAge is how old the known head of an endpoint may be before a fail-over trusts it.
	probeAge = 2 * time.Second
)

// neverVerified is no number of connections.
const neverVerified = math.MaxUint64

// endpoint is one RPC address: its connection, what was verified about it, its health and how far its view of the chain reaches.
//
// A connection is used only after chain id and genesis block were checked on it. Over HTTP a request can open a connection by itself; then the answer counts
// only once the check has been repeated.
type endpoint struct {
	label string // "endpoint 1": addresses are secrets
	url   string
	ws    bool
	o     *Options
	pin   *genesisPin

	secrets redactor // the parts of url

	slots      chan struct{} // bounds the calls under way
	connecting chan struct{} // one connects, the others wait for it
	dials      atomic.Uint64 // connections opened so far
	byHashOnly atomic.Bool   // it does not serve the receipts of a block as a whole
	sends      sendBackoff
	outbox     outbox

	mu            sync.Mutex
	client        *rpc.Client // nil: not connected
	wsConn        *wsConn     // under the client; nil over HTTP
	idle          func()      // closes idle connections; nil for a WebSocket
	verifiedDials uint64      // value of dials at the last good check; unchecked before the first
	failures      int         // in a row; a proof aside does not end the row, for an endpoint may pass it and fail at work
	unhealthy     bool        // it failed last, and nothing has shown since that it is well
	mustVerify    bool        // verified anew before it is used again: whatever broke may have put another in its place
	retryAt       time.Time
	last          *fault
	head          uint64 // newest block number it told
	highest       uint64 // highest block number it ever told
	headAt        time.Time
}

// genesisPin is the genesis hash that all endpoints must share.
type genesisPin struct {
	mu   sync.Mutex
	hash txn.Hash
}

// hold pins the hash if none is pinned, and returns the pinned one.
func (p *genesisPin) hold(hash txn.Hash) txn.Hash {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hash == (txn.Hash{}) {
		p.hash = hash
	}
	return p.hash
}

func (p *genesisPin) get() txn.Hash {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hash
}

func newEndpoint(i int, o *Options, pin *genesisPin) *endpoint {
	address := o.Endpoints[i]
	scheme, _, _ := strings.Cut(address, ":")
	return &endpoint{
		label: fmt.Sprintf("endpoint %d",
			i+1), url: address, ws: isWebSocket(strings.ToLower(scheme)), o: o, pin: pin, secrets: redactorFor(address),
		slots: make(chan struct{},
			o.MaxInFlight), connecting: make(chan struct{}, 1), verifiedDials: neverVerified,
	}
}

// call runs fn against the verified endpoint, bounded by the timeout, and keeps the endpoint's health. What fn returns is read as a fault.
func (e *endpoint) call(ctx context.Context, fn func(context.Context, *rpc.Client) error) *fault {
	client, f := e.ready(ctx)
	if f != nil {
		return f
	}
	var n callInfo
	f = e.do(ctx, client, e.o.Timeout, &n, fn)
	if f == nil || f.answered || !e.replaced(client) {
		e.recordHealth(ctx, cmp.Or(f, n.limited))
	}
	if f != nil || e.allVerified() {
		return f
	}
	if _, unverified := e.ready(ctx); unverified != nil {
		// The answer came over a connection that nobody had checked. A send may have been taken, by whatever chain that is.
		return &fault{class: txn.Ambiguous, detail: unverified.detail, cause: unverified.cause}
	}
	return nil
}

// do is one call in one slot.
func (e *endpoint) do(ctx context.Context, client *rpc.Client, timeout time.Duration, n *callInfo,
	fn func(context.Context, *rpc.Client) error) *fault {
	if ctx.Err() != nil { // which a connection with room may overlook
		return &fault{class: txn.Unavailable, detail: describe(ctx.Err()), ours: true}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return &fault{
			class:  txn.Unavailable,
			detail: fmt.Sprintf("all %d calls to it are taken", cap(e.slots)),
			ours:   true,
		}
	}
	ctx, done, ok := e.withConn(withCallInfo(ctx, n), client)
	if !ok {
		return e.faultOf(errConnClosed, nil) // not a byte left
	}
	defer done()
	n.mayHaveLeft.Store(e.ws) // a WebSocket is open by now
	if err := fn(ctx, client); err != nil {
		return e.faultOf(closeCause(ctx, err), n)
	}
	return nil
}

// withConn is ctx that ends when the client's WebSocket is lost; not ok: it was let go meanwhile.
func (e *endpoint) withConn(ctx context.Context,
	client *rpc.Client) (up context.Context, done func(), ok bool) {
	if !e.ws {
		return ctx, func() {}, true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != client {
		return nil, nil, false
	}
	up, done = e.wsConn.withConn(ctx)
	return up, done, true
}

// replaced tells whether another connection took the client's place: how the old one ended says nothing about it.
func (e *endpoint) replaced(client *rpc.Client) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.client != nil && e.client != client
}

// isBroken tells, under the endpoint's lock, whether the WebSocket broke. That may come to light while nobody calls, or while a call is late.
func (e *endpoint) isBroken() bool { return e.wsConn != nil && e.wsConn.isClosed() }

// ready connects and verifies, unless that is done, and refuses while the endpoint is backing off. What it refuses has surely not left.
func (e *endpoint) ready(ctx context.Context) (*rpc.Client, *fault) {
	if client, f := e.state(); client != nil || f != nil {
		return client, f
	}
	select {
	case e.connecting <- struct{}{}:
		defer func() { <-e.connecting }()
	case <-ctx.Done():
		return nil, &fault{class: txn.Unavailable, detail: "no connection in time"}
	}
	if client, f := e.state(); client != nil || f != nil { // another caller was faster
		return client, f
	}
	client, f := e.connect(ctx)
	if f != nil {
		e.verifyFailed(ctx, f)
		return nil, f
	}
	return client, nil
}

// verifyFailed keeps the health of an endpoint that did not pass the check.
func (e *endpoint) verifyFailed(ctx context.Context, f *fault) {
	f.answered = false // whatever it answered to the check, it cannot be used
	if f.class == txn.Ambiguous {
		f.class = txn.Unavailable // only the check left, not the caller's request
	}
	e.recordHealth(ctx, f)
}

// probeInBackground tries an ailing endpoint whose time has come, without keeping anybody waiting; one such try at a time, bounded by the timeout of a connection.
func (e *endpoint) probeInBackground(ctx context.Context) {
	e.mu.Lock()
	due := !e.retryAt.After(e.o.Clock.Now())
	e.mu.Unlock()
	if !due {
		return
	}
	select {
	case e.connecting <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-e.connecting }()
		if _, f := e.connect(ctx); f != nil {
			e.verifyFailed(ctx, f)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.markHealthy()
	}()
}

// markHealthy takes an endpoint for well again, under its lock.
func (e *endpoint) markHealthy() {
	if e.unhealthy {
		e.o.Logger.Info("RPC endpoint is back", "chain", e.o.Name, "endpoint", e.label)
	}
	e.unhealthy, e.mustVerify, e.retryAt, e.last = false, false, time.Time{}, nil
}

func (e *endpoint) isUnhealthy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unhealthy
}

// state is the verified connection, or the reason to stay away, or neither.
func (e *endpoint) state() (*rpc.Client, *fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wait := e.retryAt.Sub(e.o.Clock.Now()); wait > 0 && e.last != nil {
		f := *e.last
		f.retryAfter, f.answered = wait, false
		if f.class == txn.Ambiguous {
			f.class = txn.Unavailable
		}
		return nil, &f
	}
	if e.client != nil && e.verifiedDials == e.dials.Load() && !e.mustVerify && !e.isBroken() {
		return e.client, nil
	}
	return nil, nil
}

// allVerified tells whether every connection opened so far has been checked.
func (e *endpoint) allVerified() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.verifiedDials == e.dials.Load()
}

// connect opens a client if there is none that lives, and checks it.
func (e *endpoint) connect(ctx context.Context) (*rpc.Client, *fault) {
	client := e.liveClient()
	if client == nil {
		var err error
		if client, err = e.open(ctx); err != nil {
			return nil, e.faultOf(err, nil)
		}
		e.mu.Lock()
		e.client = client
		e.mu.Unlock()
	}
	if f := e.verify(ctx, client); f != nil {
		return nil, f
	}
	return client, nil
}

// liveClient is the client, unless it is known to be dead: then it is let go, as no call on it can succeed.
func (e *endpoint) liveClient() *rpc.Client {
	e.mu.Lock()
	end := func() {}
	if e.isBroken() {
		end = e.detach()
	}
	client := e.client
	e.mu.Unlock()
	end()
	return client
}

// connectTimeout leaves a caller with one timeout's patience time for another endpoint.
func (e *endpoint) connectTimeout() time.Duration { return e.o.Timeout / 2 }

func (e *endpoint) open(ctx context.Context) (*rpc.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, e.connectTimeout())
	defer cancel()
	if !e.ws {
		client, idle, err := openHTTP(ctx, e.url, e.o.MaxInFlight, e.o.maxAnswer,
			func() { e.dials.Add(1) })
		e.mu.Lock()
		e.idle = idle
		e.mu.Unlock()
		return client, err
	}
	client, wsConn, err := dialWS(ctx, e.url, e.o.Timeout, e.o.maxAnswer)
	if err != nil {
		return nil, err
	}
	e.dials.Add(1)
	e.mu.Lock()
	e.wsConn = wsConn
	e.mu.Unlock()
	return client, nil
}

// detach takes the connection away, under the endpoint's lock. What it returns ends it, and is to be called without.
func (e *endpoint) detach() (end func()) {
	client, wsConn := e.client, e.wsConn
	e.client, e.wsConn = nil, nil
	return func() {
		if wsConn != nil {
			wsConn.shutDown()
		}
		if client != nil {
			client.Close()
		}
	}
}

// verify asks for chain id, genesis block and head in one batch.
func (e *endpoint) verify(ctx context.Context, client *rpc.Client) *fault {
	var (
		id      hexutil.Big
		genesis *header
		head    hexutil.Uint64
	)
	f := e.do(
		ctx,
		client,
		e.connectTimeout(),
		new(callInfo),
		func(ctx context.Context, client *rpc.Client) error {
			return batch(ctx, client, []rpc.BatchElem{
				{Method: "eth_chainId", Result: &id},
				{Method: "eth_getBlockByNumber", Args: []any{"0x0", false}, Result: &genesis},
				{Method: "eth_blockNumber", Result: &head},
			})
		},
	)
	if f != nil {
		return f
	}
	if got := id.ToInt(); !got.IsUint64() || txn.ChainID(got.Uint64()) != e.o.ChainID {
		return &fault{class: txn.WrongChain, cause: ErrWrongChain, detail: fmt.Sprintf(
			"the configuration says chain_id %d, the node answers %s: point the chain's rpc at the right network, or correct its chain_id",
			e.o.ChainID,
			got,
		)}
	}
	if genesis == nil || genesis.Hash == (txn.Hash{}) {
		return &fault{
			class:  txn.Unavailable,
			detail: "the node does not serve block 0, so it cannot be told which chain it follows",
		}
	}
	if want := e.pin.hold(genesis.Hash); want != genesis.Hash {
		return &fault{class: txn.WrongChain, cause: ErrWrongGenesis, detail: fmt.Sprintf(
			"block 0 is %s, expected %s: the chain was reset or this is another network with the same chain_id",
			genesis.Hash,
			want,
		)}
	}
	e.recordHead(uint64(head))
	e.mu.Lock()
	e.verifiedDials, e.mustVerify = e.dials.Load(), false
	e.mu.Unlock()
	return nil
}

// batch sends one JSON-RPC batch whose every element must succeed.
func batch(ctx context.Context, client *rpc.Client, elems []rpc.BatchElem) error {
	if err := client.BatchCallContext(ctx, elems); err != nil {
		return err
	}
	for i := range elems {
		if elems[i].Error != nil {
			return elems[i].Error
		}
	}
	return nil
}

// recordHealth decides by the class of a fault how long the endpoint is left alone. A refusal of our bytes, a nonce, a revert: the node is well.
func (e *endpoint) recordHealth(ctx context.Context, f *fault) {
	if f != nil && (f.ours || errors.Is(ctx.Err(), context.Canceled)) {
		return // our own limit, or the caller went away: that says nothing about the endpoint
	}
	if end := e.updateHealth(f); end != nil {
		end()
	}
}

// updateHealth returns what ends the connection, if it is given up.
func (e *endpoint) updateHealth(f *fault) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case f == nil || f.answered && f.class != txn.RateLimited && !refusesService(f):
		e.failures = 0
		e.markHealthy()
		return nil
	case f.answered && refusesService(f):
		return nil // of one method, block or account, as far as it goes: no sign of ill health, and none of good
	}
	wait := backoff(e.failures, f)
	e.failures++
	e.retryAt, e.last = e.o.Clock.Now().Add(wait), f
	if !e.unhealthy {
		e.o.Logger.Warn("RPC endpoint is not usable", "chain", e.o.Name, "endpoint", e.label,
			"class", string(f.class), "reason", f.detail, "retry_in", wait)
	}
	e.unhealthy, e.mustVerify = true, e.mustVerify || f.class != txn.RateLimited
	if f.answered || f.status != 0 {
		return nil
	}
	// One late answer is no reason to cut off the other calls of a WebSocket; several are.
	if !e.ws || f.late && e.failures < wsMaxLate {
		return nil
	}
	return e.detach()
}

func backoff(failures int, f *fault) time.Duration {
	wait := min(firstBackoff<<min(failures, 16), lastBackoff)
	if f.cause != nil || f.class == txn.Unauthorized {
		wait = longBackoff
	}
	return max(wait, f.retryAfter)
}

// recordHead keeps how far the endpoint's view reaches.
func (e *endpoint) recordHead(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.head, e.highest, e.headAt = number, max(e.highest, number), e.o.Clock.Now()
}

// resetHighest forgets heights that the endpoint itself no longer claims.
func (e *endpoint) resetHighest(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.highest = number
}

// view is the newest head and the highest head that the endpoint told, and whether the newest is fresh.
func (e *endpoint) view() (head, highest uint64, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.head, e.highest, !e.headAt.IsZero() && e.o.Clock.Now().Sub(e.headAt) < probeAge
}

// drop gives up a connection that broke, unless another took its place already.
func (e *endpoint) drop(client *rpc.Client) {
	e.mu.Lock()
	end := client.Close
	if e.client == client {
		end, e.verifiedDials = e.detach(), neverVerified
	}
	e.mu.Unlock()
	end()
}

// close ends the connection and lets idle ones go.
func (e *endpoint) close() {
	e.mu.Lock()
	end, idle := e.detach(), e.idle
	e.verifiedDials = neverVerified
	e.mu.Unlock()
	end()
	if idle != nil {
		idle()
	}
}
