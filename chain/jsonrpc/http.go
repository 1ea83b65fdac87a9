package jsonrpc

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"time"
)

const (
	// maxHTTPError is how much of the body of an HTTP error is read, in bytes.
	maxHTTPError = 64 << 10
	// maxDrained is how much may follow a response before its connection is not reused, in bytes.
	maxDrained = 4 << 10
	// drainTime is how long its end may take, likewise.
	drainTime = 100 * time.Millisecond
	// maxUnknown is how many responses to unknown calls a batch may have.
	maxUnknown = 16
)

// NewHTTP returns a client that posts requests to an address. It connects on first use. observe,
// unless nil, is called with every HTTP response.
func NewHTTP(address string, client *http.Client, o Options,
	observe func(ctx context.Context, header http.Header)) *Client {
	return &Client{o: o, t: &httpTransport{address, client, o.Skip, observe}}
}

type httpTransport struct {
	address string
	client  *http.Client
	skip    map[string]bool
	observe func(context.Context, http.Header)
}

func (t *httpTransport) close() { t.client.CloseIdleConnections() }

func (t *httpTransport) roundTrip(ctx context.Context, r *request) ([]response, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, t.address,
		bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json")
	resp, err := t.client.Do(post)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if t.observe != nil {
		t.observe(ctx, resp.Header)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxHTTPError)) // of an error already
		return nil, &HTTPError{resp.StatusCode, resp.Status, body, firstError(body)}
	}
	found, err := r.read(resp.Body, t.skip)
	if err == nil {
		drain(ctx, resp.Body)
	}
	return found, err
}

// drain reads the end of a body, which lets its connection be reused.
func drain(ctx context.Context, body io.ReadCloser) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	_, _ = io.CopyN(io.Discard, body, maxDrained)
}

// firstError returns the first JSON-RPC error in a body: a batch that is rejected as a whole
// repeats the same one.
func firstError(body []byte) (first *Error) {
	_, err := parse(bytes.NewReader(body), int64(len(body)), maxID*2, nil, math.MaxInt,
		func(m message) {
			if first == nil {
				first = m.err
			}
		})
	if err != nil {
		return nil
	}
	return first
}

// read reads the responses from the body of an HTTP response.
func (r *request) read(body io.Reader, skip map[string]bool) ([]response, error) {
	var found []response
	alone, err := parse(body, r.wire, r.kept, skip, len(r.ids)+maxUnknown,
		func(m message) { found = append(found, m.response) })
	switch {
	case err != nil:
		return nil, err
	case !r.batch && alone:
		return found, nil // of any id
	case !r.batch:
		return nil, ErrMalformed
	}
	return r.ofBatch(found, alone)
}

// ofBatch returns the responses to the calls of a batch. An error without the id of a call rejects
// the batch as a whole.
func (r *request) ofBatch(found []response, alone bool) ([]response, error) {
	ordered := r.match(found)
	for i := range ordered {
		if ordered[i].lost != ErrNoResult {
			return ordered, nil
		}
	}
	for i := range found {
		if found[i].err != nil {
			return nil, found[i].err
		}
	}
	if alone {
		return nil, ErrMalformed
	}
	return ordered, nil
}
