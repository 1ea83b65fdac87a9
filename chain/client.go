package chain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// Client connects to one EVM chain through one or more RPC endpoints. It is safe for concurrent
// use.
type Client struct {
	ctx        context.Context // of Dial; ends background probes
	o          Options
	endpoints  []*endpoint // in order of preference
	pin        *genesisPin
	blockCache blockCache
	floors     Floors // minimum fees, learned from rejections
	cache      quoteCache

	mu          sync.Mutex
	current     *endpoint // served the last head; the following reads stay with it
	avoided     *endpoint // tried last; nil: none
	mark        uint64    // highest head that counts
	behindSince time.Time // since when no endpoint reaches the mark; zero if one does
}

// Dial creates a client without connecting. An endpoint is connected and verified on first use, and
// again whenever its connection broke, so a client created while the chain is down recovers
// automatically. Connections end with ctx or Close.
func Dial(ctx context.Context, o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("chain %q: %w", o.Name, err)
	}
	c := &Client{ctx: ctx, o: o, pin: &genesisPin{hash: o.Genesis}, cache: newQuoteCache()}
	for i := range o.Endpoints {
		c.endpoints = append(c.endpoints, newEndpoint(i, &c.o, c.pin))
	}
	context.AfterFunc(ctx, c.Close)
	return c, nil
}

// Close ends every connection. A later call reconnects.
func (c *Client) Close() {
	for _, e := range c.endpoints {
		e.close()
	}
}

// ID returns the configured chain id. Every endpoint must report it before use.
func (c *Client) ID() txn.ChainID { return c.o.ChainID }

// Genesis returns the hash of block 0 that every endpoint must report: the configured one, or that
// of the first verified endpoint. It is zero until then.
func (c *Client) Genesis() txn.Hash { return c.pin.get() }

// Verify connects every endpoint. It returns ErrWrongChain or ErrWrongGenesis if any endpoint
// serves another chain; startup must not continue then. It returns txn.ErrUnavailable if no
// endpoint is reachable; startup may continue and wait.
func (c *Client) Verify(ctx context.Context) error {
	faults := make([]*fault, len(c.endpoints))
	var asked sync.WaitGroup
	for i, e := range c.endpoints {
		asked.Go(func() { _, faults[i] = e.ready(ctx) })
	}
	asked.Wait()
	var r refusals
	for i, f := range faults {
		if f == nil {
			continue
		}
		r.add(c.endpoints[i], f)
		if f.cause != nil {
			return fmt.Errorf("chain %q: %s: %w", c.o.Name, c.endpoints[i].label, f)
		}
	}
	if len(r) < len(c.endpoints) {
		return nil
	}
	return c.unavailable("verify", r)
}

// refusals are the endpoints that failed, with their faults.
type refusals []said

type said struct {
	from *endpoint
	f    *fault
}

func (r *refusals) add(e *endpoint, f *fault) { *r = append(*r, said{e, f}) }

// unavailable joins the faults of all endpoints into one error, which is txn.ErrUnavailable and
// also every joined error.
func (c *Client) unavailable(what string, r refusals) error {
	texts := make([]string, len(r))
	errs := make([]error, len(r))
	for i := range r {
		texts[i], errs[i] = r[i].from.label+": "+r[i].f.detail, r[i].f
	}
	return &unavailableError{
		text: fmt.Sprintf("chain %q: %s: %s", c.o.Name, what, strings.Join(texts, "; ")),
		errs: append(errs, txn.ErrUnavailable),
	}
}

type unavailableError struct {
	text string
	errs []error
}

func (e *unavailableError) Error() string   { return e.text }
func (e *unavailableError) Unwrap() []error { return e.errs }

// read tries the endpoints in turn until one succeeds. The endpoint of the last head comes first;
// any other must have seen as much of the chain.
func (c *Client) read(ctx context.Context, what string, fn readFunc) error {
	e, err := c.readFrom(ctx, what, c.order(), fn)
	if err == nil {
		c.setCurrent(e)
	}
	return err
}

// readElsewhere reads from the endpoints after the one of that label, which comes last among the
// healthy ones: reads that each avoid the source of the last one reach all of them. Other reads
// stay with the current endpoint.
func (c *Client) readElsewhere(ctx context.Context, what, label string, fn readFunc) error {
	next := 1 + slices.IndexFunc(c.endpoints, func(e *endpoint) bool { return e.label == label })
	order := slices.Concat(c.endpoints[next:], c.endpoints[:next])
	_, err := c.readFrom(ctx, what, c.healthyFirst(order), fn)
	return err
}

type readFunc func(context.Context, *endpoint, *jsonrpc.Client) error

// readFrom tries these endpoints in turn, and returns the one that succeeded.
func (c *Client) readFrom(ctx context.Context, what string, order []*endpoint,
	fn readFunc) (*endpoint, error) {
	var r refusals
	round := c.newRound()
	for _, e := range order {
		f := c.checkUpToDate(ctx, e)
		if f == nil {
			f = e.call(ctx,
				func(ctx context.Context, client *jsonrpc.Client) error {
					return fn(ctx, e,
						client)
				})
		}
		if f == nil {
			return e, nil
		}
		r.add(e, f)
		if ctx.Err() != nil || round.over() {
			break
		}
	}
	return nil, c.unavailable(what, r)
}

