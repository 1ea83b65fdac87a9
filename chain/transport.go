package chain

import (
	"bytes"
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

const (
	// maxAnswer limits a response, in bytes. Batches of receipts with many logs are smaller, and a
	// broken endpoint cannot exhaust memory.
	maxAnswer = 64 << 20
	// tlsTimeout limits a TLS handshake, apart from the call that waits for it.
	tlsTimeout = 10 * time.Second
	// idleTimeout is how long an idle connection is kept.
	idleTimeout = 90 * time.Second
)

// errConnClosed ends a WebSocket connection permanently: another connection would not be verified.
var errConnClosed = errors.New("connection lost")

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
func openHTTP(ctx context.Context, url string, maxConns int, maxAnswer int64,
	dialed func()) (client *rpc.Client, idle func(), err error) {
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
	}
	caller := &http.Client{
		Transport: headerRecorder{
			transport,
			maxAnswer,
			&sync.Pool{New: func() any { return new(bytes.Buffer) }},
		},
		// A redirect would send signed bytes to an address that is not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	client, err = rpc.DialOptions(ctx, url, rpc.WithHTTPClient(caller))
	return client, transport.CloseIdleConnections, err
}

// headerRecorder limits and normalizes responses, and records the Retry-After header.
type headerRecorder struct {
	*http.Transport
	maxAnswer int64
	spare     *sync.Pool // see responseNormalizer
}

func (t headerRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	n, _ := r.Context().Value(callInfoKey{}).(*callInfo)
	if n != nil {
		n.retryAfter.Store(
			int64(outcome.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"))),
		)
	}
	resp.Body = &responseNormalizer{
		ReadCloser: http.MaxBytesReader(nil, resp.Body, t.maxAnswer),
		spare:      t.spare,
	}
	return resp, nil
}

// fault is a failed call. Its text is safe to show.
type fault struct {
	class      txn.Class
	detail     string
	retryAfter time.Duration
	late       bool  // timed out, or the caller left: the connection may be fine
	ours       bool  // a local limit, not a fault of the endpoint
	answered   bool  // the node itself responded: the endpoint works
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

// faultOf converts an error of rpc.Client. n is nil for one element of a batch.
func (e *endpoint) faultOf(err error, n *callInfo) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var refused rpc.Error
	if errors.As(err, &refused) {
		f = refusal(responseOf(refused), e.secrets)
		if f.class == txn.RateLimited {
			f.retryAfter = max(f.retryAfter, n.hint())
		}
		return f
	}
	var status rpc.HTTPError
	if errors.As(err, &status) {
		return httpFault(status, n.hint(), e.secrets)
	}
	f = &fault{
		class:  txn.Unavailable,
		detail: describe(err),
		late:   errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled),
	}
	if n != nil && n.mayHaveLeft.Load() {
		f.class = txn.Ambiguous
	}
	return f
}

// refusal is an error response of the node.
func refusal(a outcome.Response, secrets redactor) *fault {
	var result json.RawMessage
	a.Data, result = splitResult(a.Data)
	a.Message = secrets.hide(a.Message)
	if words, ok := a.Data.(string); ok {
		a.Data = secrets.hide(words)
	}
	o := outcome.Classify(a)
	return &fault{
		class:      o.Class,
		detail:     o.Detail,
		retryAfter: o.RetryAfter,
		answered:   true,
		status:     a.HTTPStatus,
		data:       a.Data,
		said:       o,
		result:     result,
	}
}

func responseOf(err rpc.Error) outcome.Response {
	a := outcome.Response{Code: err.ErrorCode(), Message: err.Error()}
	if withData, ok := err.(rpc.DataError); ok {
		a.Data = withData.ErrorData()
	}
	return a
}

// httpFault looks for a JSON-RPC error in the body first: some gateways return "nonce too low" with
// status 400 or 500.
func httpFault(e rpc.HTTPError, retryAfter time.Duration, secrets redactor) *fault {
	if a, ok := outcome.ReadResponse(e.Body); ok {
		a.HTTPStatus = e.StatusCode
		f := refusal(a, secrets)
		f.retryAfter = max(f.retryAfter, retryAfter)
		f.answered = f.class != txn.Unauthorized && f.class != txn.Unavailable
		return f
	}
	a := outcome.Response{HTTPStatus: e.StatusCode, Message: "HTTP " + e.Status}
	if len(e.Body) > 0 {
		text := secrets.hide(string(e.Body)) // before the cut, which may leave half a secret
		a.Message += ": " + text[:min(len(text), outcome.TextLimit)]
	}
	o := outcome.Classify(a)
	return &fault{
		class:      o.Class,
		detail:     o.Detail,
		retryAfter: max(o.RetryAfter, retryAfter),
		status:     e.StatusCode,
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
		tooLarge  *http.MaxBytesError
		syntax    *json.SyntaxError
		wrongType *json.UnmarshalTypeError
		timeout   net.Error
	)
	switch {
	case errors.Is(err, errMalformed):
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
		return fmt.Sprintf("response larger than %d bytes", tooLarge.Limit)
	case errors.As(err, &syntax), errors.As(err, &wrongType):
		return "response is not valid JSON-RPC"
	case errors.Is(err, rpc.ErrNoResult), errors.Is(err, rpc.ErrMissingBatchResponse):
		return "response without a result"
	case errors.Is(err, errConnClosed),
		errors.Is(err, rpc.ErrClientQuit),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed):
		return "connection closed before the response"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "response timed out"
	}
	if refused := (*handshakeError)(nil); errors.As(err, &refused) {
		return fmt.Sprintf("WebSocket handshake rejected with HTTP %d", refused.status)
	}
	return "transport failed"
}
