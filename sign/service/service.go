// Package service is the client of fencepost.signer.v1.SignerService, which a user's own signer
// implements.
package service

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/txn"
)

// maxReply is the size of the largest reply: a transaction of 128 KiB, the limit of pools.
const maxReply = 256 << 10

// reconnect makes a signer available soon after its return: by default, gRPC waits up to two
// minutes between attempts.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
	},
	MinConnectTimeout: 5 * time.Second,
}

// Holder is a holder whose keys are in a SignerService.
type Holder struct {
	keys   *sign.KeyList
	conn   *grpc.ClientConn
	client signerv1.SignerServiceClient
}

// Open returns a holder. It connects with the first call.
func Open(e endpoint.Endpoint, keys *sign.KeyList) (*Holder, error) {
	host, err := e.Host()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(reconnect),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return endpoint.Dial(ctx, "tcp", address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
		grpc.WithPerRPCCredentials(token{e}),
	}
	if e.Secure() {
		config, err := e.TLS()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	} else {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(host, options...)
	if err != nil {
		return nil, fmt.Errorf("open signer service: %w", err)
	}
	return &Holder{keys, conn, signerv1.NewSignerServiceClient(conn)}, nil
}

// Close closes the connection.
func (h *Holder) Close() error { return h.conn.Close() }

// Sign requests a signature. Errors: txn.ErrKeyMissing, txn.ErrUnavailable.
func (h *Holder) Sign(ctx context.Context, u txn.Unsigned) ([]byte, error) {
	if _, err := h.keys.Find(ctx, u.From); err != nil {
		return nil, err
	}
	reply, err := h.client.SignTransaction(ctx, request(u))
	if err != nil {
		return nil, failure(err)
	}
	return reply.GetSignedTransaction(), nil
}

// Addresses returns the listed accounts.
func (h *Holder) Addresses(context.Context) ([]txn.Address, error) {
	return h.keys.Addresses(), nil
}

// Check asks for the key of an account. Errors: txn.ErrKeyMissing, txn.ErrUnavailable.
func (h *Holder) Check(ctx context.Context, account txn.Address) error {
	if _, err := h.keys.Find(ctx, account); err != nil {
		return err
	}
	_, err := h.client.CheckAccount(ctx, &signerv1.CheckAccountRequest{Address: account.Hex()})
	if err != nil {
		return failure(err)
	}
	return nil
}

func request(u txn.Unsigned) *signerv1.SignTransactionRequest {
	r := &signerv1.SignTransactionRequest{
		ChainId:  uint64(u.ChainID),
		From:     u.From.Hex(),
		Nonce:    uint64(u.Nonce),
		Value:    u.Payload.Value.Dec(),
		Data:     u.Payload.Data,
		GasLimit: u.GasLimit,

		Submitter: u.Purpose.Submitter,
		TxId:      u.Purpose.TxID.String(),
		RequestId: u.Purpose.RequestID,
		Attempt:   uint32(u.Purpose.Attempt),
		Kind:      kinds[u.Purpose.Kind],
	}
	if u.Payload.To != nil {
		r.To = u.Payload.To.Hex()
	}
	if u.Fees.Legacy {
		r.GasPrice = u.Fees.Cap.Dec()
	} else {
		r.MaxFeePerGas, r.MaxPriorityFeePerGas = u.Fees.Cap.Dec(), u.Fees.Tip.Dec()
	}
	return r
}

var kinds = map[txn.AttemptKind]signerv1.AttemptKind{
	txn.Original: signerv1.AttemptKind_ATTEMPT_KIND_ORIGINAL,
	txn.Bump:     signerv1.AttemptKind_ATTEMPT_KIND_BUMP,
	txn.Cancel:   signerv1.AttemptKind_ATTEMPT_KIND_CANCEL,
}

// maxMessage bounds how much of a signer's message gets into a log.
const maxMessage = 200

// failure classifies an error of the signer. Only its own NOT_FOUND is final: one of a proxy in
// between would carry another code (HTTP 404 is UNIMPLEMENTED).
func failure(err error) error {
	s, _ := status.FromError(err)
	message := s.Message()
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	if s.Code() == codes.NotFound {
		return fmt.Errorf("%w in the signer service: %q", txn.ErrKeyMissing, message)
	}
	return fmt.Errorf("%w: signer service: %s: %q", txn.ErrUnavailable, s.Code(), message)
}

// token adds the bearer token to each call.
type token struct{ endpoint.Endpoint }

// GetRequestMetadata returns the header of a call.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := t.Token()
	switch {
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	case text == "":
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + text}, nil
}

// RequireTransportSecurity allows plain text, which the configuration accepts on loopback only.
func (t token) RequireTransportSecurity() bool { return false }
