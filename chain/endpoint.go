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

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// ErrWrongChain means that an endpoint serves another chain than the configured one.
var ErrWrongChain = errors.New("wrong chain")

// ErrWrongGenesis means that an endpoint serves a chain with the right id and another genesis
// block: the chain was reset, or it is another network.
var ErrWrongGenesis = errors.New("wrong genesis block")

const (
	firstBackoff = 250 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// outageBackoff is the longest delay while an endpoint gives no response. A probe is one small
	// call, and a longer delay would only postpone the first call after the endpoint's return.
	outageBackoff = time.Second
	// warnInterval is how often single lost calls are logged.
	warnInterval = time.Minute
	// longBackoff applies to faults that an operator must fix: a wrong chain, a rejected key.
	longBackoff = 30 * time.Second
	// wsMaxLate is the number of consecutive calls without a response after which a WebSocket
	// counts as dead.
	wsMaxLate = 3
	// probeAge is the maximum age of an endpoint's head that a failover trusts.
	probeAge = 2 * time.Second
)

// neverVerified is not a number of connections.
const neverVerified = math.MaxUint64

// endpoint is one RPC address: its connection, verification, health and view of the chain.
//
// A connection is used only after its chain id and genesis block were verified. Over HTTP a request
// can open a connection on its own; its response counts only after another verification.
type endpoint struct {
	label string // "endpoint 1": addresses are secrets
	url   string
	ws    bool
	o     *Options
	pin   *genesisPin

	secrets redactor // the secret parts of url

	slots           chan struct{} // limits concurrent calls
	connecting      chan struct{} // held while connecting
	dials           atomic.Uint64 // connections opened so far
	unproven        atomic.Bool   // it does not serve block 0
	blockGas        atomic.Uint64 // gas limit of a recent block; 0 if unknown
	pendingFailures atomic.Int64  // consecutive refusals of the tag pending
	byHashOnly      atomic.Bool   // it does not serve all receipts of a block at once
	sends           sendBackoff
	outbox          outbox

	mu     sync.Mutex
	client *jsonrpc.Client // nil: not connected
	// dials at the last successful verification; neverVerified before the first
	verifiedDials uint64
	// consecutive; a successful probe does not reset it, because an endpoint may pass a probe and
	// fail calls
	failures int
	// number of counted failures; a call that started before the last one says nothing new
	outage    uint64
	batches   batchSize
	unhealthy bool // the last call failed, and none has succeeded since
	warned    bool // the log has it
	warnedAt  time.Time
	// must be verified before the next use: another chain may answer after a failure
	mustVerify bool
	retryAt    time.Time
	last       *fault
	head       uint64 // newest reported block number
	highest    uint64 // highest block number ever reported
	headAt     time.Time
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
			i+1),
		url:     address,
		ws:      isWebSocket(strings.ToLower(scheme)),
		o:       o,
		pin:     pin,
		secrets: redactorFor(address),
		slots: make(chan struct{},
			o.MaxInFlight), connecting: make(chan struct{}, 1), verifiedDials: neverVerified,
	}
}

// call runs fn against the verified endpoint within the timeout, and records the endpoint's health.
// An error of fn becomes a fault.
func (e *endpoint) call(ctx context.Context,
	fn func(context.Context, *jsonrpc.Client) error) *fault {
	client, outage, f := e.readyIn(ctx)
	if f != nil {
		return f
	}
	var n callInfo
	f = e.do(ctx, client, e.o.Timeout, &n, fn)
	if f == nil || f.answered || !e.replaced(client) {
		e.recordHealth(ctx, cmp.Or(f, n.limited), outage)
	}
	if f != nil || e.allVerified() {
		return f
	}
	if _, unverified := e.ready(ctx); unverified != nil {
		// The response came over a connection that was not verified. A send may have reached any
		// chain.
		return &fault{class: txn.Ambiguous, detail: unverified.detail, cause: unverified.cause}
	}
	return nil
}

