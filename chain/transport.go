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
	// maxAnswer bounds an answer in bytes: a batch of receipts with many logs stays below it, a broken endpoint does not fill our memory.
	maxAnswer = 64 << 20
	// tlsTimeout bounds a TLS handshake apart from the call that waits for it.
	tlsTimeout = 10 * time.Second
	// idleTimeout is how long a connection without calls is kept.
	idleTimeout = 90 * time.Second
)

// errConnClosed ends a WebSocket connection for good: whoever answered on another one would not have been verified.
var errConnClosed = errors.New("connection lost")

// callInfo are what a call learns beside its answer.
type callInfo struct {
	mayHaveLeft atomic.Bool  // false: surely not a byte of the request reached the other side
	retryAfter  atomic.Int64 // nanoseconds, from the Retry-After header
	limited     *fault       // a part of a batch was refused for a request limit: the answer counts, and the endpoint gets its rest
}

func (n *callInfo) hint() time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(n.retryAfter.Load())
}

type callInfoKey struct{}

// recordLimit notes a request limit that hit a part of a call.
func recordLimit(ctx context.Context, f *fault) {
	if n, ok := ctx.Value(callInfoKey{}).(*callInfo); ok && f.class == txn.RateLimited {
		n.limited = f
	}
}

// withCallInfo gives a call its notes. Over HTTP the request cannot have left before a connection was at hand.
func withCallInfo(ctx context.Context, n *callInfo) context.Context {
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { n.mayHaveLeft.Store(true) }})
	return context.WithValue(ctx, callInfoKey{}, n)
}

// openHTTP makes a client that connects when it is first used and tells of every connection that it opens.
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
		// A redirect would hand signed bytes to an address that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	client, err = rpc.DialOptions(ctx, url, rpc.WithHTTPClient(caller))
	return client, transport.CloseIdleConnections, err
}

// headerRecorder bounds answers, mends them, and keeps the one header that matters.
type headerRecorder struct {
	*http.Transport
	maxAnswer int64
	spare     *sync.Pool // see mender
}

func (t headerRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	n, _ := r.Context().Value(callInfoKey{}).(*callInfo)
	if n != nil {
		n.retryAfter.Store(int64(outcome.RetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date"))))
	}
	resp.Body = &responseNormalizer{
		ReadCloser: http.MaxBytesReader(nil, resp.Body, t.maxAnswer),
		spare:      t.spare,
	}
	return resp, nil
}

// fault is a call without the answer that was asked for. Its text is safe to show.
type fault struct {
	class      txn.Class
	detail     string
	retryAfter time.Duration
	late       bool  // no answer in time, or the caller went away: the connection may be well
	ours       bool  // a limit of our own: nothing about the endpoint
	answered   bool  // the node itself refused: the endpoint is well
	status     int   // HTTP status, 0 if none came
	cause      error // ErrWrongChain, ErrWrongGenesis, or nil
	data       any   // what the node gave along with its words: the return data of a revert

	said   txn.Outcome     // the reading of the node's words, for the numbers in them
	result json.RawMessage // what it answered beside them
}

func (f *fault) Error() string { return f.detail }

// Unwrap makes every fault txn.ErrUnavailable: for a read nothing follows from one.
func (f *fault) Unwrap() []error {
	if f.cause != nil {
		return []error{txn.ErrUnavailable, f.cause}
	}
	return []error{txn.ErrUnavailable}
}

// outcome is what a send or an estimate says of a fault.
func (f *fault) outcome() txn.Outcome {
	o := f.said
	o.Class, o.Detail, o.RetryAfter = f.class, f.detail, f.retryAfter
	return o
}

// faultOf reads an error of rpc.Client. Notes are nil when the error is one answer out of a batch.
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

// refusal is a node's own answer.
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

// httpFault looks for a JSON-RPC error in the body first: some gateways put "nonce too low" under a status of 400 or 500.
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
		a.Message += ": " + secrets.hide(string(e.Body[:min(len(e.Body), outcome.TextLimit)]))
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

// describe names a failure of the transport in our own words: the libraries' texts hold addresses, and addresses hold API keys.
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
		return err.Error() // our own words
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &dns):
		return "the host's name could not be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the host is unreachable"
	case errors.As(err, &cert), errors.As(err, &authority), errors.As(err, &record):
		return "TLS failed: the certificate or the protocol is not accepted"
	case errors.As(err, &tooLarge):
		return fmt.Sprintf("the answer is larger than %d bytes", tooLarge.Limit)
	case errors.As(err, &syntax), errors.As(err, &wrongType):
		return "the answer is not the JSON-RPC that was expected"
	case errors.Is(err, rpc.ErrNoResult), errors.Is(err, rpc.ErrMissingBatchResponse):
		return "the answer lacks the result"
	case errors.Is(err, errConnClosed),
		errors.Is(err, rpc.ErrClientQuit),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed):
		return "the connection closed before the answer"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	if refused := (*handshakeError)(nil); errors.As(err, &refused) {
		return fmt.Sprintf("the WebSocket handshake was refused with HTTP %d", refused.status)
	}
	return "the transport failed"
}
