package chain

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

const (
	// tlsTimeout limits a TLS handshake, apart from the call that waits for it.
	tlsTimeout = 10 * time.Second
	// idleTimeout is how long an idle connection is kept.
	idleTimeout = 90 * time.Second
	// maxHeaders limits the headers of a response, in bytes.
	maxHeaders = 256 << 10
)

// callInfo records details of a call beside its response.
type callInfo struct {
	mayHaveLeft atomic.Bool  // false: no byte of the request was sent
	retryAfter  atomic.Int64 // nanoseconds, from the Retry-After header
	// part of a batch hit a request limit: the responses count, and the endpoint backs off
	limited *fault
}

func (n *callInfo) hint() time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(n.retryAfter.Load())
}

type callInfoKey struct{}

// recordLimit records that part of a call hit a request limit.
func recordLimit(ctx context.Context, f *fault) {
	if n, ok := ctx.Value(callInfoKey{}).(*callInfo); ok && f.class == txn.RateLimited {
		n.limited = f
	}
}

// withCallInfo attaches info to a call. Over HTTP no request can be sent before it has a
// connection.
func withCallInfo(ctx context.Context, n *callInfo) context.Context {
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { n.mayHaveLeft.Store(true) }})
	return context.WithValue(ctx, callInfoKey{}, n)
}

// openHTTP creates a client that connects on first use and calls dialed for every new connection.
func openHTTP(url string, maxConns int, o jsonrpc.Options, dialed func()) *jsonrpc.Client {
	dialer := &net.Dialer{KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed()
			return dialer.DialContext(ctx, network, address)
		},
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        maxConns,
		MaxIdleConnsPerHost: maxConns,
		IdleConnTimeout:     idleTimeout,
		TLSHandshakeTimeout: tlsTimeout,

		MaxResponseHeaderBytes: maxHeaders,
	}
	caller := &http.Client{
		Transport: transport,
		// A redirect would send signed bytes to an address that is not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return jsonrpc.NewHTTP(url, caller, o, recordHeader)
}

// recordHeader records the Retry-After header of a call.
func recordHeader(ctx context.Context, header http.Header) {
	if n, ok := ctx.Value(callInfoKey{}).(*callInfo); ok {
		n.retryAfter.Store(
			int64(outcome.RetryAfter(header.Get("Retry-After"), header.Get("Date"))),
		)
	}
}

// fault is a failed call. Its text is safe to show.
type fault struct {
	class      txn.Class
	detail     string
	retryAfter time.Duration
	late       bool  // timed out, or the caller left: the connection may be fine
	malformed  bool  // a response came, so the connection is fine
	partial    bool  // other results of the same call are usable: other endpoints are preferred
	ours       bool  // a local limit, not a fault of the endpoint
	answered   bool  // the node itself responded: the endpoint works
	probe      bool  // of a verification
	status     int   // HTTP status; 0 if none
	cause      error // ErrWrongChain, ErrWrongGenesis, or nil
	data       any   // the error's data: the return data of a revert

	said   txn.Outcome     // the classified response, with its numbers
	result json.RawMessage // the result next to the error
}

func (f *fault) Error() string { return f.detail }

// Unwrap makes every fault txn.ErrUnavailable: nothing can be concluded from a failed read.
func (f *fault) Unwrap() []error {
	if f.cause != nil {
		return []error{txn.ErrUnavailable, f.cause}
	}
	return []error{txn.ErrUnavailable}
}

// outcome is the outcome of a send or an estimate with this fault.
func (f *fault) outcome() txn.Outcome {
	o := f.said
	o.Class = f.class
	o.Detail = f.detail
	o.RetryAfter = f.retryAfter
	return o
}