// do runs one call in one slot.
func (e *endpoint) do(ctx context.Context, client *jsonrpc.Client, timeout time.Duration,
	n *callInfo,
	fn func(context.Context, *jsonrpc.Client) error) *fault {
	if ctx.Err() != nil { // a connection with room may ignore it
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
			detail: fmt.Sprintf("limit of %d concurrent calls reached", cap(e.slots)),
			ours:   true,
		}
	}
	if isClosed(client) {
		return e.faultOf(jsonrpc.ErrClosed, nil) // no byte was sent
	}
	n.mayHaveLeft.Store(e.ws) // a WebSocket is already open
	if err := fn(withCallInfo(ctx, n), client); err != nil {
		return e.faultOf(err, n)
	}
	return nil
}

// isClosed reports whether the client is a WebSocket that has ended.
func isClosed(client *jsonrpc.Client) bool {
	select {
	case <-client.Done():
		return true
	default:
		return false
	}
}

// replaced reports whether another connection took the client's place. A failure of the old one
// then says nothing about the new one.
func (e *endpoint) replaced(client *jsonrpc.Client) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.client != nil && e.client != client
}

// isBroken reports whether the WebSocket broke, which may happen between calls. The caller holds
// e.mu.
func (e *endpoint) isBroken() bool { return e.client != nil && isClosed(e.client) }

// ready connects and verifies the endpoint if necessary. It fails while the endpoint is backing
// off. On failure no byte of the caller's request was sent.
func (e *endpoint) ready(ctx context.Context) (*jsonrpc.Client, *fault) {
	client, _, f := e.readyIn(ctx)
	return client, f
}

// readyIn is ready, and returns the outage that the call belongs to if it fails.
func (e *endpoint) readyIn(ctx context.Context) (*jsonrpc.Client, uint64, *fault) {
	if client, outage, f := e.state(); client != nil || f != nil {
		return client, outage, f
	}
	select {
	case e.connecting <- struct{}{}:
		defer func() { <-e.connecting }()
	case <-ctx.Done():
		return nil, 0, &fault{class: txn.Unavailable, detail: "connection timed out"}
	}
	if client, outage, f := e.state(); client != nil || f != nil { // another caller connected
		return client, outage, f
	}
	client, f := e.connect(ctx)
	if f != nil {
		e.verifyFailed(ctx, f)
		return nil, 0, f
	}
	return client, e.currentOutage(), nil
}

func (e *endpoint) currentOutage() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outage
}

// verifyFailed records the health of an endpoint that failed verification.
func (e *endpoint) verifyFailed(ctx context.Context, f *fault) {
	f.answered = false // it cannot be used, even though it responded
	if f.class == txn.Ambiguous {
		f.class = txn.Unavailable // only the verification was sent, not the caller's request
	}
	f.probe = true
	e.recordHealth(ctx, f, e.currentOutage())
}

// probeInBackground verifies an unhealthy endpoint whose backoff has passed. One probe runs at a
// time, within the connect timeout.
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

// markHealthy resets the health state. The caller holds e.mu.
func (e *endpoint) markHealthy() {
	if e.warned {
		e.o.Logger.Info("RPC endpoint healthy", "chain", e.o.Name, "endpoint", e.label)
	}
	e.unhealthy, e.warned = false, false
	e.mustVerify = false
	e.retryAt = time.Time{}
	e.last = nil
}

func (e *endpoint) isUnhealthy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unhealthy
}

// state returns the verified connection, or the fault of a current backoff, or neither.
func (e *endpoint) state() (*jsonrpc.Client, uint64, *fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wait := e.retryAt.Sub(e.o.Clock.Now()); wait > 0 && e.last != nil {
		f := *e.last
		f.retryAfter = wait
		f.answered, f.status = false, 0 // of this call nothing was sent
		if f.class == txn.Ambiguous {
			f.class = txn.Unavailable
		}
		return nil, 0, &f
	}
	if e.client != nil && e.verifiedDials == e.dials.Load() && !e.mustVerify && !e.isBroken() {
		return e.client, e.outage, nil
	}
	return nil, 0, nil
}

