package fencepost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// NonceContext is a reserved nonce, for the handler of [Client.WithNonce].
type NonceContext struct {
	Nonce         uint64
	ChainID       uint64
	From          string // address of the account
	ReservationID string
}

// NonceResult is the result of a handler: [SignedTx] or [SentTx].
type NonceResult struct {
	raw  []byte
	hash string
}

// SignedTx has Fencepost broadcast a signed transaction, and track it to finality.
func SignedTx(raw []byte) NonceResult { return NonceResult{raw: raw} }

// SentTx reports the hash ("0x" and 64 hex digits) of a transaction that the handler has broadcast
// itself.
func SentTx(hash string) NonceResult { return NonceResult{hash: hash} }

// NonceHandler signs a transaction for a reserved nonce. Any error, but for [NeverSigned], means
// that a signed transaction may exist.
type NonceHandler func(ctx context.Context, n NonceContext) (NonceResult, error)

// NeverSigned is an error of a handler that has signed nothing for its nonce and never will: the
// nonce is reserved for another call. Use it only if that is certain.
func NeverSigned(cause error) error { return neverSigned{cause} }

type neverSigned struct{ cause error }

func (e neverSigned) Error() string { return "never signed: " + e.cause.Error() }
func (e neverSigned) Unwrap() error { return e.cause }

// NonceOptions configure [Client.WithNonce]. The zero value has the defaults.
type NonceOptions struct {
	// RequestID names the reservation; default: a random one. A repeated call with the same id gets
	// the same nonce. While it is reserved, its handler must then sign the same transaction; after
	// that, the call returns its handle and runs no handler.
	RequestID string
	// Holder names this process; default: a name of its host and process id, and a random part.
	// While the nonce of a RequestID is reserved, another holder gets an error
	// (IDEMPOTENCY_KEY_REUSED), so that its handler does not run as well.
	Holder string
	// TTL is the time until the reservation of a process that died expires; at least 1 s, default
	// 30 s. While the handler runs, the reservation is extended.
	TTL time.Duration
}

const (
	defaultNonceTTL = 30 * time.Second
	noncePoll       = time.Second
	// nonceReport limits the report of a failed handler, which outlives its context.
	nonceReport = 30 * time.Second
	maxReason   = 512 // bytes
)

// WithNonce reserves a nonce of a submitter in mode EXTERNAL, runs the handler with it, and reports
// the result: signed bytes are submitted, a hash is recorded. It extends the reservation while the
// handler runs.
//
// After an error or a panic of the handler, or of the report, the nonce is quarantined: a signed
// transaction may exist, so it is not used again before the chain shows that, or an operator
// decides. Only an error of [NeverSigned] releases it. If this process dies, the reservation
// expires, with the same effect.
func (c *Client) WithNonce(ctx context.Context, submitter string, handler NonceHandler,
	o NonceOptions) (*NonceHandle, error) {
	if o.RequestID == "" {
		o.RequestID = rand.Text()
	}
	if o.Holder == "" {
		o.Holder = thisProcess()
	}
	if o.TTL <= 0 {
		o.TTL = defaultNonceTTL
	}
	allocated, err := c.Nonces.AllocateNonce(ctx, &pb.AllocateNonceRequest{Submitter: submitter,
		RequestId: o.RequestID, Holder: o.Holder, Ttl: durationpb.New(o.TTL)})
	if err != nil {
		return nil, err
	}
	n := allocated.GetNonce()
	if n.GetState() != pb.NonceState_NONCE_STATE_RESERVED {
		return c.nonceHandle(n), nil // an earlier call with this request id has ended
	}
	reported := false
	defer func() {
		if !reported { // the handler panicked
			_ = c.giveUpNonce(ctx, n, errors.New("the handler panicked"))
		}
	}()
	result, err := c.runHandler(ctx, n, handler, o.TTL)
	if err == nil {
		n, err = c.reportNonce(ctx, n, result)
	}
	reported = true
	if err != nil {
		return nil, errors.Join(err, c.giveUpNonce(ctx, allocated.GetNonce(), err))
	}
	return c.nonceHandle(n), nil
}

// thisProcess is the default holder of reservations. No other process has the same.
var thisProcess = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s/%d/%s", shorten(host, maxHost), os.Getpid(), rand.Text())
})

