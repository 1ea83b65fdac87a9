package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
)

// Limit bounds the response to one call, in bytes.
type Limit struct {
	Wire int64 // of the whole response as it is sent
	Kept int64 // of the result without skipped fields, which is held in memory
}

// Options configure a client.
type Options struct {
	// Limit returns the limit of a call. The wire limits of a batch add up.
	Limit func(method string, args []any) Limit
	// MaxWire bounds the whole response to one request, in bytes.
	MaxWire int64
	// MaxBatch returns the most calls in one request; nil means no limit. With a limit of 1 every
	// call is sent in a request of its own, which is not a batch.
	MaxBatch func() int
	// BatchRefused decides about a request of several calls that the server rejected. If it returns
	// true, MaxBatch has become lower, and the calls are sent again. Nil means never.
	BatchRefused func(calls int, err error) bool
	// Skip holds the names of fields in results that are not kept, at any depth. If the value is
	// false, the number of elements is kept in place of a list, and null in place of anything else.
	Skip map[string]bool
}

// Call is one call of a batch, and its outcome.
type Call struct {
	Method string
	Args   []any
	Result any   // pointer that the result is decoded into
	Error  error // an *Error, or the failure to read this result; nil after success
}

// Client sends calls over one transport. It is safe for concurrent use.
type Client struct {
	t      transport
	o      Options
	lastID atomic.Uint64
}

// transport sends one request and returns the responses to its calls.
type transport interface {
	roundTrip(ctx context.Context, r *request) ([]response, error)
	close()
}

// request is the body of one request and the limits of its response.
type request struct {
	body  []byte
	ids   []string // of the calls, in their order
	batch bool
	wire  int64
	kept  int64
}

// Call makes one call and decodes its result. The error of a node is an *Error.
func (c *Client) Call(ctx context.Context, result any, method string, args ...any) error {
	call := []Call{{Method: method, Args: args, Result: result}}
	if err := c.do(ctx, call, false); err != nil {
		return err
	}
	return call[0].Error
}

// Batch makes the calls, in as few requests as MaxBatch allows. It returns an error if a request
// failed as a whole; otherwise the outcome of each call is in its Error. Calls are repeated if the
// server refused them because of the size of their batch.
func (c *Client) Batch(ctx context.Context, calls []Call) error {
	for len(calls) > 0 {
		part := calls[:min(len(calls), c.maxBatch())]
		if len(part) == 1 {
			if err := c.do(ctx, part, false); err != nil {
				return err
			}
		} else if refused, err := c.request(ctx, part); refused {
			continue
		} else if err != nil {
			return err
		}
		calls = calls[len(part):]
	}
	return nil
}

// Request makes the calls in one request, above MaxBatch too. It returns an error if the request
// failed as a whole; otherwise the outcome of each call is in its Error.
func (c *Client) Request(ctx context.Context, calls []Call) error {
	_, err := c.request(ctx, calls)
	return err
}

// request makes one batch, and reports whether the server refused it because of its size.
func (c *Client) request(ctx context.Context, calls []Call) (refused bool, err error) {
	err = c.do(ctx, calls, true)
	if c.o.BatchRefused == nil {
		return false, err
	}
	if err != nil {
		return c.o.BatchRefused(len(calls), err), err
	}
	// Some servers send the refusal as the error of the first call and leave out the others, some
	// repeat it for each.
	for i := range calls {
		if calls[i].Error == nil {
			return false, nil
		}
	}
	return c.o.BatchRefused(len(calls), calls[0].Error), nil
}

func (c *Client) maxBatch() int {
	if c.o.MaxBatch == nil {
		return math.MaxInt
	}
	return max(1, c.o.MaxBatch())
}

// Close ends the connection.
func (c *Client) Close() { c.t.close() }

func (c *Client) do(ctx context.Context, calls []Call, batch bool) error {
	r, limits, err := c.encode(calls, batch)
	if err != nil {
		return err
	}
	responses, err := c.t.roundTrip(ctx, r)
	if err != nil {
		return err
	}
	for i := range calls {
		calls[i].Error = responses[i].decode(calls[i].Result, limits[i].Kept)
	}
	return nil
}

type callBody struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Args    []any           `json:"params"`
}

// envelope is the room for the parts of a response around its result or error.
const envelope = 4 << 10

func (c *Client) encode(calls []Call, batch bool) (*request, []Limit, error) {
	r := &request{ids: make([]string, len(calls)), batch: batch, wire: envelope}
	bodies, limits := make([]callBody, len(calls)), make([]Limit, len(calls))
	for i, call := range calls {
		r.ids[i] = strconv.FormatUint(c.lastID.Add(1), 10)
		args := call.Args
		if args == nil {
			args = []any{}
		}
		bodies[i] = callBody{"2.0", json.RawMessage(r.ids[i]), call.Method, args}
		limits[i] = c.o.Limit(call.Method, call.Args)
		r.wire += limits[i].Wire + envelope
		r.kept = max(r.kept, limits[i].Kept)
	}
	r.wire = min(r.wire, c.o.MaxWire)
	var whole any = bodies
	if !batch {
		whole = bodies[0]
	}
	var err error
	if r.body, err = json.Marshal(whole); err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", calls[0].Method, err)
	}
	return r, limits, nil
}

// response is the response to one call, not yet decoded.
type response struct {
	id     string
	result json.RawMessage // nil: none
	err    *Error
	lost   error // why there is no response
}

// decode reads the result, unless the call failed.
func (r *response) decode(result any, limit int64) error {
	switch {
	case r.lost != nil:
		return r.lost
	case r.err != nil:
		return r.err
	case r.result == nil:
		return ErrNoResult
	case int64(len(r.result)) > limit:
		return &TooLargeError{limit}
	case result == nil:
		return nil
	}
	return json.Unmarshal(r.result, result)
}

// match orders the responses by the ids of the request. A call without a response gets ErrNoResult.
func (r *request) match(found []response) []response {
	byID := make(map[string]response, len(found))
	for _, a := range found {
		if _, twice := byID[a.id]; !twice {
			byID[a.id] = a
		}
	}
	ordered := make([]response, len(r.ids))
	for i, id := range r.ids {
		a, ok := byID[id]
		if !ok {
			a.lost = ErrNoResult
		}
		ordered[i] = a
	}
	return ordered
}