// allVerified reports whether every connection opened so far was verified.
func (e *endpoint) allVerified() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.verifiedDials == e.dials.Load()
}

// connect opens a client unless a live one exists, and verifies it.
func (e *endpoint) connect(ctx context.Context) (*jsonrpc.Client, *fault) {
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

// liveClient returns the client. It drops a client whose connection is known to be broken.
func (e *endpoint) liveClient() *jsonrpc.Client {
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

// connectTimeout leaves a caller time for another endpoint.
func (e *endpoint) connectTimeout() time.Duration { return e.o.Timeout / 2 }

func (e *endpoint) open(ctx context.Context) (*jsonrpc.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, e.connectTimeout())
	defer cancel()
	o := jsonrpc.Options{Limit: e.limit, MaxWire: e.o.maxAnswer, Skip: skippedFields,
		MaxBatch: e.maxBatch, BatchRefused: e.batchRefused}
	if !e.ws {
		return openHTTP(e.url, e.o.MaxInFlight, o, func() { e.dials.Add(1) }), nil
	}
	client, err := jsonrpc.DialWS(ctx, e.url, e.o.Timeout, o)
	if err == nil {
		e.dials.Add(1)
	}
	return client, err
}

// detach removes the connection. The caller holds e.mu, and calls end after releasing it.
func (e *endpoint) detach() (end func()) {
	client := e.client
	e.client = nil
	return func() {
		if client != nil {
			client.Close()
		}
	}
}

// verify reads chain id, genesis block and head in one batch.
func (e *endpoint) verify(ctx context.Context, client *jsonrpc.Client) *fault {
	var (
		id      bigQuantity
		genesis *header
		head    quantity
	)
	f := e.do(
		ctx,
		client,
		e.connectTimeout(),
		new(callInfo),
		func(ctx context.Context, client *jsonrpc.Client) error {
			calls := []jsonrpc.Call{
				{Method: "eth_chainId", Result: &id},
				genesisCall(&genesis),
				{Method: "eth_blockNumber", Result: &head},
			}
			err := batch(ctx, client, calls)
			if err != nil && err == calls[1].Error && calls[2].Error == nil && e.lacksBlock(err) {
				genesis = nil
				return nil
			}
			return err
		},
	)
	if f != nil {
		return f
	}
	if got := id.ToInt(); !got.IsUint64() || txn.ChainID(got.Uint64()) != e.o.ChainID {
		return &fault{class: txn.WrongChain, cause: ErrWrongChain, detail: fmt.Sprintf(
			"chain_id is %d in the configuration and %s at the node; correct the chain's rpc "+
				"or chain_id",
			e.o.ChainID,
			got,
		)}
	}
	if genesis == nil || genesis.Hash == (txn.Hash{}) {
		if e.pin.get() == (txn.Hash{}) {
			return &fault{
				class: txn.Unavailable,
				detail: "the node does not serve block 0, which identifies its chain; set " +
					"genesis " +
					"in the configuration of the chain",
			}
		}
		if !e.unproven.Swap(true) {
			e.o.Logger.Warn("RPC endpoint does not serve block 0; verified by its chain id only",
				"chain", e.o.Name, "endpoint", e.label)
		}
	} else if f := e.checkGenesis(genesis); f != nil {
		return f
	}
	e.recordHead(uint64(head))
	e.mu.Lock()
	e.verifiedDials, e.mustVerify = e.dials.Load(), false
	e.mu.Unlock()
	return nil
}

// lacksBlock reports whether an error says that the node does not have or serve a block, such as
// one that it has pruned.
func (e *endpoint) lacksBlock(err error) bool {
	f := e.faultOf(err, nil)
	return f.answered && f.class != txn.RateLimited && f.class != txn.Unauthorized
}

// batch sends one JSON-RPC batch. Every element must succeed.
func batch(ctx context.Context, client *jsonrpc.Client, elems []jsonrpc.Call) error {
	if err := client.Batch(ctx, elems); err != nil {
		return err
	}
	for i := range elems {
		if elems[i].Error != nil {
			return elems[i].Error
		}
	}
	return nil
}

// recordHealth sets the backoff of the endpoint by the class of the fault. A rejection of the
// bytes, a nonce error or a revert comes from a healthy node. outage is the one at the start of the
// call: calls that fail together count once.
func (e *endpoint) recordHealth(ctx context.Context, f *fault, outage uint64) {
	if f != nil && (f.ours || errors.Is(ctx.Err(), context.Canceled)) {
		return // a local limit, or the caller left: not a fault of the endpoint
	}
	if end := e.updateHealth(f, outage); end != nil {
		end()
	}
}

// updateHealth returns a function that ends the connection, or nil to keep it.
func (e *endpoint) updateHealth(f *fault, outage uint64) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case outage != e.outage:
		return nil
	case f == nil || f.answered && f.class != txn.RateLimited && !refusesService(f):
		e.failures = 0
		e.markHealthy()
		return nil
	case f.answered && refusesService(f):
		return nil // about one method, block or account: neither healthy nor unhealthy
	}
	var wait time.Duration
	if !f.partial {
		wait = probeDelay(e.failures, f)
		e.failures++
		e.outage++
	}
	now := e.o.Clock.Now()
	e.retryAt, e.last = now.Add(wait), f
	if !e.warned && (wait > 0 || now.Sub(e.warnedAt) >= warnInterval) {
		e.warned, e.warnedAt = true, now
		e.o.Logger.Warn("RPC endpoint unhealthy", "chain", e.o.Name, "endpoint", e.label,
			"class", string(f.class), "reason", f.detail, "retry_in", wait)
	}
	e.unhealthy = true
	e.mustVerify = e.mustVerify || f.class != txn.RateLimited && !f.partial
	if f.answered || f.status != 0 || f.malformed {
		return nil
	}
	// One late response is no reason to drop the other calls of a WebSocket; several are.
	if !e.ws || f.late && e.failures < wsMaxLate {
		return nil
	}
	return e.detach()
}