// round limits one call to all endpoints: after roundTimeouts timeouts no further endpoint is
// tried, because the owner of a transaction waits.
type round struct {
	c     *Client
	until time.Time
}

const roundTimeouts = 2

func (c *Client) newRound() round {
	return round{c, c.o.Clock.Now().Add(roundTimeouts * c.o.Timeout)}
}

func (r round) over() bool { return !r.c.o.Clock.Now().Before(r.until) }

// order returns the current endpoint, then the others by preference.
func (c *Client) order() []*endpoint {
	c.mu.Lock()
	current, avoided := c.current, c.avoided
	c.mu.Unlock()
	if avoided == nil && (current == nil || current == c.endpoints[0]) {
		return c.healthyFirst(c.endpoints)
	}
	var first, order, last []*endpoint
	for _, e := range c.endpoints {
		switch e {
		case avoided:
			last = append(last, e)
		case current:
			first = append(first, e)
		default:
			order = append(order, e)
		}
	}
	return c.healthyFirst(slices.Concat(first, order, last))
}

// AvoidCurrent makes another endpoint serve the following reads, if one has seen as much of the
// chain as the current one: a second reading of the same endpoint may repeat its mistake.
func (c *Client) AvoidCurrent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.avoided = c.current
}

// healthyFirst moves unhealthy endpoints to the end, so that no call waits for one while another
// serves. They are probed in the background.
func (c *Client) healthyFirst(endpoints []*endpoint) []*endpoint {
	var well, unhealthy []*endpoint
	for _, e := range endpoints {
		if e.isUnhealthy() {
			unhealthy = append(unhealthy, e)
		} else {
			well = append(well, e)
		}
	}
	if len(well) > 0 {
		for _, e := range unhealthy {
			e.probeInBackground(c.ctx)
		}
	}
	return append(well, unhealthy...)
}

func (c *Client) setCurrent(e *endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = e
}

// checkUpToDate keeps a lagging endpoint from answering in place of the current one: its missing
// receipt or old nonce would look like a reorg.
func (c *Client) checkUpToDate(ctx context.Context, e *endpoint) *fault {
	c.mu.Lock()
	current, mark := c.current, c.mark
	c.mu.Unlock()
	if e == current || mark == 0 {
		return nil
	}
	if _, f := e.ready(ctx); f != nil { // connecting also reads the head
		return f
	}
	if head, _, fresh := e.view(); !fresh || head < mark { // the mark may have moved since
		if f := e.call(ctx, e.probe); f != nil {
			return f
		}
	}
	if head, _, _ := e.view(); head < mark {
		return behind(head, mark)
	}
	return nil
}

func behind(head, mark uint64) *fault {
	return &fault{
		class:    txn.Unavailable,
		answered: true,
		detail: fmt.Sprintf("head %d is behind block %d", head,
			mark),
	}
}

// Head returns the newest block of the most preferred endpoint that has seen as much of the chain
// as any other.
//
// An endpoint that had reached the highest block and now reports a lower one has reorganized; its
// head counts at once. An endpoint that never reached it lags, and is left out until LagGrace has
// passed.
func (c *Client) Head(ctx context.Context) (txn.Block, error) {
	var (
		r      refusals
		newest *txn.Block
		source *endpoint
	)
	round := c.newRound()
	for _, e := range c.healthyFirst(c.endpoints) {
		block, f := e.headBlock(ctx)
		switch {
		case f != nil:
			r.add(e, f)
		case c.acceptHead(e, block.Number):
			c.blockCache.add(*block)
			return *block, nil
		default:
			r.add(e, behind(block.Number, c.highest()))
			if newest == nil || block.Number > newest.Number {
				newest, source = block, e
			}
		}
		if ctx.Err() != nil || round.over() {
			break
		}
	}
	if newest != nil && c.lagGraceExpired() {
		c.lowerMark(source, newest.Number)
		return *newest, nil
	}
	return txn.Block{}, c.unavailable("read head", r)
}

// acceptHead reports whether the endpoint's head counts, and makes it the current endpoint if so.
func (c *Client) acceptHead(e *endpoint, number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, highest, _ := e.view()
	if number < c.mark && highest < c.mark {
		return false
	}
	c.mark = number
	c.current = e
	c.behindSince = time.Time{}
	e.resetHighest(number)
	return true
}

func (c *Client) highest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mark
}

func (c *Client) lagGraceExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Clock.Now()
	if c.behindSince.IsZero() {
		c.behindSince = now
	}
	return now.Sub(c.behindSince) >= c.o.LagGrace
}

func (c *Client) lowerMark(e *endpoint, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Logger.Warn(
		"no RPC endpoint reaches the highest known block, lower head accepted",
		"chain", c.o.Name, "endpoint", e.label, "seen", c.mark, "head", number)
	c.mark = number
	c.current = e
	c.behindSince = time.Time{}
}
