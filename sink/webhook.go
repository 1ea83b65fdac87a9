package sink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/hosts"
	"github.com/fencepost/fencepost/txn"
)

// WebhookOptions configure a webhook. All but Roots and AllowPrivate are required.
type WebhookOptions struct {
	URL          string // https, or http
	Encoder      Encoder
	Secrets      func() ([]string, error) // signing keys, newest first; each signs
	Timeout      time.Duration            // of one request
	Concurrency  int                      // requests at once
	AllowPrivate bool                     // deliver to private, link-local and loopback addresses
	Roots        *x509.CertPool           // nil: the system's
	Clock        clock.Clock
}

// Webhook posts each event to a URL, signed as Standard Webhooks define it.
type Webhook struct {
	o      WebhookOptions
	client *http.Client
}

const (
	maxAnswer     = 64 << 10 // bytes of a response that are read
	maxRetryAfter = 24 * time.Hour
)

var errPrivate = errors.New("the address is not public")

// refusePrivate is called with the address that is about to be dialled, after the name was
// resolved: a name that resolves differently the next time cannot evade it.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !hosts.Public(at.Addr()) {
		return errPrivate
	}
	return nil
}

// NewWebhook returns a webhook. It makes no request.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("sink: the URL of the webhook is not an http or https URL")
	}
	if _, err := signingKeys(o.Secrets); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if !o.AllowPrivate {
		dialer.Control = refusePrivate
	}
	transport := &http.Transport{
		Proxy:                  nil, // the guard checks the address that is dialled
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		TLSHandshakeTimeout:    o.Timeout,
		ResponseHeaderTimeout:  o.Timeout,
		MaxResponseHeaderBytes: maxAnswer,
		MaxIdleConnsPerHost:    o.Concurrency,
		MaxConnsPerHost:        2 * o.Concurrency, // new events, and retries
		IdleConnTimeout:        time.Minute,
		ForceAttemptHTTP2:      true,
	}
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return &Webhook{o: o, client: client}, nil
}

// Close closes idle connections.
func (w *Webhook) Close() { w.client.CloseIdleConnections() }

// Deliver posts events of different transactions at the same time, and those of one transaction in
// turn.
func (w *Webhook) Deliver(ctx context.Context, events []*Event) []Result {
	results := make([]Result, len(events))
	keys, err := signingKeys(w.o.Secrets)
	if err != nil {
		return []Result{{Verdict: Unavailable, Cause: err.Error()}}
	}
	groups := map[txn.TxID][]int{}
	var order []txn.TxID
	for i, e := range events {
		if groups[e.Tx] == nil {
			order = append(order, e.Tx)
		}
		groups[e.Tx] = append(groups[e.Tx], i)
	}
	var posts sync.WaitGroup
	slots := make(chan struct{}, w.o.Concurrency)
	for _, id := range order {
		slots <- struct{}{}
		posts.Go(func() {
			defer func() { <-slots }()
			failed := Result{}
			for _, i := range groups[id] {
				if failed.Verdict == Done {
					failed = w.post(ctx, events[i], keys)
				}
				results[i] = failed
			}
		})
	}
	posts.Wait()
	return results
}

// post delivers one event.
func (w *Webhook) post(ctx context.Context, e *Event, keys [][]byte) Result {
	if ctx.Err() != nil {
		return Result{Verdict: Unavailable, Cause: "stopping"}
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	m, err := w.o.Encoder.Encode(e)
	if err != nil {
		return Result{Verdict: Refused, Cause: err.Error()}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL,
		bytes.NewReader(m.Body))
	if err != nil {
		return Result{Verdict: Unavailable, Cause: "the URL is malformed"}
	}
	request.Header.Set("Content-Type", m.ContentType)
	request.Header.Set("User-Agent", "fencepost")
	for _, a := range m.Attributes {
		request.Header.Set("Ce-"+a.Name, percentEncoded(a.Value))
	}
	sign(request.Header, m, w.o.Clock.Now(), keys)
	response, err := w.client.Do(request)
	if err != nil {
		return failedRequest(err)
	}
	defer response.Body.Close()
	// Read, so that the connection can be used again; a longer answer closes it.
	_, err = io.CopyN(io.Discard, response.Body, maxAnswer)
	accepted := response.StatusCode >= 200 && response.StatusCode < 300
	if err != nil && !errors.Is(err, io.EOF) && !accepted {
		return failedRequest(err)
	}
	return w.judge(response)
}

// judge maps an answer to a result.
func (w *Webhook) judge(response *http.Response) Result {
	cause := fmt.Sprintf("HTTP status %d", response.StatusCode)
	after := retryAfter(response.Header.Get("Retry-After"), w.o.Clock.Now())
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return Result{Verdict: Done}
	case code == http.StatusGone:
		return Result{Verdict: Gone, Cause: cause}
	case code >= 300 && code < 400:
		return Result{Verdict: Retry, After: after, Cause: cause + "; redirects are not followed"}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && after > 0:
		return Result{Verdict: Unavailable, After: after, Cause: cause}
	}
	return Result{Verdict: Retry, After: after, Cause: cause}
}

// retryAfter reads the header: seconds, or a time. 0: none.
func retryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return max(0, min(d, maxRetryAfter))
}

// failedRequest describes a request without an answer, without the URL. A receiver that cannot be
// reached is unavailable for all events; one that does not answer may fail on this event alone.
func failedRequest(err error) Result {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errPrivate):
		return Result{Verdict: Unavailable, Cause: "the address is private; " +
			"allow it with webhook.allow_private, or correct the URL"}
	case errors.As(err, &dns):
		return Result{Verdict: Unavailable, Cause: "the host name is not found"}
	case errors.As(err, &certificate):
		return Result{Verdict: Unavailable, Cause: "the certificate of the receiver is invalid"}
	case errors.As(err, &op) && op.Op == "dial":
		return Result{Verdict: Unavailable, Cause: "no connection to the receiver"}
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return Result{Verdict: Retry, Cause: "no answer in time"}
	}
	return Result{Verdict: Retry, Cause: "the connection was closed before an answer"}
}