// faultOf converts an error of a call. n is nil for one element of a batch.
func (e *endpoint) faultOf(err error, n *callInfo) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		f = refusal(refused, 0, e.secrets)
		if f.class == txn.RateLimited {
			f.retryAfter = max(f.retryAfter, n.hint())
		}
		return f
	}
	var status *jsonrpc.HTTPError
	if errors.As(err, &status) {
		return httpFault(status, n.hint(), e.secrets)
	}
	var noID *jsonrpc.NoIDError
	if errors.As(err, &noID) { // another call may be meant: only its wait counts
		said := refusal(noID.Err, 0, e.secrets)
		f = &fault{
			class: txn.Unavailable, detail: noID.Error() + ": " + said.detail,
			retryAfter: said.retryAfter,
		}
		if n != nil && n.mayHaveLeft.Load() {
			f.class = txn.Ambiguous
		}
		return f
	}
	f = &fault{
		class:  txn.Unavailable,
		detail: describe(err),
		late:   errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled),

		malformed: errors.Is(err, errMalformed),
	}
	if n != nil && n.mayHaveLeft.Load() {
		f.class = txn.Ambiguous
	}
	return f
}

// refusal is an error response of the node.
func refusal(err *jsonrpc.Error, status int, secrets redactor) *fault {
	a := responseOf(err)
	a.HTTPStatus = status
	a.Message = secrets.hide(a.Message)
	a.Data = secrets.hideIn(a.Data)
	o := outcome.Classify(a)
	return &fault{
		class:      o.Class,
		detail:     o.Detail,
		retryAfter: o.RetryAfter,
		answered:   true,
		status:     status,
		data:       a.Data,
		said:       o,
		result:     err.Result,
	}
}

func responseOf(err *jsonrpc.Error) outcome.Response {
	return outcome.Response{
		Code:    err.Code,
		Message: err.Error(),
		Data:    outcome.ReadData(err.Data),
	}
}

// httpFault uses the JSON-RPC error in the body, if there is one: some gateways return "nonce too
// low" with status 400 or 500.
func httpFault(e *jsonrpc.HTTPError, retryAfter time.Duration, secrets redactor) *fault {
	if e.Err != nil && e.Err.Message != "" {
		f := refusal(e.Err, e.Code, secrets)
		f.retryAfter = max(f.retryAfter, retryAfter)
		f.answered = f.class != txn.Unauthorized && f.class != txn.Unavailable
		return f
	}
	a := outcome.Response{HTTPStatus: e.Code, Message: "HTTP " + secrets.hide(e.Status)}
	if len(e.Body) > 0 {
		text := secrets.hide(string(e.Body)) // before the cut, which may leave half a secret
		a.Message += ": " + text[:min(len(text), outcome.TextLimit)]
	}
	o := outcome.Classify(a)
	return &fault{
		class:      o.Class,
		detail:     o.Detail,
		retryAfter: max(o.RetryAfter, retryAfter),
		status:     e.Code,
		said:       o,
	}
}

// describe describes a transport failure in fixed words: errors of libraries contain addresses, and
// addresses contain API keys.
func describe(err error) string {
	var (
		dns       *net.DNSError
		cert      *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		record    tls.RecordHeaderError
		tooLarge  *jsonrpc.TooLargeError
		syntax    *json.SyntaxError
		wrongType *json.UnmarshalTypeError
		timeout   net.Error
	)
	switch {
	case errors.Is(err, errMalformed), errors.Is(err, errNoStatus):
		return err.Error() // a fixed text
	case errors.Is(err, context.Canceled):
		return "call cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "response timed out"
	case errors.As(err, &dns):
		return "host name not resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "host unreachable"
	case errors.As(err, &cert), errors.As(err, &authority), errors.As(err, &record):
		return "TLS failed: certificate or protocol rejected"
	case errors.As(err, &tooLarge):
		return tooLarge.Error()
	case errors.Is(err, jsonrpc.ErrMalformed), errors.As(err, &syntax), errors.As(err, &wrongType):
		return jsonrpc.ErrMalformed.Error()
	case errors.Is(err, jsonrpc.ErrNoResult):
		return jsonrpc.ErrNoResult.Error()
	case errors.Is(err, jsonrpc.ErrClosed),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed):
		return "connection closed before the response"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "response timed out"
	}
	if refused := (*jsonrpc.HandshakeError)(nil); errors.As(err, &refused) {
		return fmt.Sprintf("WebSocket handshake rejected with HTTP %d", refused.Code)
	}
	return "transport failed"
}