// probeDelay returns how long no call is made after a failure. After the first call without a
// response the endpoint is verified at once: most often only that call was lost.
func probeDelay(failures int, f *fault) time.Duration {
	switch {
	case f.cause != nil || f.class == txn.Unauthorized || f.class == txn.RateLimited:
		return backoff(failures, f)
	case failures == 0 && !f.probe:
		return f.retryAfter
	}
	return min(backoff(max(0, failures-1), f), max(outageBackoff, f.retryAfter))
}

func backoff(failures int, f *fault) time.Duration {
	wait := min(firstBackoff<<min(failures, 16), lastBackoff)
	if f.cause != nil || f.class == txn.Unauthorized {
		wait = longBackoff
	}
	return max(wait, f.retryAfter)
}

// recordHead records the head of the endpoint.
func (e *endpoint) recordHead(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.head = number
	e.highest = max(e.highest, number)
	e.headAt = e.o.Clock.Now()
}

// resetHighest forgets heights that the endpoint no longer reports.
func (e *endpoint) resetHighest(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.highest = number
}

// view returns the newest and the highest reported head, and whether the newest is recent.
func (e *endpoint) view() (head, highest uint64, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.head, e.highest, !e.headAt.IsZero() && e.o.Clock.Now().Sub(e.headAt) < probeAge
}

// drop closes a broken connection, unless another has replaced it.
func (e *endpoint) drop(client *jsonrpc.Client) {
	e.mu.Lock()
	end := client.Close
	if e.client == client {
		end, e.verifiedDials = e.detach(), neverVerified
	}
	e.mu.Unlock()
	end()
}

// close ends the connection and closes idle ones.
func (e *endpoint) close() {
	e.mu.Lock()
	end := e.detach()
	e.verifiedDials = neverVerified
	e.mu.Unlock()
	end()
}