// maxHost keeps a default holder within its limit of 128 characters.
const maxHost = 64

// runHandler extends the reservation while the handler runs.
func (c *Client) runHandler(ctx context.Context, n *pb.Nonce, handler NonceHandler,
	ttl time.Duration) (NonceResult, error) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause(running, ttl/3) {
			// A failure is not the handler's: a report of an expired reservation is accepted too.
			_, _ = c.Nonces.ExtendReservation(running, &pb.ExtendReservationRequest{
				ReservationId: n.GetReservationId(), Ttl: durationpb.New(ttl)})
		}
	}()
	defer func() { stop(); <-ended }()
	return handler(ctx, NonceContext{Nonce: n.GetNonce(), ChainID: n.GetChainId(),
		From: n.GetAddress(), ReservationID: n.GetReservationId()})
}

// reportNonce reports the result of a handler, also if ctx has ended meanwhile.
func (c *Client) reportNonce(ctx context.Context, n *pb.Nonce,
	result NonceResult) (*pb.Nonce, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nonceReport)
	defer cancel()
	switch id := n.GetReservationId(); {
	case len(result.raw) > 0:
		r, err := c.Nonces.SubmitSigned(ctx,
			&pb.SubmitSignedRequest{ReservationId: id, RawTx: result.raw})
		return r.GetNonce(), err
	case result.hash != "":
		r, err := c.Nonces.RecordNonceHash(ctx,
			&pb.RecordNonceHashRequest{ReservationId: id, TxHash: result.hash})
		return r.GetNonce(), err
	}
	return nil, errors.New("fencepost: the handler returned no result; return SignedTx or SentTx")
}

// giveUpNonce quarantines a nonce, or releases it if nothing was signed for it.
func (c *Client) giveUpNonce(ctx context.Context, n *pb.Nonce, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nonceReport)
	defer cancel()
	id, reason := n.GetReservationId(), shorten(why.Error(), maxReason)
	var err error
	if errors.As(why, new(neverSigned)) {
		_, err = c.Nonces.ReleaseNonce(ctx,
			&pb.ReleaseNonceRequest{ReservationId: id, NeverSigned: true, Reason: reason})
	} else {
		_, err = c.Nonces.QuarantineNonce(ctx,
			&pb.QuarantineNonceRequest{ReservationId: id, Reason: reason})
	}
	if err != nil {
		return fmt.Errorf("nonce %d was not given up and will expire: %w", n.GetNonce(), err)
	}
	return nil
}

// shorten cuts a text to at most n bytes of whole characters.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// NonceHandle is a nonce whose transaction was reported.
type NonceHandle struct {
	client *Client
	nonce  *pb.Nonce
}

func (c *Client) nonceHandle(n *pb.Nonce) *NonceHandle { return &NonceHandle{c, n} }

// Nonce returns the nonce as it was reported.
func (h *NonceHandle) Nonce() *pb.Nonce { return h.nonce }

// Wait returns once the nonce is ACCEPTED, which is final, or RECYCLABLE, because it was never
// used. tx is the transaction that Fencepost tracks for it; nil: none. It is final too, or STUCK,
// which is for an operator. If ctx ends first, the same call waits again.
func (h *NonceHandle) Wait(ctx context.Context) (nonce *pb.Nonce, tx *pb.Tx, err error) {
	for {
		got, err := h.client.Nonces.GetNonce(ctx,
			&pb.GetNonceRequest{ReservationId: h.nonce.GetReservationId()})
		if err != nil {
			return nil, nil, err
		}
		n := got.GetNonce()
		switch n.GetState() {
		case pb.NonceState_NONCE_STATE_ACCEPTED, pb.NonceState_NONCE_STATE_RECYCLABLE:
			if n.GetTxId() == "" {
				return n, nil, nil
			}
			tx, err := h.client.Txs.GetTx(ctx,
				&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: n.GetTxId()}})
			if err != nil || !moves(tx.GetTx().GetState()) {
				return n, tx.GetTx(), err
			}
		}
		select {
		case <-time.After(noncePoll):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// moves reports whether a transaction in a state reaches another one without an operator.
func moves(s pb.TxState) bool {
	return s == pb.TxState_TX_STATE_QUEUED || s == pb.TxState_TX_STATE_ALLOCATED ||
		s == pb.TxState_TX_STATE_TRACKING
}
